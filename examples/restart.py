"""Training that torchrun starts again after a rank was lost, and that goes on from its last checkpoint.

    torchrun --nproc-per-node 2 --max-restarts 3 examples/restart.py --checkpoint /tmp/checkpoint.pt --lose-rank 1

When a rank dies, the others get an error within a second, or within ten if its machine is gone, and end; torchrun then starts all ranks
again, which may be fewer. On several machines the checkpoint has to be in a directory that all of them have.
"""
import argparse
import os
import signal

import torch
import torch.distributed as dist
import unisono.torch  # noqa: F401  makes "unisono" a backend of torch.distributed

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--checkpoint", required=True, help="goes on from this file if it is there")
parser.add_argument("--lose-rank", type=int, help="this rank kills itself, the first time that it comes so far")
parser.add_argument("--at-step", type=int, default=45)
options = parser.parse_args()

dist.init_process_group("unisono")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
torch.set_num_threads(1)

model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
samples = torch.randn(512, 8)
targets = torch.sin(samples.sum(dim=1, keepdim=True))
my_samples, my_targets = samples[rank::ranks], targets[rank::ranks]

first_step = 0
found = [torch.load(options.checkpoint) if rank == 0 and os.path.exists(options.checkpoint) else None]
dist.broadcast_object_list(found)  # what rank 0 has read, so that no rank goes on from another file
if found[0]:
    first_step = found[0]["step"]
    model.load_state_dict(found[0]["model"])
    optimizer.load_state_dict(found[0]["optimizer"])
    if rank == 0:
        print(f"{ranks} ranks go on at step {first_step}", flush=True)
parallel = torch.nn.parallel.DistributedDataParallel(model)

for step in range(first_step, options.steps):
    if rank == options.lose_rank and step == options.at_step and first_step == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    loss = torch.nn.functional.mse_loss(parallel(my_samples), my_targets, reduction="sum") * (ranks / len(samples))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == options.steps - 1:
        dist.all_reduce(mean := loss.detach() / ranks)
        if rank == 0:
            print(f"step {step:>3}: loss {mean:.6f}", flush=True)
            state = {"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, options.checkpoint + ".new")
            os.replace(options.checkpoint + ".new", options.checkpoint)  # there is a whole checkpoint at any moment

dist.destroy_process_group()
