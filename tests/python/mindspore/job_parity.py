"""A job of msrun: the same calls through mindspore.mint.distributed and through Unisono, and MindSpore's own comm_func.

Prints one line per comparison; the test counts them.
"""
import mindspore
import numpy
from mindspore import communication, mint
from mindspore.communication import comm_func as their_comm_func
from mindspore.mint import distributed as theirs

communication.init()  # msrun's scheduler goes no further than this

import unisono.distributed as ours  # noqa: E402
from unisono import comm_func  # noqa: E402

ours.init_process_group()
rank, size = ours.get_rank(), ours.get_world_size()
assert (rank, size) == (communication.get_rank(), communication.get_group_size()) == (theirs.get_rank(), theirs.get_world_size())


def numbers(shape, dtype, seed):
    generator = numpy.random.default_rng([seed, rank])
    whole = numpy.asarray(generator.integers(0, 9, shape)).astype(dtype)
    return mindspore.Tensor(whole + numpy.asarray(generator.random(shape)).astype(dtype) if dtype.startswith("float") else whole)


def same(name, *pairs):
    equal = all(one.dtype == other.dtype and numpy.array_equal(one.asnumpy(), other.asnumpy()) for one, other in pairs)
    print(f"rank {rank}: {name}: {'same' if equal else f'DIFFERENT: {pairs}'}", flush=True)


def copy(tensor):
    return mindspore.Tensor(tensor.asnumpy().copy())


def zeros(tensor):
    return mindspore.Tensor(numpy.zeros_like(tensor.asnumpy()))


SHAPES = ((), (1,), (7,), (4, 6), (1000, 33))
for shape in SHAPES:
    for dtype in ("float32", "float64", "float16", "int32", "int64"):
        given = numbers(shape, dtype, 1)
        for op, their_op in (("sum", "sum"), ("max", "max"), ("min", "min"), ("prod", "prod")):
            try:
                expected = copy(given)
                theirs.all_reduce(expected, op=their_op)
                expected.asnumpy()
            except Exception as error:
                print(f"rank {rank}: all_reduce {dtype} {op}: MindSpore refuses: {str(error).splitlines()[0][:200]}", flush=True)
                continue
            in_place = copy(given)
            ours.all_reduce(in_place, op=getattr(ours.ReduceOp, op.upper() if op != "prod" else "PRODUCT"))
            same(f"all_reduce {dtype} {shape} {op}", (expected, in_place), (expected, comm_func.all_reduce(given, op)[0]))

        expected, found = [zeros(given) for _ in range(size)], [zeros(given) for _ in range(size)]
        theirs.all_gather(expected, given)
        ours.all_gather(found, given)
        same(f"all_gather {dtype} {shape}", *zip(expected, found))

        parts = [numbers(shape, dtype, 2 + part) for part in range(size)]
        for src in range(size if shape else 0):  # MindSpore's scatter of 0-d tensors ends in a segmentation fault
            expected, found = zeros(given), zeros(given)
            theirs.scatter(expected, parts, src)  # wants the list on every rank
            ours.scatter(found, parts if rank == src else None, src)
            same(f"scatter {dtype} {shape} from {src}", (expected, found))
print(f"rank {rank}: compared", flush=True)

given, world = mint.ones((2, 3)), communication.GlobalComm.WORLD_COMM_GROUP
for name, call in (("all_reduce", lambda: their_comm_func.all_reduce(given, group=world)[0]),
                   ("all_gather_into_tensor", lambda: their_comm_func.all_gather_into_tensor(given, group=world)[0]),
                   ("reduce_scatter_tensor", lambda: their_comm_func.reduce_scatter_tensor(given, group=world)[0]),
                   ("reduce", lambda: their_comm_func.reduce(given, 0, group=world)),
                   ("scatter_tensor", lambda: their_comm_func.scatter_tensor(given, 0, group=world))):
    try:
        print(f"rank {rank}: MindSpore's comm_func.{name} works: {call().asnumpy()}", flush=True)
    except Exception as error:
        print(f"rank {rank}: MindSpore's comm_func.{name} fails: {str(error).splitlines()[0][:200]}", flush=True)
ours.destroy_process_group()
print(f"rank {rank}: done", flush=True)
