"""Arrays that share memory: what is written may overlap nothing, whatever its memory order, but for this rank's own place."""
import random

import numpy

import unisono
import unisono.distributed as dist
from rank_pool import has_torch

if has_torch():
    import torch

as_strided = numpy.lib.stride_tricks.as_strided


def is_refused(call):
    try:
        call()
    except unisono.ArgumentError as error:
        assert "overlap in memory" in str(error) or "same memory" in str(error)
        return True
    return False


def kinds():
    """NumPy's zeros, and torch's where it is."""
    return [numpy.zeros, torch.zeros] if has_torch() else [numpy.zeros]


def overlapping():
    """Calls of two ranks with arrays that lie on each other, none of them contiguous."""
    them = 1 - dist.get_rank()
    for zeros in kinds():
        matrix, line, one = zeros((3, 4)), zeros(12), zeros(3)
        columns = [matrix[:, index] for index in range(4)]
        yield "one column twice", lambda: dist.all_gather([columns[0], columns[0]], one)
        yield "a column and a piece of it", lambda: dist.all_gather([line[0:6:2], line[2:8:2]], one)
        yield "a matrix and its column", lambda: dist.all_reduce_coalesced([columns[1], matrix[:, 1:3]])
        yield "a row and a column", lambda: dist.all_reduce_coalesced([columns[1], matrix[0]])
        yield "another's place", lambda: dist.all_gather(columns[:2], columns[them])
        yield "beside one's place", lambda: dist.all_gather_into_tensor(line[::2], line[2:8:2])
        yield "an input", lambda: dist.all_to_all(columns[:2], [columns[2], columns[0]])
        yield "all of it", lambda: dist.all_to_all_single(line[::2], line[::2])
        yield "parts of a sum", lambda: dist.reduce_scatter_tensor(line[2:8:2], line[::2])
        yield "an element of a sum", lambda: dist.reduce_scatter(columns[them], columns[:2])
        yield "lists", lambda: dist.all_gather_coalesced([[columns[0]], [columns[0]]], [one])
        yield "in a list of wholes", lambda: dist.all_gather_into_tensor_coalesced([line[::2]], [line[2:8:2]])


def apart():
    """Calls that are right: interleaved arrays, and this rank's own place."""
    me = dist.get_rank()
    for zeros in kinds():
        matrix, line, one = zeros((3, 4)), zeros(12), zeros(3)
        columns = [matrix[:, index] for index in range(4)]
        yield lambda: dist.all_gather(columns[:2], one)
        yield lambda: dist.all_gather(columns[:2], columns[me])
        yield lambda: dist.all_gather([line[0::4], line[1::4]], line[2::4])
        yield lambda: dist.all_to_all(columns[:2], columns[2:])
        yield lambda: dist.all_reduce_coalesced([matrix[:, 0:2], matrix[:, 2:4]])
        yield lambda: dist.all_reduce_coalesced([matrix[::2, ::2], matrix[1::2, ::2], matrix[:, 1::2]])
        yield lambda: dist.all_gather_into_tensor(line[::2], line[6 * me:6 * me + 6:2])
        yield lambda: dist.all_gather_into_tensor(zeros((2, 3, 2))[:, :, 0], one)
        stacked = zeros((2, 3, 2))[:, :, 0]
        yield lambda: dist.all_gather_into_tensor(stacked, stacked[me])
        yield lambda: dist.reduce_scatter_tensor(line[6 * me:6 * me + 6:2], line[::2])
        yield lambda: dist.reduce_scatter(columns[me], columns[:2])
        yield lambda: dist.scatter(columns[0], columns[:2] if me == 0 else None, src=0)
        yield lambda: dist.gather(columns[1], columns[:2] if me == 1 else None, dst=1)
        yield lambda: dist.all_gather_coalesced([[columns[0], columns[1]], [columns[2], columns[3]]],
                                                [columns[2 * me], columns[2 * me + 1]])
        yield lambda: dist.all_gather_into_tensor_coalesced([line[::2]], [line[6 * me:6 * me + 6:2]])
        yield lambda: dist.reduce_scatter_tensor_coalesced([line[6 * me:6 * me + 6:2]], [line[::2]])


def all_calls():
    complaints = [f"{name} was taken" for name, call in overlapping() if not is_refused(call)]
    complaints += [f"right call number {number} was refused" for number, call in enumerate(apart()) if is_refused(call)]
    dist.all_reduce(numpy.ones(1))  # the ranks have made the same calls
    return complaints


def own_columns():
    """What is gathered into interleaved columns, from one of them, is all there."""
    me = dist.get_rank()
    matrix = numpy.zeros((3, 2))
    matrix[:, me] = me + 1
    dist.all_gather([matrix[:, 0], matrix[:, 1]], matrix[:, me])
    return matrix.tolist()


def overlapping_themselves():
    """Whatever is written must not; what is only read may."""
    made = [as_strided(numpy.ones(5), (3, 3), (8, 8)), as_strided(numpy.ones(1), (4,), (0,)),
            as_strided(numpy.ones(9), (2, 3), (16, 16)), memoryview(as_strided(numpy.ones(5), (3, 3), (8, 8))),
            as_strided(numpy.ones(12), (3, 2, 2), (16, 24, 8))]
    if has_torch():
        made += [torch.ones(1).expand(3), torch.ones(5).as_strided((3, 3), (1, 1))]
    refused = [is_refused(lambda: dist.all_reduce(one)) for one in made]
    apart = as_strided(numpy.zeros(8), (3, 2), (16, 24))  # 0, 3, 2, 5, 4, 7: interleaved, and none is another
    dist.all_reduce(apart)
    dist.all_gather([numpy.empty((3, 3)) for _ in range(dist.get_world_size())], made[0])
    return refused


def bytes_of(array):
    """The addresses of its bytes, one list of them for each element."""
    start, size = array.__array_interface__["data"][0], array.itemsize
    return [tuple(start + sum(index * stride for index, stride in zip(indices, array.strides)) + byte for byte in range(size))
            for indices in numpy.ndindex(array.shape)]


def random_arrays():
    """Pairs of arrays anywhere in 40 bytes: they are refused exactly where one by one their bytes say so."""
    chance, complaints, seen = random.Random(5), [], set()
    memory = numpy.zeros(40, dtype="uint8")

    def draw():
        while True:
            shape = [chance.randint(1, 3) for _ in range(chance.randint(1, 3))]
            strides = [chance.randint(-9, 9) for _ in shape]
            dtype = chance.choice(["u1", "i2", "i4"])
            low = sum(min(0, (size - 1) * stride) for size, stride in zip(shape, strides))
            high = sum(max(0, (size - 1) * stride) for size, stride in zip(shape, strides)) + numpy.dtype(dtype).itemsize
            if high - low <= 40:
                offset = -low + chance.randint(0, 40 - (high - low))
                return numpy.ndarray(shape, dtype, memory, offset, strides)

    for _ in range(3000):
        one, other = draw(), draw()
        while other.dtype != one.dtype:
            other = draw()
        every = [byte for array in (one, other) for element in bytes_of(array) for byte in element]
        expected = len(set(every)) < len(every)
        seen.add(expected)
        if is_refused(lambda: dist.all_reduce_coalesced([one, other], op="max")) != expected:
            complaints.append((expected, one.dtype.str, one.shape, one.strides, other.shape, other.strides))
    assert seen == {True, False}
    return complaints


def test_calls(pool):
    assert pool.run(all_calls, 2) == [[], []]
    assert pool.run(own_columns, 2) == [[[1, 2]] * 3] * 2


def test_overlapping_themselves(pool):
    assert all(all(refused) for refused in pool.run(overlapping_themselves, 2))


def test_at_random(pool):
    assert pool.run(random_arrays, 1) == [[]]
