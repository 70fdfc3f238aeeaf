"""unisono.comm_func on MindSpore tensors: results are tensors, the input stays as it was."""
import mindspore
import numpy
from mindspore import Tensor, mint
from tensors import NUMBERS, SMALL_FLOATS, bits, equal, tensor, values

from unisono import ArgumentError, MismatchError, comm_func
from unisono.communication import get_group_size, get_rank


def mine(dtype="float32"):
    return tensor([[1, 2, 3], [4, 5, 6]], dtype) if get_rank() == 0 else tensor([[2, 0, 1], [1, 1, 2]], dtype)


SUM = [[3, 2, 4], [5, 6, 8]]
BOTH = [[1, 2, 3], [4, 5, 6], [2, 0, 1], [1, 1, 2]]


def case_all_reduce():
    given = mine()
    before = bits(given)
    output, handle = comm_func.all_reduce(given)
    equal(output, SUM)
    assert handle is None and bits(given) == before
    equal(comm_func.all_reduce(given, op="max")[0], [[2, 2, 3], [4, 5, 6]])
    equal(comm_func.all_reduce(given, comm_func.ReduceOp.PROD, "mccl_world_group")[0], [[2, 0, 3], [4, 5, 12]])


def case_all_gather_into_tensor():
    given = mine()
    before = bits(given)
    output, handle = comm_func.all_gather_into_tensor(given)
    equal(output, BOTH)
    assert handle is None and bits(given) == before


def case_reduce_scatter_tensor():
    given = mine()
    before = bits(given)
    output, handle = comm_func.reduce_scatter_tensor(given)
    equal(output, [SUM[get_rank()]])
    assert handle is None and bits(given) == before


def case_reduce():
    for root in (0, 1):
        given = mine()
        before = bits(given)
        equal(comm_func.reduce(given, root), SUM if get_rank() == root else numpy.zeros((2, 3)))
        assert bits(given) == before


def case_scatter_tensor():
    for root in (0, 1):
        given = mine()
        before = bits(given)
        equal(comm_func.scatter_tensor(given, root), [BOTH[2 * root + get_rank()]])
        assert bits(given) == before


def case_asynchronous():
    for function, expected in ((comm_func.all_reduce, SUM), (comm_func.all_gather_into_tensor, BOTH),
                               (comm_func.reduce_scatter_tensor, [SUM[get_rank()]])):
        given = mine()
        before = bits(given)
        output, handle = function(given, async_op=True)
        assert handle.wait() is None and handle.is_completed() and handle.exception() is None
        equal(output, expected)
        assert bits(given) == before


def case_many_asynchronous_calls_whose_inputs_are_dropped():
    pending = [comm_func.all_reduce(Tensor(numpy.full(1000 + index, index, "float32")), async_op=True) for index in range(50)]
    for index, (output, handle) in enumerate(pending):
        handle.wait()
        equal(output, numpy.full(1000 + index, 2 * index))


def case_every_dtype_is_reduced():
    for dtype in NUMBERS:
        given = mine(dtype)
        output, _ = comm_func.all_reduce(given)
        assert output.dtype == given.dtype, (output.dtype, dtype)
        equal(output, SUM)
        equal(comm_func.reduce_scatter_tensor(given)[0], [SUM[get_rank()]])
        equal(comm_func.reduce(given, 1), SUM if get_rank() == 1 else numpy.zeros((2, 3)))


def case_every_dtype_is_moved():
    for dtype in (*NUMBERS, "bool", "float8_e4m3fn", "float8_e5m2"):
        given = mine(dtype)
        before = bits(given)
        gathered, _ = comm_func.all_gather_into_tensor(given)
        assert gathered.dtype == given.dtype and gathered.shape == (4, 3), (gathered, dtype)
        assert bits(gathered)[get_rank() * len(before):][:len(before)] == before, dtype
        part = comm_func.scatter_tensor(gathered[:2], 0)
        assert part.shape == (1, 3) and bits(part) == bits(gathered[get_rank():get_rank() + 1]), dtype


def case_bool_sums_are_or():
    given = tensor([True, False, get_rank() == 1], "bool")
    equal(comm_func.all_reduce(given)[0], [True, False, True])
    equal(comm_func.all_reduce(given, "prod")[0], [True, False, False])


def case_float8_is_added():
    ones = {"float8_e4m3fn": (0x38, 0x40), "float8_e5m2": (0x3c, 0x40)}  # 1 and 2
    for dtype, (one, two) in ones.items():
        given = Tensor.from_numpy(numpy.full(5, one, "uint8")).view(getattr(mindspore, dtype))
        assert bits(comm_func.all_reduce(given)[0]) == bytes([two] * 5)


def case_bfloat16_rounds_once():
    given = tensor([256.0, 1.0], "bfloat16") if get_rank() == 0 else tensor([1.5, 1.0], "bfloat16")
    equal(comm_func.all_reduce(given)[0], [258.0, 2.0])  # 257.5: the neighbours are 256 and 258


def case_zero_dims():
    given = tensor(3.0)
    equal(comm_func.all_reduce(given)[0], 6.0, shape=())
    equal(comm_func.all_gather_into_tensor(given)[0], [3.0, 3.0])
    equal(comm_func.all_reduce(tensor(3.0, "bfloat16"))[0], 6.0, shape=())


def case_nothing_in_it():
    output, _ = comm_func.all_reduce(Tensor(numpy.zeros((0, 3), "float32")))
    assert values(output).shape == (0, 3)
    output, _ = comm_func.all_gather_into_tensor(Tensor(numpy.zeros((0, 3), "int32")).astype(mindspore.bfloat16))
    assert output.shape == (0, 3) and output.dtype == mindspore.bfloat16


def case_not_contiguous():
    for dtype in (*NUMBERS, *SMALL_FLOATS, "bool"):
        whole = mine(dtype)
        for part in (mint.transpose(whole, 0, 1), whole[:, 1:], whole[:, 1]):
            assert not part.is_contiguous()
            before = bits(part)
            gathered, _ = comm_func.all_gather_into_tensor(part)
            assert bits(gathered)[get_rank() * len(before):][:len(before)] == before and bits(part) == before, (dtype, part.shape)
    equal(comm_func.all_reduce(mint.transpose(mine(), 0, 1))[0], numpy.transpose(SUM))


def case_results_go_on_through_mindspore():
    output, _ = comm_func.all_reduce(mine() * 2)
    equal(mint.matmul(output, mint.transpose(output, 0, 1)), 4 * numpy.matmul(SUM, numpy.transpose(SUM)))
    equal(comm_func.all_reduce(output)[0], 4 * numpy.array(SUM))
    output[0, 0] = 5.0
    assert values(output)[0, 0] == 5


def case_the_rest_of_the_surface():
    rank, other = get_rank(), 1 - get_rank()
    gathered = comm_func.gather_into_tensor(mine(), 1)
    equal(gathered, BOTH if rank == 1 else [0.0])
    equal(comm_func.broadcast(mine(), 1), BOTH[2:])
    equal(comm_func.scan(mine())[0], SUM if rank == 1 else BOTH[:2])
    equal(comm_func.exscan(mine())[0], BOTH[:2] if rank == 1 else numpy.zeros((2, 3)))
    equal(comm_func.all_to_all_single_with_output_shape((2, 3), mine())[0], [BOTH[rank], BOTH[2 + rank]])
    outputs, handle = comm_func.all_to_all_with_output_shape([(3,), (3,)], list(mine()), async_op=True)
    handle.wait()
    equal(outputs[0], BOTH[rank])
    equal(outputs[1], BOTH[2 + rank])
    received = mint.zeros((2,))
    comm_func.all_to_all_v_c(received, tensor([10.0 * rank, 10.0 * rank + 1]), [[1, 1], [1, 1]])
    equal(received, [rank, 10 + rank])
    comm_func.barrier()
    assert get_group_size() == 2 and other in (0, 1)


def case_letters():
    rank, other = get_rank(), 1 - get_rank()
    theirs = BOTH[2 * other:][:2]
    handle = comm_func.isend(mine(), other)
    received, arrival = comm_func.irecv(mint.zeros((2, 3)), other)
    arrival.wait(), handle.wait()
    equal(received, theirs)
    if rank == 0:
        comm_func.send(mine("bfloat16"), 1, tag=3)
    else:
        equal(comm_func.recv(mint.zeros((2, 3), dtype=mindspore.bfloat16), 0, tag=3), theirs)
    for letters in ([comm_func.P2POp("isend", mine(), other), comm_func.P2POp("irecv", mint.zeros((2, 3)), other)],
                    [comm_func.P2POp("isend", mine(), other),
                     comm_func.P2POp("irecv", (2, 3), other, recv_dtype=mindspore.float32)]):
        equal(comm_func.batch_isend_irecv(letters)[1], theirs)


def case_errors():
    for call, error, text in ((lambda: comm_func.reduce_scatter_tensor(mint.ones((3,))), ArgumentError, "3"),
                              (lambda: comm_func.all_reduce(mint.ones((2 + get_rank(),))), MismatchError, "all_reduce"),
                              (lambda: comm_func.all_reduce(mine("complex64"), "max"), ArgumentError, "complex64")):
        try:
            call()
            raise AssertionError("nothing was raised")
        except error as raised:
            assert text in str(raised), raised
    equal(comm_func.all_reduce(mine())[0], SUM)  # the group is usable
