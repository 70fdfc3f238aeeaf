"""Arrays of every kind, shape and memory order, in and out."""
import array
import ctypes
import re
import sys

import ml_dtypes
import numpy
import pytest

import unisono
import unisono.comm_func as func
import unisono.distributed as dist
from rank_pool import has_torch

if has_torch():
    import torch

SMALL = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
MOVED_ONLY = SMALL[3:]


class DLPackOnly:
    """A tensor of which nothing is known but DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class OldDLPackOnly(DLPackOnly):
    """As it was before DLPack had versions."""

    def __dlpack__(self):
        return self.tensor.__dlpack__()


class Answering:
    """DLPack that answers whatever it was given."""

    def __init__(self, device, capsule):
        self.device, self.capsule = device, capsule

    def __dlpack__(self, **options):
        return self.capsule

    def __dlpack_device__(self):
        return self.device


class Subclass(numpy.ndarray):
    pass


def summed(made):
    """All ranks sum it in place; what it holds afterwards, as floats."""
    dist.all_reduce(made)
    return made


def refused(call, *words):
    with pytest.raises((unisono.ArgumentError, unisono.ArgumentTypeError)) as caught:
        call()
    for word in words:
        assert re.search(word, str(caught.value)), f"{word!r} is not in {caught.value}"


def numpy_in_place():
    ranks = dist.get_world_size()
    for shape in [(), (0,), (3,), (2, 0, 3), (2, 3), (1,) * 8, (2, 1, 3)]:
        assert (summed(numpy.ones(shape)) == ranks).all()
    fortran = numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3))
    summed(fortran)
    assert fortran.flags.f_contiguous and (fortran == ranks * numpy.arange(6).reshape(2, 3)).all()
    whole = numpy.zeros((4, 6))
    part = whole[::2, 1:5:3]
    part += numpy.arange(4).reshape(2, 2)
    summed(part)
    assert (part == ranks * numpy.arange(4).reshape(2, 2)).all() and whole.sum() == ranks * 6
    backwards = numpy.arange(5)[::-1]
    assert (summed(backwards) == ranks * numpy.arange(5)[::-1]).all()
    assert type(summed(numpy.ones(3).view(Subclass))) is Subclass
    matrix = numpy.ones((2, 2)).view(Subclass).T
    assert (summed(matrix) == ranks).all()
    refused(lambda: dist.all_reduce(numpy.ones((1,) * 9)), "tensor has 9 dimensions")
    refused(lambda: dist.all_reduce(numpy.ones((2,) * 9).T), "tensor has 9 dimensions")
    refused(lambda: dist.all_reduce(numpy.broadcast_to(numpy.ones(1), (3,))), "tensor is read-only")
    dist.barrier()


def reading_leaves_inputs_alone():
    ranks, rank = dist.get_world_size(), dist.get_rank()
    given = numpy.full(4, float(rank))
    given.setflags(write=False)
    output = numpy.empty(4 * ranks)
    for source in (given, given.reshape(2, 2).T, given[::-1], memoryview(given), bytes(given.tobytes())):
        out = output if not isinstance(source, bytes) else numpy.empty(32 * ranks, dtype="uint8")
        dist.all_gather_into_tensor(out, source)
        assert (given == rank).all()
    assert (output.reshape(ranks, 4) == numpy.arange(ranks).reshape(-1, 1)).all()
    fortran = numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3) + rank)
    parts = [numpy.empty((2, 3), order="F") for _ in range(ranks)]
    dist.all_gather(parts, fortran)
    assert all((part == numpy.arange(6).reshape(2, 3) + index).all() for index, part in enumerate(parts))


def torch_in_place():
    ranks, rank = dist.get_world_size(), dist.get_rank()
    leaf = torch.ones(3, requires_grad=True)
    dist.all_reduce(leaf)
    assert leaf.requires_grad and leaf.is_leaf and (leaf == ranks).all()
    middle = torch.ones(4, requires_grad=True) * 2
    dist.all_reduce(middle[::2])
    assert middle.tolist() == [2.0 * ranks, 2, 2.0 * ranks, 2]
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    dist.all_reduce(parameter)
    assert (parameter == ranks).all()
    with torch.inference_mode():
        inference = torch.ones(3)
        dist.all_reduce(inference)
        output, _ = func.all_reduce(inference)
        assert (inference == ranks).all() and (output == ranks * ranks).all()
        slanted = torch.ones(2, 3).t()
    dist.all_reduce(slanted)  # outside the mode, and through a copy
    assert (slanted == ranks).all()
    for tensor in (torch.ones(()), torch.ones(0), torch.ones(2, 0), torch.ones(6).reshape(2, 3).t(), torch.ones(4, 4)[1:3, ::2],
                   torch.ones(2, 3).to(memory_format=torch.contiguous_format).transpose(0, 1),
                   torch.ones(3).expand(2, 3).clone()):
        dist.all_reduce(tensor)
        assert (tensor == ranks).all()
    conjugated = torch.full((2,), complex(1, 1)).conj()
    dist.all_reduce(conjugated)
    assert (conjugated == ranks * complex(1, -1)).all()
    negated = torch.full((2,), complex(1, 1)).conj().imag
    dist.all_reduce(negated)
    assert (negated == -ranks).all()
    work = dist.all_reduce(slanted := torch.full((2, 3), 1.0 + rank).t(), async_op=True)
    assert work.wait() is True and (slanted == sum(range(1, ranks + 1))).all() and work.result()[0] is slanted
    refused(lambda: dist.all_reduce(torch.ones(1).expand(3)), "tensor", "same memory")
    refused(lambda: dist.all_reduce(torch.ones(2, device="meta")), "tensor is on device meta")
    refused(lambda: dist.all_reduce(torch.eye(3).to_sparse()), "tensor has layout torch.sparse_coo")
    refused(lambda: dist.all_reduce(torch.ones((1,) * 9)), "tensor has 9 dimensions")
    refused(lambda: dist.all_reduce(torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)), "tensor", "quint8")


def expanded_inputs():
    """What is only read may share memory."""
    output = torch.empty(2 * dist.get_world_size(), 3)
    dist.all_gather_into_tensor(output, torch.ones(3).expand(2, 3))
    assert (output == 1).all()


def autograd_knows_of_writes():
    """A tensor that backward() needs and a collective has overwritten: torch has to notice, as it does for torch.distributed."""
    weight = torch.ones(3, requires_grad=True)
    data = torch.ones(3)
    loss = (weight * data).sum()
    dist.all_reduce(data)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    version = data._version
    dist.all_gather([torch.empty(3) for _ in range(dist.get_world_size())], data)
    assert data._version == version  # it was only read


def other_buffers():
    ranks = dist.get_world_size()
    for made in (bytearray(b"\x01\x02"), memoryview(bytearray(b"\x01\x02")), array.array("B", [1, 2])):
        dist.all_reduce(made)
        assert list(made) == [ranks, 2 * ranks]
    for letter in "bhilqBHILQfd":
        dist.all_reduce(made := array.array(letter, [1, 2]))
        assert list(made) == [ranks, 2 * ranks]
    output, _ = func.all_reduce(array.array("d", [1, 2]))
    assert isinstance(output, numpy.ndarray) and output.tolist() == [ranks, 2 * ranks]
    work = dist.all_reduce(held := bytearray(8), async_op=True)
    with pytest.raises(BufferError):
        held.extend(b"x")  # its memory must not move while the call is under way
    work.wait()
    del work
    held.extend(b"x")
    strided = memoryview(numpy.arange(8))[::2]
    dist.all_reduce(strided)
    assert strided.tolist() == [0, 2 * ranks, 4 * ranks, 6 * ranks]
    refused(lambda: dist.all_reduce(b"12"), "tensor is read-only")
    refused(lambda: dist.all_reduce(array.array("u", "ab")), "tensor")


def ctypes_arrays():
    """Their buffers have no strides."""
    ranks = dist.get_world_size()
    for made in ((ctypes.c_float * 4)(1, 2, 3, 4), ((ctypes.c_int * 2) * 2)((1, 2), (3, 4)), (ctypes.c_long * 4)(1, 2, 3, 4)):
        dist.all_reduce(made)
        assert numpy.array(made).ravel().tolist() == [ranks, 2 * ranks, 3 * ranks, 4 * ranks]
        output, _ = func.all_reduce(made)
        assert (output == ranks * numpy.array(made)).all()
    dist.all_reduce(number := ctypes.c_double(2))
    assert number.value == 2 * ranks
    refused(lambda: dist.all_reduce((ctypes.c_char * 4)()), "tensor has elements of dtype c")
    dist.barrier()


class Exporting:
    """Every buffer that it gives is a memory of its own."""

    def __init__(self):
        self.given = []

    def __buffer__(self, flags):
        self.given.append(bytearray(b"\1\2"))
        return memoryview(self.given[-1])


def one_buffer_is_taken():
    dist.all_reduce(made := Exporting())
    assert [list(memory) for memory in made.given] == [[2, 4]]
    work = dist.all_reduce(made := Exporting(), async_op=True)
    memory, = made.given
    with pytest.raises(BufferError):
        memory.extend(b"x")
    work.wait()
    memory.extend(b"x")  # the call is over


def giving_takes_what_is_read_only():
    """A rank that only gives writes nothing: the source of a broadcast, and who is not the destination of a reduction."""
    me = dist.get_rank()
    given = numpy.full(4, 3.0)
    given.setflags(write=False)
    slanted = numpy.broadcast_to(numpy.full((), 3.0), (4,))
    for source in (given, slanted, memoryview(given), DLPackOnly(given)):
        for async_op in (False, True):
            for call, gives in ((lambda one: dist.broadcast(one, src=0, async_op=async_op), me == 0),
                                (lambda one: dist.broadcast(one, group_src=0, async_op=async_op), me == 0),
                                (lambda one: dist.reduce(one, dst=1, async_op=async_op), me == 0),
                                (lambda one: dist.reduce(one, group_dst=1, async_op=async_op), me == 0)):
                data = numpy.zeros(4)
                if work := call(source if gives else data):
                    work.wait()
                assert (given == 3).all() and (gives or (data == 3).all())
    refused(lambda: dist.broadcast(given, src=1 - me), "tensor is read-only")
    dist.barrier()


def dlpack_says_what_may_be_written():
    ranks = dist.get_world_size()
    for made in (numpy.ones(4), numpy.ones((4, 2))[:, 0]):
        dist.all_reduce(DLPackOnly(made))
        assert made.tolist() == [ranks] * 4
        dist.all_reduce(OldDLPackOnly(made))
        assert made.tolist() == [ranks * ranks] * 4
        made.setflags(write=False)
        refused(lambda: dist.all_reduce(DLPackOnly(made)), "tensor is read-only")
        outputs = numpy.empty(4 * ranks)
        dist.all_gather_into_tensor(outputs, DLPackOnly(made))
        assert made.tolist() == [ranks * ranks] * 4 and (outputs == ranks * ranks).all()


def dlpack_answers_nonsense():
    for device in (("x", 0), 3, None, (1,), "cpu"):
        with pytest.raises(unisono.ArgumentTypeError, match=r"tensor .*__dlpack_device__\(\) returned"):
            dist.all_reduce(Answering(device, None))
    for capsule in (3, None, "dltensor", numpy.ones(2)):
        with pytest.raises(unisono.ArgumentTypeError, match=r"tensor .*__dlpack__\(\) returned"):
            dist.all_reduce(Answering((1, 0), capsule))


def one_copy_is_made():
    """Of a tensor that is not contiguous, and never its own memory."""
    import unisono._arrays
    copies = []

    class Counting(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), options=None):
            if function in (torch.Tensor.clone, torch.Tensor.contiguous):
                copies.append(function.__name__)
            return function(*arguments, **(options or {}))

    for made, expected in ((torch.ones(3, 2).t(), ["contiguous"]), (torch.ones(2, 2), ["contiguous", "clone"]),
                           (torch.ones(2, dtype=torch.complex64).conj(), ["contiguous"])):
        copies.clear()
        with Counting():
            copy = unisono._arrays.contiguous(made)
        assert copies == expected and copy.is_contiguous() and copy.data_ptr() != made.data_ptr() and (copy == made).all()


def dlpack_only():
    ranks, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64, torch.uint16):
        tensor = torch.ones(3).to(dtype)
        dist.all_reduce(DLPackOnly(tensor))
        assert (tensor.to(torch.float64 if not dtype.is_complex else dtype) == (1 if dtype == torch.bool else ranks)).all()
    whole = torch.zeros(4, 4)
    dist.all_reduce(DLPackOnly(whole[1:3, ::2].fill_(rank + 1)))
    assert whole.sum() == 4 * sum(range(1, ranks + 1))
    output, handle = func.all_gather_into_tensor(DLPackOnly(torch.full((2,), rank)))
    assert handle is None and output.tolist() == [index for index in range(ranks) for _ in range(2)]
    refused(lambda: dist.all_reduce(DLPackOnly(torch.ones(2, requires_grad=True))), "tensor cannot be taken", "grad")


def small_floats():
    ranks = dist.get_world_size()
    for name in SMALL:
        with_numpy = numpy.ones(4, dtype=getattr(ml_dtypes, name))
        with_torch = torch.ones(4).to(getattr(torch, name))
        slanted = numpy.ones((2, 3), dtype=getattr(ml_dtypes, name)).T
        if name in MOVED_ONLY:
            refused(lambda: dist.all_reduce(with_numpy), name)
            dist.barrier()
        else:
            for made in (with_numpy, with_torch, slanted):
                dist.all_reduce(made)
                assert (numpy.asarray(made.float() if made is with_torch else made).astype("f4") == ranks).all()
            assert dist.all_reduce(with_numpy, async_op=True).wait()
        for made in (with_numpy, with_torch, slanted, with_numpy[:0], with_torch[:0]):
            output, _ = func.all_gather_into_tensor(made)
            assert type(output) is type(made) and output.dtype == made.dtype
            assert tuple(output.shape) == (ranks * made.shape[0], *made.shape[1:])
        scalar, _ = func.all_gather_into_tensor(with_torch[0])
        assert scalar.shape == (ranks,) and scalar.dtype == with_torch.dtype


def kinds_are_given_back():
    ranks = dist.get_world_size()
    for made in (numpy.ones((2, 3)), torch.ones(2, 3), numpy.ones(()), torch.ones(()), numpy.ones((0, 3)), torch.ones(0, 3),
                 torch.ones(2, requires_grad=True), numpy.ones((2, 2), order="F"), torch.ones(3, 2).t()):
        for async_op in (False, True):
            output, handle = func.all_reduce(made, async_op=async_op)
            if handle:
                assert handle.wait() is None and handle.is_completed() and handle.exception() is None
            assert type(output) is type(made) and output.shape == made.shape and output.dtype == made.dtype
            assert (output == ranks).all()
            output += 1  # it is writable, and its own
        gathered = func.gather_into_tensor(made, dst=0)
        assert type(gathered) is type(made)
        assert type(func.broadcast(made)) is type(made)
    assert type(func.all_reduce(torch.nn.Parameter(torch.ones(2)))[0]) is torch.Tensor
    assert type(func.all_reduce(numpy.ones(2).view(Subclass))[0]) is numpy.ndarray
    shared = unisono.zeros_shared((2, 2), "float32", "torch")
    dist.all_reduce(shared.add_(1))
    assert isinstance(shared, torch.Tensor) and (shared == ranks).all()


def letters_with_a_shape():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    for data, dtype, kind in [(numpy.full((2, 2), rank, "f4"), "float32", numpy.ndarray),
                              (numpy.full(3, rank), numpy.int64, numpy.ndarray),
                              (torch.full((2,), rank), torch.int64, torch.Tensor),
                              (torch.full((), rank), torch.int64, torch.Tensor),
                              (numpy.full(2, rank, ml_dtypes.bfloat16), "bfloat16", numpy.ndarray)]:
        sends = func.P2POp("isend", data, right, tag=5)
        receives = func.P2POp(func.irecv, tuple(data.shape), left, tag=5, recv_dtype=dtype)
        sent, received = func.batch_isend_irecv([sends, receives])
        assert isinstance(received, kind) and received.dtype == data.dtype and received.shape == data.shape
        assert (received == left).all() and sent.shape == (1,)


def test_numpy_and_buffers(pool):
    for case in (numpy_in_place, reading_leaves_inputs_alone, other_buffers):
        pool.run(case, 2)


@pytest.mark.parametrize("case", [ctypes_arrays, giving_takes_what_is_read_only, dlpack_says_what_may_be_written,
                                  dlpack_answers_nonsense], ids=lambda case: case.__name__)
def test_more_kinds(pool, case):
    pool.run(case, 2)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes have no buffers before Python 3.12")
def test_one_buffer_is_taken(pool):
    pool.run(one_buffer_is_taken, 2)


@pytest.mark.skipif(not has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("case",
                         [torch_in_place, expanded_inputs, autograd_knows_of_writes, dlpack_only, small_floats,
                          kinds_are_given_back, letters_with_a_shape, one_copy_is_made], ids=lambda case: case.__name__)
def test_with_torch(pool, case):
    pool.run(case, 2)
