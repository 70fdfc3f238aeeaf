"""Training that goes on after ranks or machines were lost.

    unisono run -n 4 --keep-going python3 examples/survive.py --lose-rank 2 --at-step 50

The ranks that are left make a smaller group, take the state of its first rank, divide the data anew and train on. If the network was
cut in two, only the larger side does; ranks of the smaller side end with status 3 and write nothing.
"""
import argparse
import io
import os
import signal
import sys

import torch
import unisono
import unisono.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--result", help="save the trained model here")
parser.add_argument("--lose-rank", type=int, help="this rank kills itself")
parser.add_argument("--at-step", type=int, default=50)
options = parser.parse_args()

dist.init_process_group(timeout=60)
me, group, step, whole = dist.get_rank(), dist.group.WORLD, 0, True
torch.manual_seed(0)  # the same weights and samples on every rank
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
samples = torch.randn(512, 8)
targets = torch.sin(samples.sum(dim=1, keepdim=True))


def state_of_the_first(group, step):
    """A rank may have finished a step that failed on another. All go on from where the first one is; returns its step."""
    file = io.BytesIO()
    torch.save([step, model.state_dict(), optimizer.state_dict()], file)
    dist.broadcast_object_list(box := [file.getvalue()], group=group, group_src=0)
    step, weights, moments = torch.load(io.BytesIO(box[0]))
    model.load_state_dict(weights)
    optimizer.load_state_dict(moments)
    return step


def train(group, step):
    mine = slice(dist.get_rank(group), None, dist.get_world_size(group))
    loss = torch.nn.functional.mse_loss(model(samples[mine]), targets[mine], reduction="sum") / len(samples)
    optimizer.zero_grad()
    loss.backward()
    if me == options.lose_rank and step == options.at_step:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce_coalesced([loss := loss.detach(), *(weight.grad for weight in model.parameters())], group=group)
    optimizer.step()
    if dist.get_rank(group) == 0 and (step % 10 == 0 or step == options.steps - 1):
        print(f"step {step:>3}: loss {loss:.6f}", flush=True)


while step < options.steps:
    try:
        if not whole:
            group = dist.shrink_group([], group)
            step, whole = state_of_the_first(group, step), True
            print(f"rank {me}: ranks {dist.get_process_group_ranks(group)} go on at step {step}", flush=True)
        train(group, step)
        step += 1
    except unisono.PeerLostError as error:  # also of ranks that are lost while we shrink
        whole = False
        print(f"rank {me}: {error}", file=sys.stderr, flush=True)
    except unisono.RevokedError as error:
        print(f"rank {me} ends: {error}", file=sys.stderr, flush=True)
        sys.exit(3)

if options.result and dist.get_rank(group) == 0:
    torch.save(model.state_dict(), options.result)
dist.destroy_process_group()
