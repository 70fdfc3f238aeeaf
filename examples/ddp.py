"""Training with DistributedDataParallel over Unisono: unisono run -n 2 python3 examples/ddp.py

Two lines differ from a program for Gloo: the import, and the backend's name. `--backend gloo` shows that the losses are the same.
"""
import argparse

import torch
import torch.distributed as dist
import unisono.torch  # noqa: F401  makes "unisono" a backend of torch.distributed

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="unisono")
parser.add_argument("--steps", type=int, default=50)
options = parser.parse_args()

dist.init_process_group(options.backend)
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
torch.set_num_threads(1)

model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
model = torch.nn.parallel.DistributedDataParallel(model)  # the gradients are averaged over the ranks while they are computed
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

samples = torch.randn(512, 8)
targets = torch.sin(samples.sum(dim=1, keepdim=True))
my_samples, my_targets = samples[rank::ranks], targets[rank::ranks]

for step in range(options.steps):
    loss = torch.nn.functional.mse_loss(model(my_samples), my_targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == options.steps - 1:
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        if rank == 0:
            print(f"step {step:>3}: loss {mean.item() / ranks:.6f}")

weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
everybodys = [torch.empty_like(weights) for _ in range(ranks)]
dist.all_gather(everybodys, weights)
same = all(torch.equal(weights, other) for other in everybodys)
print(f"rank {rank}: {weights.numel()} weights, {'the same' if same else 'DIFFERENT'} on all {ranks} ranks")
dist.destroy_process_group()
