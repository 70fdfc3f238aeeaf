"""Training that is sharded over all ranks (FSDP2): rank 0 prints the losses."""
import torch
import torch.distributed as dist
import unisono.torch  # noqa: F401
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("unisono")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
torch.set_num_threads(1)
everybody = torch.ones(1000)
dist.all_reduce(everybody)
assert everybody[999] == ranks

model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
mesh = init_device_mesh("cpu", (ranks,))
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
samples = torch.randn(64, 8)
for step in range(10):
    loss = model(samples[rank::ranks]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step}: loss {mean.item() / ranks:.6f}", flush=True)
dist.destroy_process_group()
