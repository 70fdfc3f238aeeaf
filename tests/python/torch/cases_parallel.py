"""What is built on top of process groups: sharded training, tensor parallelism, checkpoints, functional collectives."""
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))


def mesh_of(world):
    return init_device_mesh("cpu", (world.size,))


def case_fully_sharded(world):
    """The same losses as without sharding, on the mean over all ranks' inputs."""
    sharded, whole = layers(), layers()
    for layer in (sharded[0], sharded[2]):
        fully_shard(layer, mesh=mesh_of(world))
    fully_shard(sharded, mesh=mesh_of(world))
    ours, theirs = (torch.optim.SGD(model.parameters(), lr=0.1) for model in (sharded, whole))
    for step in range(4):
        inputs = [torch.rand(4, 8, generator=torch.Generator().manual_seed(10 * step + rank)) for rank in world.ranks]
        ours.zero_grad()
        theirs.zero_grad()
        sharded(inputs[world.rank]).square().mean().backward()
        torch.stack([whole(each).square().mean() for each in inputs]).mean().backward()
        ours.step()
        theirs.step()
    for mine, other in zip(sharded.parameters(), whole.parameters()):
        torch.testing.assert_close(mine.full_tensor(), other)


def case_tensor_parallel(world):
    whole, parallel = layers(), layers()
    parallelize_module(parallel, mesh_of(world), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    inputs = torch.rand(5, 8, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(parallel(inputs), whole(inputs))
    parallel(inputs).sum().backward()
    whole(inputs).sum().backward()
    torch.testing.assert_close(parallel[0].weight.grad.full_tensor(), whole[0].weight.grad)


def case_distributed_tensors(world):
    tensor = torch.arange(24.0).reshape(6, 4)
    mesh = mesh_of(world)
    rows = distribute_tensor(tensor, mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    assert columns.to_local().shape == (6, 4 // world.size)
    torch.testing.assert_close(columns.redistribute(mesh, [Replicate()]).to_local(), tensor)
    torch.testing.assert_close(rows.sum().full_tensor(), tensor.sum())
    assert isinstance(rows @ columns.T, DTensor)


def case_checkpoints(world):
    folder = f"{world.folder}/checkpoint"
    model = layers()
    fully_shard(model, mesh=mesh_of(world))
    saved = {"model": get_model_state_dict(model)}
    wanted = [parameter.full_tensor().clone() for parameter in model.parameters()]
    checkpoint.save(saved, checkpoint_id=folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    loaded = {"model": get_model_state_dict(model)}
    checkpoint.load(loaded, checkpoint_id=folder)
    for parameter, before in zip(model.parameters(), wanted):
        torch.testing.assert_close(parameter.full_tensor(), before)


def case_functional_collectives(world):
    group = dist.group.WORLD
    mine = torch.full((2, 2), float(world.rank))
    total = functional.all_reduce(mine, "sum", group)
    torch.testing.assert_close(total + 0, torch.full((2, 2), float(sum(world.ranks))))
    assert mine[0, 0] == world.rank
    gathered = functional.all_gather_tensor(mine, 0, group)
    assert (gathered + 0)[:, 0].tolist() == [float(rank) for rank in world.ranks for _ in range(2)]
    part = functional.reduce_scatter_tensor(torch.ones(2 * world.size, 3), "avg", 0, group)
    torch.testing.assert_close(part + 0, torch.ones(2, 3))
    exchanged = functional.all_to_all_single(torch.arange(float(world.size)) + 10 * world.rank, None, None, group)
    assert (exchanged + 0).tolist() == [10.0 * rank + world.rank for rank in world.ranks]
    both = functional.all_reduce_coalesced([torch.ones(2), torch.ones(3)], "sum", group)
    assert [(each + 0)[0].item() for each in both] == [world.size, world.size]
    wholes = functional.all_gather_into_tensor_coalesced([torch.ones(2), torch.zeros(1)], group)
    assert [(each + 0).numel() for each in wholes] == [2 * world.size, world.size]


def case_with_profiling(world):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(3), async_op=True).wait()
    assert sum(event.count for event in profile.key_averages() if event.key == "unisono:all_reduce") == 2
