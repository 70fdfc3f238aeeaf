"""The same calls on Gloo and here: every collective, dtype and op that Gloo takes gives the same; what it does not take is compared
with the oracle in cases_reductions.py and cases_moves.py, and here at the limits of each dtype."""
import numpy as np
import torch
import torch.distributed as dist
from oracle import ALL_DTYPES, COMPLEX, FLOATS, INTEGERS, MOVING_ONLY, SMALL_FLOATS, ops_for, reduced, same

COUNT = 12


def extremes(rank, dtype):
    """For integers the ends of the range and what is next to them, so that a sign or a width that is taken wrongly shows; for floats
    numbers whose sums and products are exact."""
    if dtype == torch.bool:
        return torch.tensor([(number >> rank) & 1 == 1 for number in range(COUNT)])
    if dtype in INTEGERS:
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        numbers = [least, most, least + 1, most - 1, 0, 1, 2, 3, most // 2, most // 3, least // 2, 7]
        bits = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]
        turned = numbers[rank:] + numbers[:rank]
        return torch.from_numpy(np.array([number % 2 ** (8 * dtype.itemsize) for number in turned], dtype=bits)).view(dtype)
    numbers = torch.tensor([0, 1, -1, 2, -2, 0.5, -0.5, 4, 1, -4, 2, -1])
    if dtype in COMPLEX:
        return torch.complex(numbers.roll(rank), numbers.roll(rank + 3)).to(dtype)
    return numbers.roll(rank).to(dtype)


def op_named(name):
    return getattr(dist.ReduceOp, name)


def whole(tensors):
    return torch.cat([tensor.view(torch.uint8) for tensor in tensors]).view(tensors[0].dtype)


def parts_of(world, dtype):
    """What this rank has for each."""
    return [extremes(world.rank + 2 * to, dtype) for to in world.ranks]


# What each gives to look at; only what the call promises: Gloo's reduce leaves anything in the tensors of the other ranks.

def all_reduce(world, group, dtype, op):
    tensor = extremes(world.rank, dtype)
    dist.all_reduce(tensor, op_named(op), group=group)
    return [tensor]


def all_reduce_coalesced(world, group, dtype, op):
    tensors = parts_of(world, dtype)
    dist.all_reduce_coalesced(tensors, op_named(op), group=group)
    return tensors


def reduce(world, group, dtype, op):
    tensor = extremes(world.rank, dtype)
    dist.reduce(tensor, world.size - 1, op_named(op), group=group)
    return [tensor] if world.rank == world.size - 1 else []


def reduce_scatter(world, group, dtype, op):
    output = torch.zeros(COUNT, dtype=torch.uint8).to(dtype)
    dist.reduce_scatter(output, parts_of(world, dtype), op_named(op), group=group)
    return [output]


def reduce_scatter_tensor(world, group, dtype, op):
    output = torch.zeros(COUNT, dtype=torch.uint8).to(dtype)
    dist.reduce_scatter_tensor(output, whole(parts_of(world, dtype)), op_named(op), group=group)
    return [output]


def nothing(world, dtype):
    return [torch.zeros(COUNT * dtype.itemsize, dtype=torch.uint8).view(dtype) for _ in world.ranks]


def broadcast(world, group, dtype):
    tensor = extremes(world.rank, dtype)
    dist.broadcast(tensor, 1, group=group)
    return [tensor]


def all_gather(world, group, dtype):
    outputs = nothing(world, dtype)
    dist.all_gather(outputs, extremes(world.rank, dtype), group=group)
    return outputs


def all_gather_into_tensor(world, group, dtype):
    output = whole(nothing(world, dtype))
    dist.all_gather_into_tensor(output, extremes(world.rank, dtype), group=group)
    return [output]


def all_gather_coalesced(world, group, dtype):
    outputs = [nothing(world, dtype) for _ in world.ranks]
    dist.all_gather_coalesced(outputs, parts_of(world, dtype), group=group)
    return [output for row in outputs for output in row]


def gather(world, group, dtype):
    outputs = nothing(world, dtype) if world.rank == 1 else None
    dist.gather(extremes(world.rank, dtype), outputs, 1, group=group)
    return outputs or []


def scatter(world, group, dtype):
    output = nothing(world, dtype)[0]
    dist.scatter(output, parts_of(world, dtype) if world.rank == 1 else None, 1, group=group)
    return [output]


def all_to_all(world, group, dtype):
    outputs = nothing(world, dtype)
    dist.all_to_all(outputs, parts_of(world, dtype), group=group)
    return outputs


def all_to_all_single(world, group, dtype):
    output = whole(nothing(world, dtype))
    dist.all_to_all_single(output, whole(parts_of(world, dtype)), group=group)
    return [output]


def all_to_all_single_with_splits(world, group, dtype):
    inputs = [part[:to + 1] for to, part in enumerate(parts_of(world, dtype))]
    outputs = [part[:world.rank + 1] for part in nothing(world, dtype)]
    output = whole([part.clone() for part in outputs])
    dist.all_to_all_single(output, whole([part.clone() for part in inputs]), [len(part) for part in outputs],
                           [len(part) for part in inputs], group=group)
    return [output]


def send_and_recv(world, group, dtype):
    before, after = (world.rank - 1) % world.size, (world.rank + 1) % world.size
    received = nothing(world, dtype)[0]
    sending = dist.isend(extremes(world.rank, dtype), after, group=group, tag=3)
    dist.recv(received, before, group=group, tag=3)
    sending.wait()
    return [received]


def batch_isend_irecv(world, group, dtype):
    before, after = (world.rank - 1) % world.size, (world.rank + 1) % world.size
    received = nothing(world, dtype)[0]
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, extremes(world.rank, dtype), after, group),
                                        dist.P2POp(dist.irecv, received, before, group)]):
        work.wait()
    return [received]


REDUCTIONS = (all_reduce, all_reduce_coalesced, reduce, reduce_scatter, reduce_scatter_tensor)
MOVES = (broadcast, all_gather, all_gather_into_tensor, all_gather_coalesced, gather, scatter, all_to_all, all_to_all_single,
         all_to_all_single_with_splits, send_and_recv, batch_isend_irecv)


def gloo_is_wrong(dtype, op):
    """Two Trues add up to a byte of 2, which is neither."""
    return dtype == torch.bool and op == "SUM"


def by_gloo(call, world, *what):
    """None where Gloo refuses it: that it does before anything is sent, on all ranks alike."""
    try:
        return call(world, world.gloo, *what)
    except (RuntimeError, TypeError, ValueError):
        return None


def compare(world, call, *what):
    """How many of these Gloo takes: 1 or none."""
    theirs = by_gloo(call, world, *what)
    ours = call(world, dist.group.WORLD, *what)
    if theirs is None:
        return 0
    for one, other in zip(ours, theirs, strict=True):
        same(one, other, f"{call.__name__} {what}")
    return 1


def case_reductions_agree_with_gloo(world):
    for call in REDUCTIONS:
        compared = {dtype: sum(compare(world, call, dtype, op) for op in ops_for(dtype) if not gloo_is_wrong(dtype, op) and op != "AVG")
                    for dtype in ALL_DTYPES if dtype not in MOVING_ONLY}
        for dtype in (torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int32, torch.int64):
            assert compared[dtype] >= 4, f"Gloo took only {compared[dtype]} ops of {dtype} in {call.__name__}"


def case_averages_agree_with_gloo(world):
    """Of as many ranks as a power of two has: others divide where Gloo multiplies."""
    if world.size in (2, 4):
        for dtype in FLOATS:
            assert compare(world, all_reduce, dtype, "AVG") == 1, dtype


def case_moves_agree_with_gloo(world):
    for call in MOVES:
        compared = [dtype for dtype in ALL_DTYPES if compare(world, call, dtype)]
        missing = {torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int32, torch.int64} - set(compared)
        assert not missing, f"Gloo did not take {missing} in {call.__name__}"


def average(numbers, dtype):
    """The sum wraps, and is then divided toward zero."""
    bits = 8 * dtype.itemsize
    total = sum(numbers) % 2**bits
    if dtype.is_signed and total >= 2 ** (bits - 1):
        total -= 2**bits
    return abs(total) // len(numbers) * (1 if total >= 0 else -1)


def case_integers_at_their_limits(world):
    for dtype in INTEGERS:
        everybody = [extremes(rank, dtype) for rank in world.ranks]
        for op in ops_for(dtype):
            if op == "AVG":
                columns = zip(*(each.tolist() for each in everybody))
                expected = [average(column, dtype) for column in columns]
                assert all_reduce(world, None, dtype, op)[0].tolist() == expected, f"{dtype} {op}"
            else:
                for call in (all_reduce, reduce):
                    for result in call(world, None, dtype, op):
                        same(result, reduced(everybody, op), f"{call.__name__} {dtype} {op}")


def case_numbers_that_are_none(world):
    """NaN from any rank is NaN for all; infinities and the sign of zero are as IEEE has them."""
    nan, infinity = float("nan"), float("inf")
    for dtype in FLOATS:
        mine = torch.tensor([nan, infinity, -infinity, infinity, -0.0] if world.rank == 0 else [1, 1, 1, -infinity, -0.0], dtype=dtype)
        expected = {"SUM": [nan, infinity, -infinity, nan, -0.0], "MIN": [nan, 1, -infinity, -infinity, -0.0],
                    "MAX": [nan, infinity, 1, infinity, -0.0], "AVG": [nan, infinity, -infinity, nan, -0.0]}
        for op, wanted in expected.items():
            tensor = mine.clone()
            dist.all_reduce(tensor, op_named(op))
            wanted = torch.tensor(wanted, dtype=dtype)
            assert torch.equal(tensor.isnan(), wanted.isnan()), f"{dtype} {op}: {tensor}"
            known = ~wanted.isnan()
            same(tensor[known], wanted[known], f"{dtype} {op}")


def case_gloo_refuses_what_only_we_take(world):
    for dtype, op in [(torch.int16, "SUM"), (torch.uint32, "SUM"), (SMALL_FLOATS[0], "SUM"), (torch.int32, "AVG")]:
        assert by_gloo(all_reduce, world, dtype, op) is None, f"Gloo takes {dtype} {op} by now"
