"""unisono.distributed on MindSpore tensors: what it writes is in the tensor, also where that is a part of another."""
import mindspore
import numpy
from mindspore import Parameter, Tensor, mint
from mindspore.common.initializer import initializer
from tensors import NUMBERS, bits, equal, tensor, values

import unisono.distributed as dist


def mine(dtype="float32"):
    return tensor([[1, 2, 3], [4, 5, 6]], dtype) if dist.get_rank() == 0 else tensor([[2, 0, 1], [1, 1, 2]], dtype)


SUM = [[3, 2, 4], [5, 6, 8]]
BOTH = [[1, 2, 3], [4, 5, 6], [2, 0, 1], [1, 1, 2]]


def case_all_reduce_in_every_dtype():
    for dtype in NUMBERS:
        given = mine(dtype)
        assert dist.all_reduce(given) is None
        equal(given, SUM)
        equal(given + given, 2 * numpy.array(SUM))  # MindSpore sees it too


def case_all_gather():
    parts = [mint.zeros((2, 3)) for _ in range(2)]
    dist.all_gather(parts, mine())
    equal(parts[0], BOTH[:2])
    equal(parts[1], BOTH[2:])
    whole = mint.zeros((4, 3))
    dist.all_gather_into_tensor(whole, mine())
    equal(whole, BOTH)


def case_reduce_scatter():
    output = mint.zeros((3,))
    dist.reduce_scatter(output, list(mine()))
    equal(output, SUM[dist.get_rank()])
    dist.reduce_scatter_tensor(output, mine(), op=dist.ReduceOp.MAX)
    equal(output, [[2, 2, 3], [4, 5, 6]][dist.get_rank()])


def case_reduce_leaves_the_others_alone():
    given = mine()
    dist.reduce(given, 1)
    equal(given, SUM if dist.get_rank() == 1 else BOTH[:2])


def case_scatter_and_broadcast():
    output = mint.zeros((3,))
    dist.scatter(output, list(mine()) if dist.get_rank() == 0 else None, src=0)
    equal(output, BOTH[dist.get_rank()])
    given = mine()
    dist.broadcast(given, 1)
    equal(given, BOTH[2:])


def case_asynchronous():
    given = mine()
    work = dist.all_reduce(given, async_op=True)
    assert work.wait() is True
    equal(given, SUM)
    assert [type(each) for each in work.result()] == [Tensor]


def case_a_part_that_is_contiguous():
    whole = mint.zeros((4, 3))
    dist.all_reduce(whole)  # so that it has been computed
    part = whole[1:3]
    assert part.is_contiguous()
    dist.broadcast(part if dist.get_rank() == 1 else mine(), 0)
    equal(whole, numpy.zeros((4, 3)) if dist.get_rank() == 0 else [[0] * 3, *BOTH[:2], [0] * 3])


def case_parts_that_are_not_contiguous():
    for dtype in ("float32", "bfloat16", "int8", "complex128"):
        whole = mine(dtype)
        turned = mint.transpose(whole, 0, 1)
        assert not turned.is_contiguous()
        dist.all_reduce(turned)
        equal(turned, numpy.transpose(SUM))
        equal(whole, SUM)
        dist.all_reduce(whole[:, 1], async_op=True).wait()
        equal(whole, [[3, 4, 4], [5, 12, 8]])


def case_parameters():
    weight = Parameter(mine(), name="weight")
    dist.all_reduce(weight)
    assert numpy.array_equal(weight.asnumpy(), SUM)
    assert numpy.array_equal((weight * 2).asnumpy(), 2 * numpy.array(SUM))


def case_tensors_made_of_an_initializer():
    given = initializer("ones", [2, 3], mindspore.float32)
    assert given.has_init
    dist.all_reduce(given)
    equal(given, numpy.full((2, 3), 2.0))


def case_letters():
    other = 1 - dist.get_rank()
    received = mint.zeros((2, 3))
    sent = dist.isend(mine(), other)
    assert dist.recv(received, other) == other
    sent.wait()
    equal(received, BOTH[2 * other:][:2])


def case_what_mindspore_still_reads_is_not_overwritten():
    ones = Tensor(numpy.ones((500, 500), "float32"))
    for _ in range(10):
        given = ones + 0
        product = mint.matmul(given, given)  # may not have begun
        dist.all_reduce(given)
        assert values(product).min() == values(product).max() == 500
        assert values(given).min() == values(given).max() == 2


def case_what_is_not_yet_computed_is_waited_for():
    ones = Tensor(numpy.ones((500, 500), "float32"))
    for _ in range(10):
        given = ones
        for _ in range(4):
            given = mint.matmul(given, ones) / 500
        before = given
        dist.all_reduce(given)
        assert values(given).min() == values(given).max() == 2 and bits(before) == bits(given)
