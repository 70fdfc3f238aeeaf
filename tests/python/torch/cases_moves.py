"""What is moved and not added: every dtype, all forms; beside Gloo: cases_parity.py."""
import torch
import torch.distributed as dist
from oracle import ALL_DTYPES, bits, layouts, same, spread


def noise(rank, shape, dtype, seed=0):
    """Any bytes at all: nobody looks at them. Only bool has to be one."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    size = torch.empty(0, dtype=dtype).element_size()
    numbers = torch.randint(0, 2 if dtype == torch.bool else 256, (*shape, size), dtype=torch.uint8, generator=generator)
    return numbers.view(dtype).reshape(shape)


def nothing(shape, dtype):
    return torch.zeros((*shape, torch.empty(0, dtype=dtype).element_size()), dtype=torch.uint8).view(dtype).reshape(shape)


def wait(work):
    if work is not None:
        work.wait()


def joined(tensors):
    dtype = tensors[0].dtype
    return torch.cat([bits(tensor).flatten() for tensor in tensors]).view(dtype)


def case_broadcast(world):
    for dtype in ALL_DTYPES:
        for root in world.ranks:
            for shape in ((), (0, 2), (4, 3)):
                for index, tensor in enumerate(layouts(noise(world.rank, shape, dtype))):
                    wait(dist.broadcast(tensor, root, async_op=bool(index)))
                    same(tensor, noise(root, shape, dtype), f"{dtype} {shape} from {root}")


def case_all_gather(world):
    for dtype in ALL_DTYPES:
        for shape in ((), (0,), (4, 3)):
            for index, tensor in enumerate(layouts(noise(world.rank, shape, dtype))):
                outputs = [spread(nothing(shape, dtype)) if index else nothing(shape, dtype) for _ in world.ranks]
                wait(dist.all_gather(outputs, tensor, async_op=bool(index)))
                for rank, output in enumerate(outputs):
                    same(output, noise(rank, shape, dtype), f"{dtype} {shape} of {rank}")


def case_all_gather_of_different_sizes(world):
    outputs = [nothing((rank + 1, 2), torch.int16) for rank in world.ranks]
    dist.all_gather(outputs, noise(world.rank, (world.rank + 1, 2), torch.int16))
    for rank, output in enumerate(outputs):
        same(output, noise(rank, (rank + 1, 2), torch.int16))


def case_all_gather_into_tensor_concatenated_and_stacked(world):
    for dtype in ALL_DTYPES:
        everything = joined([noise(rank, (2, 3), dtype) for rank in world.ranks])
        for shape in ((world.size * 2, 3), (world.size, 2, 3)):
            for index, tensor in enumerate(layouts(noise(world.rank, (2, 3), dtype))):
                output = spread(nothing(shape, dtype)) if index else nothing(shape, dtype)
                wait(dist.all_gather_into_tensor(output, tensor, async_op=bool(index)))
                same(output, everything.reshape(shape), f"{dtype} {shape}")


def case_of_a_number_without_dimensions(world):
    output = torch.zeros(world.size)
    dist.all_gather_into_tensor(output, torch.tensor(float(world.rank)))
    same(output, torch.arange(float(world.size)))


def case_gather_and_scatter(world):
    for dtype in ALL_DTYPES:
        for root in world.ranks:
            for index, tensor in enumerate(layouts(noise(world.rank, (2, 3), dtype))):
                outputs = [nothing((2, 3), dtype) for _ in world.ranks] if world.rank == root else None
                wait(dist.gather(tensor, outputs, root, async_op=bool(index)))
                for rank, output in enumerate(outputs or []):
                    same(output, noise(rank, (2, 3), dtype), f"gather {dtype} to {root}")
            for index, output in enumerate(layouts(nothing((2, 3), dtype))):
                parts = [noise(10 + rank, (2, 3), dtype) for rank in world.ranks] if world.rank == root else None
                wait(dist.scatter(output, parts, root, async_op=bool(index)))
                same(output, noise(10 + world.rank, (2, 3), dtype), f"scatter {dtype} from {root}")


def case_all_to_all(world):
    for dtype in ALL_DTYPES:
        for index in range(2):
            inputs = [noise(100 * world.rank + to, (to + world.rank, 2), dtype) for to in world.ranks]
            outputs = [nothing((source + world.rank, 2), dtype) for source in world.ranks]
            if index:
                inputs, outputs = [spread(tensor) for tensor in inputs], [spread(tensor) for tensor in outputs]
            wait(dist.all_to_all(outputs, inputs, async_op=bool(index)))
            for source, output in enumerate(outputs):
                same(output, noise(100 * source + world.rank, (source + world.rank, 2), dtype), f"{dtype} of {source}")


def case_all_to_all_single(world):
    for dtype in ALL_DTYPES:
        parts = [[noise(100 * rank + to, (2, 3), dtype) for to in world.ranks] for rank in world.ranks]
        expected = joined([parts[rank][world.rank] for rank in world.ranks]).reshape(2 * world.size, 3)
        for index, tensor in enumerate(layouts(joined(parts[world.rank]).reshape(2 * world.size, 3))):
            output = nothing((2 * world.size, 3), dtype)
            wait(dist.all_to_all_single(output, tensor, async_op=bool(index)))
            same(output, expected, str(dtype))


def case_all_to_all_single_with_splits(world):
    for dtype in (torch.float32, torch.int8, torch.bfloat16, torch.complex128, torch.uint16):
        parts = [[noise(100 * rank + to, (rank + 2 * to, 3), dtype) for to in world.ranks] for rank in world.ranks]
        inputs = parts[world.rank]
        outputs = [parts[rank][world.rank] for rank in world.ranks]
        output = nothing((sum(len(part) for part in outputs), 3), dtype)
        wait(dist.all_to_all_single(output, joined(inputs).reshape(-1, 3), [len(part) for part in outputs],
                                    [len(part) for part in inputs], async_op=dtype == torch.int8))
        same(output, joined(outputs).reshape(-1, 3), str(dtype))


def case_all_to_all_with_splits_on_one_side(world):
    equal = [2] * world.size
    tensor = torch.arange(2.0 * world.size) + 10 * world.rank
    output = torch.zeros(2 * world.size)
    dist.all_to_all_single(output, tensor, output_split_sizes=equal)
    expected = torch.cat([torch.arange(2.0) + 2 * world.rank + 10 * rank for rank in world.ranks])
    same(output, expected)


def case_coalesced_gathers(world):
    dtypes = (torch.float32, torch.uint8, torch.float32)
    inputs = [noise(world.rank, (index + 1, 2), dtype, index) for index, dtype in enumerate(dtypes)]
    floats = inputs[::2]  # torch asks for one dtype here
    outputs = [[nothing(tensor.shape, tensor.dtype) for tensor in floats] for _ in world.ranks]
    dist.all_gather_coalesced(outputs, floats)
    for rank, row in enumerate(outputs):
        for index, output in enumerate(row):
            same(output, noise(rank, (2 * index + 1, 2), torch.float32, 2 * index))
    wholes = [nothing((world.size, *tensor.shape), tensor.dtype) for tensor in inputs]
    with dist._coalescing_manager(async_ops=True) as manager:
        for whole, tensor in zip(wholes, inputs):
            dist.all_gather_into_tensor(whole, tensor)
    manager.wait()
    for index, whole in enumerate(wholes):
        same(whole, torch.stack([noise(rank, (index + 1, 2), dtypes[index], index) for rank in world.ranks]))


def case_objects(world):
    everybody = [None] * world.size
    dist.all_gather_object(everybody, {"rank": world.rank, "text": "x" * world.rank})
    assert [each["rank"] for each in everybody] == world.ranks
    some = [("first", 1), 2.5] if world.rank == 0 else [None, None]
    dist.broadcast_object_list(some, 0)
    assert some == [("first", 1), 2.5]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {rank}" for rank in world.ranks] if world.rank == 0 else None, 0)
    assert mine == [f"for {world.rank}"]
    gathered = [None] * world.size if world.rank == world.size - 1 else None
    dist.gather_object(world.rank * 2, gathered, world.size - 1)
    assert gathered in (None, [2 * rank for rank in world.ranks])


def case_tensors_with_more_dimensions_than_the_library_counts(world):
    shape = (1, 2, 1, 2, 1, 2, 1, 2, 1, 2)
    tensor = torch.ones(shape)
    dist.all_reduce(tensor)
    same(tensor, torch.full(shape, float(world.size)))


def case_inference_mode(world):
    with torch.inference_mode():
        for tensor in layouts(torch.ones(4)):
            dist.all_reduce(tensor, async_op=True).wait()
            same(tensor, torch.full((4,), float(world.size)))
            dist.broadcast(tensor, 0)
            dist.all_gather([torch.zeros(4) for _ in world.ranks], tensor)
        inside = spread(torch.ones(3))
        work = dist.all_reduce(inside, async_op=True)
    work.wait()
    same(inside, torch.full((3,), float(world.size)))


def case_tensors_that_need_grad_keep_their_graph(world):
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * weight).sum()
    version = weight._version
    for tensor in (weight, weight.detach()):
        dist.broadcast(tensor, 0)
    dist.all_gather([torch.zeros(3) for _ in world.ranks], spread(torch.ones(3)).requires_grad_())
    assert weight._version == version and weight.is_leaf and weight.requires_grad
    loss.backward()
    same(weight.grad, torch.full((3,), 2.0))


def case_barriers(world):
    dist.barrier()
    dist.barrier(async_op=True).wait()
    dist.group.WORLD.monitored_barrier()
    dist.group.WORLD.monitored_barrier(wait_all_ranks=True)
