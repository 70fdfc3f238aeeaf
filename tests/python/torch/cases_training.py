"""Training steps: the losses are those that Gloo gives."""
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def model_of(group, **options):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.BatchNorm1d(50), torch.nn.Linear(50, 3))
    return DistributedDataParallel(layers, process_group=group, **options)


def losses_of(world, group, steps=6, prepare=lambda model: None, **options):
    model = model_of(group, **options)
    prepare(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        torch.manual_seed(100 * step + world.rank)
        optimizer.zero_grad()
        loss = model(torch.rand(16, 20)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compare(world, **options):
    ours = losses_of(world, dist.group.WORLD, **options)
    theirs = losses_of(world, world.gloo, **options)
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-6, atol=1e-7)
    assert ours[-1] < ours[0], "nothing was learnt"


def case_losses_are_those_of_gloo(world):
    compare(world)


def case_with_many_small_buckets(world):
    compare(world, bucket_cap_mb=0.001, gradient_as_bucket_view=True)


def case_with_a_static_graph(world):
    compare(world, static_graph=True)


def case_with_hooks(world):
    for hook in (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook):  # torch wants a GPU for bfloat16
        compare(world, prepare=lambda model: model.register_comm_hook(None, hook))


def case_without_synchronising(world):
    model = model_of(None)
    with model.no_sync():
        model(torch.rand(4, 20) * (world.rank + 1)).sum().backward()
    model(torch.rand(4, 20)).sum().backward()
    gradient = model.module[0].weight.grad
    everybody = [torch.empty_like(gradient) for _ in world.ranks]
    dist.all_gather(everybody, gradient)
    for other in everybody:
        torch.testing.assert_close(other, gradient)


def case_with_different_numbers_of_inputs(world):
    gradients = []
    for group in (dist.group.WORLD, world.gloo):
        model = model_of(group)
        torch.manual_seed(world.rank)
        with Join([model]):
            for _ in range(3 + 2 * world.rank):
                model(torch.rand(4, 20)).sum().backward()
        gradients.append(model.module[0].weight.grad)
    torch.testing.assert_close(*gradients)
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == world.size


def case_with_sparse_gradients(world):
    results = []
    for group in (dist.group.WORLD, world.gloo):
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Embedding(10, 4, sparse=True), process_group=group)
        model(torch.tensor([world.rank, 3, 3])).sum().backward()
        results.append(model.module.weight.grad.to_dense())
    torch.testing.assert_close(results[0], results[1])


def case_with_an_optimizer_in_parts(world):
    everything = []
    for group in (dist.group.WORLD, world.gloo):
        model = model_of(group)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, process_group=group, lr=0.01)
        losses = []
        for step in range(10):
            torch.manual_seed(step)
            optimizer.zero_grad()
            loss = model(torch.rand(16, 20)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        everything.append(losses)
    torch.testing.assert_close(torch.tensor(everything[0]), torch.tensor(everything[1]), rtol=1e-6, atol=1e-7)
    assert everything[0][-1] < everything[0][0], "nothing was learnt"


def case_gradients_through_collectives(world):
    from torch.distributed.nn import functional

    tensor = torch.full((3,), float(world.rank + 1), requires_grad=True)
    functional.all_reduce(tensor * 2).sum().backward()
    torch.testing.assert_close(tensor.grad, torch.full((3,), 2.0 * world.size))
