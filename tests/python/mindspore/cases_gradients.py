"""Gradients that MindSpore computes: a call on a tensor that takes part in one is refused instead of giving zeros, others work."""
import mindspore
import numpy
from mindspore import Parameter, Tensor, nn, ops
from tensors import equal, tensor, values

import unisono.distributed as dist
from unisono import ArgumentError, PeerArgumentError, comm_func
from unisono.communication import get_rank


def mine():
    return tensor([1, 2, 3]) + get_rank()


def in_a_gradient(function, *inputs, weights=None):
    """Calls the function on the inputs while MindSpore records for their gradient, and returns what it returns. An exception that
    left a gradient would leave MindSpore recording."""
    found = []

    def recorded(*given):
        try:
            found.append(function(*given))
        except Exception as error:
            found.append(error)
        return sum(each.sum() for each in given)

    mindspore.grad(recorded, None if weights else 0, weights)(*inputs)
    return found[0]


def refused(found):
    assert type(found) is ArgumentError and found.peer is None, repr(found)
    assert "gradient" in str(found) and "stop_gradient" in str(found) and "ops.AllReduce" in str(found), found
    return True


def case_every_call_on_a_tensor_in_a_gradient_is_refused():
    other = 1 - get_rank()
    calls = (lambda x: comm_func.all_reduce(x), lambda x: comm_func.all_reduce(x * x), lambda x: comm_func.all_reduce(x[1:]),
             lambda x: comm_func.all_reduce(x, async_op=True), lambda x: comm_func.all_gather_into_tensor(x),
             lambda x: comm_func.reduce_scatter_tensor(x), lambda x: comm_func.broadcast(x, 0), lambda x: comm_func.reduce(x, 0),
             lambda x: comm_func.send(x, other), lambda x: comm_func.isend(x, other), lambda x: dist.all_reduce(x * 2),
             lambda x: dist.broadcast(x * 2, 0), lambda x: dist.all_gather([mine(), mine()], x),
             lambda x: dist.all_gather([x * 2, x * 2], mine()), lambda x: dist.send(x, other))
    for call in calls:
        assert refused(in_a_gradient(call, mine()))
    equal(comm_func.all_reduce(mine())[0], 2 * numpy.array([1, 2, 3]) + 1)  # the group is usable


def case_complex_numbers_and_small_floats_are_refused_too():
    for dtype in ("float16", "bfloat16", "float64", "complex64"):
        assert refused(in_a_gradient(lambda x: comm_func.all_reduce(x.astype(getattr(mindspore, dtype))), mine()))


def case_the_other_rank_is_told():
    if get_rank() == 0:
        assert refused(in_a_gradient(lambda x: comm_func.all_reduce(x * x), mine()))
    else:
        try:
            comm_func.all_reduce(mine())
            raise AssertionError("nothing was raised")
        except PeerArgumentError as error:
            assert error.peer == 0 and "gradient" in str(error), error
    comm_func.barrier()


def case_a_parameter_is_refused_in_a_gradient_alone():
    weight = Parameter(mine(), name="weight")
    assert refused(in_a_gradient(lambda x: comm_func.all_reduce(weight), mine(), weights=[weight]))
    equal(comm_func.all_reduce(weight)[0], [3, 5, 7])
    dist.broadcast(weight, 1)
    assert numpy.array_equal(weight.asnumpy(), [2, 3, 4])


def case_what_was_in_a_gradient_can_be_given_afterwards():
    given = mine()
    value, gradient = mindspore.value_and_grad(lambda x: (x * x).sum())(given)
    equal(comm_func.all_reduce(given)[0], [3, 5, 7])
    equal(comm_func.all_reduce(value)[0], 14 + 29)
    equal(comm_func.all_reduce(gradient)[0], [6, 10, 14])
    network = nn.Dense(3, 1).set_grad()
    output = network(mine().reshape(1, 3))
    comm_func.all_reduce(output)
    comm_func.broadcast(network.weight, 0)


def case_a_stopped_gradient_is_taken():
    def scaled(x):
        total, _ = comm_func.all_reduce(ops.stop_gradient(x))
        return (x * total).sum()

    equal(mindspore.grad(scaled)(mine()), [3, 5, 7])  # the sum is a constant


def case_other_tensors_are_taken_in_a_gradient():
    equal(in_a_gradient(lambda x: comm_func.all_reduce(mine())[0], mine()), [3, 5, 7])
    equal(in_a_gradient(lambda x: comm_func.all_reduce(Tensor(x.asnumpy()))[0], mine()), [3, 5, 7])
    equal(in_a_gradient(lambda x: comm_func.all_reduce(x.astype(mindspore.int32))[0], mine()), [3, 5, 7])
    assert not values(in_a_gradient(lambda x: comm_func.broadcast(x > 9, 0), mine())).any()
    in_a_gradient(lambda x: comm_func.barrier(), mine())


def case_gradients_are_summed_by_a_hook():
    def squares(x):
        twice = x * 2
        twice.register_hook(lambda gradient: comm_func.all_reduce(gradient)[0])
        return (twice * twice).sum()

    equal(mindspore.grad(squares)(mine()), 2 * 2 * 2 * numpy.array([3, 5, 7]))  # the hook's sum, through the factor 2


class SumOverRanks(mindspore.common._Function):
    """How a program can make a call differentiable by itself."""

    @staticmethod
    def forward(context, x):
        return comm_func.all_reduce(x)[0]

    @staticmethod
    def backward(context, gradient):
        return comm_func.all_reduce(gradient)[0]


def case_a_function_with_a_backward_of_its_own_is_differentiable():
    found = mindspore.grad(lambda x: (SumOverRanks.apply(x * x) * (get_rank() + 1)).sum())(mine())
    equal(found, 2 * values(mine()) * 3)  # of the sum of both ranks' losses, which weigh 1 and 2
