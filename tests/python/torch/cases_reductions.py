"""all_reduce, reduce and both reduce_scatters: every dtype and op, against the oracle; beside Gloo: cases_parity.py."""
import torch
import torch.distributed as dist
from oracle import ADDING, given, layouts, near, ops_for, reduced, same, spread

SHAPES = [(), (0,), (3,), (5, 7), (2, 3, 400)]


def op_named(name):
    return getattr(dist.ReduceOp, name)


def check(result, expected, op, what):
    (near if op == "AVG" else same)(result, expected, what)


def finish(call, async_op):
    """Makes the call and waits where there is something to wait for."""
    work = call(async_op=async_op)
    if async_op:
        assert work.wait() is True
        assert work.is_completed() and work.is_success()
    else:
        assert work is None


def each_dtype_and_op():
    for seed, dtype in enumerate(ADDING):
        for op in ops_for(dtype):
            yield seed, dtype, op


def case_all_reduce(world):
    for seed, dtype, op in each_dtype_and_op():
        for shape in SHAPES:
            everybody = [given(rank, shape, dtype, seed) for rank in world.ranks]
            expected = reduced(everybody, op)
            for index, tensor in enumerate(layouts(everybody[world.rank])):
                finish(lambda **how: dist.all_reduce(tensor, op_named(op), **how), async_op=bool(index))
                check(tensor, expected, op, f"{dtype} {op} {shape}")


def case_premul_sum(world):
    for dtype in (torch.float16, torch.float32, torch.float64):
        for factor in (0.5, torch.tensor([0.5], dtype=dtype)):
            everybody = [given(rank, (9,), dtype) for rank in world.ranks]
            tensor = everybody[world.rank].clone()
            dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
            same(tensor, reduced(everybody, "SUM") * 0.5, f"{dtype} {factor}")


def case_the_bits_are_the_same_on_all_ranks(world):
    tensor = torch.rand(10_000, generator=torch.Generator().manual_seed(world.rank)) * 1e6
    dist.all_reduce(tensor)
    everybody = [torch.empty_like(tensor) for _ in world.ranks]
    dist.all_gather(everybody, tensor)
    for other in everybody:
        same(other, tensor)


def case_reduce_changes_only_the_destination(world):
    for seed, dtype, op in each_dtype_and_op():
        for root in world.ranks:
            everybody = [given(rank, (2, 3), dtype, seed) for rank in world.ranks]
            for index, tensor in enumerate(layouts(everybody[world.rank])):
                finish(lambda **how: dist.reduce(tensor, root, op_named(op), **how), async_op=bool(index))
                expected = reduced(everybody, op) if world.rank == root else everybody[world.rank]
                check(tensor, expected, op, f"{dtype} {op} to {root}")


def scattered(world, dtype, seed, shape=(2, 3)):
    """Everybody's list with a tensor for each rank, and what this rank gets by each op."""
    lists = [[given(rank * 10 + part, shape, dtype, seed) for part in world.ranks] for rank in world.ranks]
    return lists, [each[world.rank] for each in lists]


def case_reduce_scatter(world):
    for seed, dtype, op in each_dtype_and_op():
        lists, for_me = scattered(world, dtype, seed)
        expected = reduced(for_me, op)
        for index, output in enumerate(layouts(torch.zeros((2, 3)).to(dtype))):
            inputs = [spread(tensor) if index else tensor for tensor in lists[world.rank]]
            before = [tensor.clone() for tensor in inputs]
            finish(lambda **how: dist.reduce_scatter(output, inputs, op_named(op), **how), async_op=bool(index))
            check(output, expected, op, f"{dtype} {op}")
            for tensor, was in zip(inputs, before):
                same(tensor, was, "inputs are unchanged")


def case_reduce_scatter_with_parts_of_different_sizes(world):
    shapes = [(part + 1, 2) for part in world.ranks]
    lists = [[given(rank * 10 + part, shapes[part], torch.float32) for part in world.ranks] for rank in world.ranks]
    output = torch.zeros(shapes[world.rank])
    dist.reduce_scatter(output, lists[world.rank])
    same(output, reduced([each[world.rank] for each in lists], "SUM"))


def case_reduce_scatter_tensor_concatenated_and_stacked(world):
    for seed, dtype, op in each_dtype_and_op():
        lists, for_me = scattered(world, dtype, seed)
        expected = reduced(for_me, op)
        # torch.cat does not know all dtypes: bytes it knows.
        stacked = torch.stack([tensor.view(torch.uint8) for tensor in lists[world.rank]]).view(dtype)
        for form in (stacked, stacked.flatten(0, 1)):
            for index, tensor in enumerate(layouts(form)):
                output = torch.zeros((2, 3)).to(dtype)
                finish(lambda **how: dist.reduce_scatter_tensor(output, tensor, op_named(op), **how), async_op=bool(index))
                check(output, expected, op, f"{dtype} {op} {tuple(form.shape)}")


def case_coalesced_forms(world):
    shapes, dtypes = [(3,), (2, 2), (), (1000,)], [torch.float32, torch.int64, torch.float32, torch.bfloat16]
    everybody = [[given(rank, shape, dtype, 5) for shape, dtype in zip(shapes, dtypes)] for rank in world.ranks]
    expected = [reduced([each[index] for each in everybody], "SUM") for index in range(len(shapes))]
    tensors = [tensor.clone() for tensor in everybody[world.rank]][::2]
    dist.all_reduce_coalesced(tensors)  # torch asks for one dtype here, and for none below
    for tensor, wanted in zip(tensors, expected[::2]):
        same(tensor, wanted)
    for async_ops in (False, True):
        tensors = [spread(tensor) for tensor in everybody[world.rank]]
        with dist._coalescing_manager(async_ops=async_ops) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        if async_ops:
            manager.wait()
        for tensor, wanted in zip(tensors, expected):
            same(tensor, wanted)
    inputs = [given(world.rank, (world.size * 2, 3), dtype, 6) for dtype in (torch.float32, torch.int32)]
    outputs = [torch.zeros((2, 3), dtype=tensor.dtype) for tensor in inputs]
    with dist._coalescing_manager():
        for output, tensor in zip(outputs, inputs):
            dist.reduce_scatter_tensor(output, tensor)
    for output, tensor in zip(outputs, inputs):
        everything = reduced([given(rank, (world.size * 2, 3), tensor.dtype, 6) for rank in world.ranks], "SUM")
        same(output, everything[2 * world.rank:2 * world.rank + 2])


def case_calls_between_start_and_end_of_coalescing(world):
    """With a device the manager hands each call to the backend, which collects them."""
    one, two = torch.ones(4), torch.arange(3.0) if world.rank == 0 else torch.zeros(3)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.broadcast(two, 0)
        gathered = [torch.zeros(4) for _ in world.ranks]
        dist.all_gather(gathered, one)
    manager.wait()
    same(two, torch.arange(3.0))
    for tensor in gathered:
        same(tensor, one)


def case_sparse_all_reduce(world):
    for dtype in (torch.float32, torch.float64, torch.int64):
        for dense in ((), (2,)):
            indices = torch.tensor([[world.rank, 2, 2], [0, 1, 1]])
            values = torch.ones((3, *dense), dtype=dtype) * (world.rank + 1)
            tensor = torch.sparse_coo_tensor(indices, values, (world.size + 3, 2, *dense))
            expected = tensor.to_dense()
            dist.all_reduce(expected)
            for async_op in (False, True):
                result = tensor.clone()
                finish(lambda **how: dist.all_reduce(result, **how), async_op)
                same(result.to_dense(), expected, f"{dtype} {dense}")
    empty = torch.sparse_coo_tensor(torch.empty((1, 0), dtype=torch.int64), torch.empty(0), (5,))
    dist.all_reduce(empty)
    assert empty._nnz() == 0
    average = torch.sparse_coo_tensor([[0]], [float(world.size)], (2,))
    dist.all_reduce(average, dist.ReduceOp.AVG)
    same(average.to_dense(), torch.tensor([float(world.size), 0.0]))


def case_large_tensors(world):
    tensor = torch.full((3_000_001,), float(world.rank + 1))
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full_like(tensor, sum(range(1, world.size + 1))))


def case_views_that_are_conjugated_or_negated_on_reading(world):
    group = dist.group.WORLD  # dist.all_gather refuses to view the first as real
    for view, wanted in ((torch.full((2,), 1j).conj(), -1j), (torch.full((2,), 2j).conj().imag, -2.0)):
        assert view.is_conj() or view.is_neg()
        parts = [torch.zeros(2, dtype=view.dtype) for _ in world.ranks]
        group.allgather([parts], [view]).wait()
        assert all(part[0] == wanted for part in parts), parts
        group._get_backend(torch.device("cpu")).allgather([parts], [view]).wait()  # past the dispatcher, which resolves them
        assert all(part[0] == wanted for part in parts), parts
