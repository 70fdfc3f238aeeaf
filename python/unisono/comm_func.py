"""The shape of mindspore.communication.comm_func: functions leave their input alone and return a new tensor.

Those with `async_op` return `(tensor, CommHandle)`; the handle is None unless `async_op` is true, and the tensor may be read
after its wait(). Groups are names; None and MindSpore's names of the world mean all ranks. A result is of the kind that was
given: a NumPy array for a NumPy array, a tensor for a tensor.

Examples are those of a world of one rank, or of two where they say so. They begin with

    import numpy
    from unisono import comm_func, communication
    communication.init()
"""
from __future__ import annotations

import sys as _sys

from unisono import _errors
from unisono._core import comm_func as _core
from unisono._core import items as _items
from unisono.communication import GlobalComm, ReduceOp

CommHandle = _core.CommHandle
__all__ = ["CommHandle", "GlobalComm", "P2POp", "ReduceOp", "all_gather_into_tensor", "all_reduce",
           "all_to_all_single_with_output_shape", "all_to_all_v_c", "all_to_all_with_output_shape", "barrier",
           "batch_isend_irecv", "broadcast", "exscan", "gather_into_tensor", "irecv", "isend", "recv", "reduce",
           "reduce_scatter_tensor", "scan", "scatter_tensor", "send"]


def all_reduce(tensor, op: str = ReduceOp.SUM, group: str | None = GlobalComm.WORLD_COMM_GROUP, async_op: bool = False):
    """The reduction of everybody's tensor, as a new one on every rank. Shapes must agree.

    >>> import numpy, unisono
    >>> unisono.communication.init()
    >>> output, handle = all_reduce(numpy.array([1.0, 2.0]))
    >>> output.tolist(), handle
    ([1.0, 2.0], None)
    >>> unisono.communication.release()
    """
    return _core.all_reduce(tensor, op, group, async_op)


def scan(tensor, op: str = ReduceOp.SUM, group: str | None = GlobalComm.WORLD_COMM_GROUP, async_op: bool = False):
    """Rank r gets the reduction of the tensors of ranks 0 to r. An extension.

    >>> output, _ = comm_func.scan(numpy.array([1, 2]))
    >>> output.tolist()  # of rank 0
    [1, 2]
    """
    return _core.scan(tensor, op, group, async_op)


def exscan(tensor, op: str = ReduceOp.SUM, group: str | None = GlobalComm.WORLD_COMM_GROUP, async_op: bool = False):
    """Rank r gets the reduction of the tensors of ranks 0 to r - 1, and rank 0 zeros. An extension.

    >>> output, _ = comm_func.exscan(numpy.array([1, 2]))
    >>> output.tolist()  # of rank 0
    [0, 0]
    """
    return _core.exscan(tensor, op, group, async_op)


def all_gather_into_tensor(tensor, group: str | None = None, async_op: bool = False):
    """Everybody's tensor, concatenated along dim 0 in the order of the ranks; a 0-d tensor gives (N,).

    >>> output, _ = comm_func.all_gather_into_tensor(numpy.array([[1.0, 2.0]]))
    >>> output.tolist()
    [[1.0, 2.0]]
    """
    return _core.all_gather_into_tensor(tensor, group, async_op)


def reduce_scatter_tensor(tensor, op: str = ReduceOp.SUM, group: str | None = None, async_op: bool = False):
    """Part r of the reduction, cut along dim 0, which must be divisible by the number of ranks.

    >>> output, handle = comm_func.reduce_scatter_tensor(numpy.array([1.0, 2.0]), "max", async_op=True)
    >>> handle.wait()
    >>> output.tolist()
    [1.0, 2.0]
    """
    return _core.reduce_scatter_tensor(tensor, op, group, async_op)


def reduce(tensor, dst: int, op: str = ReduceOp.SUM, group: str | None = None):
    """The reduction on `dst`, zeros on every other rank: a tensor, no handle.

    >>> comm_func.reduce(numpy.array([1.0, 2.0]), dst=0).tolist()
    [1.0, 2.0]
    """
    return _core.reduce(tensor, dst, op, group)


def scatter_tensor(tensor, src: int = 0, group: str | None = GlobalComm.WORLD_COMM_GROUP):
    """Part r of `src`'s tensor along dim 0. The others pass a tensor of the same shape and dtype, which is ignored.

    >>> comm_func.scatter_tensor(numpy.array([1.0, 2.0]), src=0).tolist()
    [1.0, 2.0]
    """
    return _core.scatter_tensor(tensor, src, group)


def gather_into_tensor(tensor, dst: int = 0, group: str | None = GlobalComm.WORLD_COMM_GROUP):
    """Everybody's tensor, concatenated along dim 0, on `dst`; a zero of shape (1,) on every other rank.

    >>> comm_func.gather_into_tensor(numpy.array([1.0, 2.0]), dst=0).tolist()
    [1.0, 2.0]
    """
    return _core.gather_into_tensor(tensor, dst, group)


def broadcast(tensor, src: int = 0, group: str | None = GlobalComm.WORLD_COMM_GROUP):
    """`src`'s tensor on every rank, as a new one.

    >>> comm_func.broadcast(numpy.array([1.0, 2.0]), src=0).tolist()
    [1.0, 2.0]
    """
    return _core.broadcast(tensor, src, group)


def barrier(group: str | None = GlobalComm.WORLD_COMM_GROUP):
    """Returns once every rank has come.

    >>> comm_func.barrier()
    """
    _core.barrier(group)


def all_to_all_single_with_output_shape(output_shape, tensor, output_split_sizes=None, input_split_sizes=None,
                                        group: str | None = None,
                                        async_op: bool = False):
    """Part i of the result, along dim 0, is part r of rank i's tensor, r being this rank.

    >>> output, _ = comm_func.all_to_all_single_with_output_shape((2, 3), numpy.ones((2, 3)))
    >>> output.shape
    (2, 3)
    """
    return _core.all_to_all_single_with_output_shape(output_shape, tensor, output_split_sizes, input_split_sizes, group, async_op)


def all_to_all_with_output_shape(output_shape_list, input_tensor_list, group: str | None = None, async_op: bool = False):
    """Element i of the result is element r of rank i's list, r being this rank. Returns (tuple of tensors, handle).

    >>> outputs, _ = comm_func.all_to_all_with_output_shape([(3,)], [numpy.ones(3)])
    >>> outputs[0].tolist()
    [1.0, 1.0, 1.0]
    """
    return _core.all_to_all_with_output_shape(output_shape_list, input_tensor_list, group, async_op)


def all_to_all_v_c(output, input, send_count_matrix, group: str | None = None, async_op: bool = False):
    """Into `output`, where every rank knows how many elements each sends to each: row r is what rank r sends.

    >>> comm_func.all_to_all_v_c(output := numpy.zeros(3), numpy.ones(3), send_count_matrix=[[3]])
    >>> output.tolist()
    [1.0, 1.0, 1.0]
    """
    return _core.all_to_all_v_c(output, input, send_count_matrix, group, async_op)


def send(tensor, dst: int = 0, group: str | None = GlobalComm.WORLD_COMM_GROUP, tag: int = 0):
    """Sends the tensor to `dst`. Small ones are on their way when this returns; large ones have been taken.

    >>> if communication.get_rank() == 0:  # of two ranks
    ...     comm_func.send(numpy.arange(3), dst=1)
    ... else:
    ...     assert comm_func.recv(numpy.zeros(3, "int64"), src=0).tolist() == [0, 1, 2]
    """
    _core.send(tensor, dst, group, tag)


def recv(tensor, src: int = 0, group: str | None = GlobalComm.WORLD_COMM_GROUP, tag: int = 0):
    """What `src` sent, as a new tensor with the shape and dtype of `tensor`, which is ignored.

    >>> if communication.get_rank() == 0:  # of two ranks
    ...     comm_func.send(numpy.arange(3), dst=1)
    ... else:
    ...     assert comm_func.recv(numpy.zeros(3, "int64"), src=0).tolist() == [0, 1, 2]
    """
    return _core.recv(tensor, src, group, tag)


def isend(tensor, dst: int = 0, group: str | None = GlobalComm.WORLD_COMM_GROUP, tag: int = 0):
    """As send, without waiting. Returns the handle.

    >>> other = 1 - communication.get_rank()  # of two ranks
    >>> handle = comm_func.isend(numpy.arange(3), other)
    >>> comm_func.recv(numpy.zeros(3, "int64"), other).tolist(), handle.wait()
    ([0, 1, 2], None)
    """
    return _core.isend(tensor, dst, group, tag)


def irecv(tensor, src: int = 0, group: str | None = GlobalComm.WORLD_COMM_GROUP, tag: int = 0):
    """As recv, without waiting. Returns (tensor, handle).

    >>> other = 1 - communication.get_rank()  # of two ranks
    >>> output, handle = comm_func.irecv(numpy.zeros(3, "int64"), other)
    >>> comm_func.send(numpy.arange(3), other), handle.wait(), output.tolist()
    (None, None, [0, 1, 2])
    """
    return _core.irecv(tensor, src, group, tag)


class P2POp:
    """One letter of a batch: `op` is isend or irecv, or their names. To receive, `tensor` may be a shape where `recv_dtype` is
    given."""

    def __init__(self, op, tensor, peer: int, group: str | None = None, tag: int = 0, recv_dtype=None):
        name = op if isinstance(op, str) else getattr(op, "__name__", "")
        if name not in ("isend", "irecv"):
            raise _errors.ArgumentError(f"op is {op!r}; it is isend or irecv")
        self.op, self.tensor, self.peer, self.group, self.tag, self.recv_dtype = name, tensor, peer, group, tag, recv_dtype


def batch_isend_irecv(p2p_op_list):
    """Sends and receives all of them, in any order. What was received stands in the place of its operation; a zero of shape
    (1,) in that of a send.

    >>> other, tensor = 1 - communication.get_rank(), numpy.arange(3)  # of two ranks
    >>> letters = [comm_func.P2POp("isend", tensor, other), comm_func.P2POp("irecv", tensor, other)]
    >>> [output.tolist() for output in comm_func.batch_isend_irecv(letters)]
    [[0.0], [0, 1, 2]]
    """
    return _core.batch_isend_irecv([_letter(operation) for operation in _items(p2p_op_list, "p2p_op_list", "P2POp")])


def _letter(operation):
    if not isinstance(operation, P2POp):
        raise _errors.ArgumentTypeError(f"p2p_op_list has a {type(operation).__name__} in it; give P2POp only")
    tensor, shape, dtype = operation.tensor, None, None
    if isinstance(tensor, (tuple, list, int)):
        tensor, shape, dtype = None, tensor, operation.recv_dtype
        if operation.op == "isend":
            raise _errors.ArgumentTypeError("tensor is a shape; to send, give a tensor")
        if dtype is None:
            raise _errors.ArgumentError("recv_dtype is not given, and tensor is a shape; without a tensor both are needed")
    kind = type(dtype).__module__.split(".")[0]  # a dtype of torch or MindSpore asks for a tensor of theirs
    return (operation.op == "isend", tensor, operation.peer, operation.group, operation.tag, shape, dtype, kind)


_sys.modules["unisono.communication.comm_func"] = _sys.modules[__name__]  # where MindSpore has it
