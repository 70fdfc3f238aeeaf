"""The shape of mindspore.communication.comm_func: functions leave their input alone and return a new tensor.

Those with `async_op` return `(tensor, CommHandle)`; the handle is None unless `async_op` is true, and the tensor may be read
after its wait(). Groups are names; None and MindSpore's names of the world mean all ranks. A result is of the kind that was
given: a NumPy array for a NumPy array, a tensor for a tensor.
"""
import sys as _sys

from unisono._core import comm_func as _core
from unisono.communication import GlobalComm, ReduceOp

CommHandle = _core.CommHandle
__all__ = ["CommHandle", "GlobalComm", "P2POp", "ReduceOp", "all_gather_into_tensor", "all_reduce",
           "all_to_all_single_with_output_shape", "all_to_all_v_c", "all_to_all_with_output_shape", "barrier",
           "batch_isend_irecv", "broadcast", "exscan", "gather_into_tensor", "irecv", "isend", "recv", "reduce",
           "reduce_scatter_tensor", "scan", "scatter_tensor", "send"]


def all_reduce(tensor, op=ReduceOp.SUM, group=GlobalComm.WORLD_COMM_GROUP, async_op=False):
    """The reduction of everybody's tensor, as a new one on every rank. Shapes must agree.

    >>> import numpy, unisono
    >>> unisono.communication.init()
    >>> output, handle = all_reduce(numpy.array([1.0, 2.0]))
    >>> output.tolist(), handle
    ([1.0, 2.0], None)
    >>> unisono.communication.release()
    """
    return _core.all_reduce(tensor, op, group, async_op)


def scan(tensor, op=ReduceOp.SUM, group=GlobalComm.WORLD_COMM_GROUP, async_op=False):
    """Rank r gets the reduction of the tensors of ranks 0 to r. An extension."""
    return _core.scan(tensor, op, group, async_op)


def exscan(tensor, op=ReduceOp.SUM, group=GlobalComm.WORLD_COMM_GROUP, async_op=False):
    """Rank r gets the reduction of the tensors of ranks 0 to r - 1, and rank 0 zeros. An extension."""
    return _core.exscan(tensor, op, group, async_op)


def all_gather_into_tensor(tensor, group=None, async_op=False):
    """Everybody's tensor, concatenated along dim 0 in the order of the ranks; a 0-d tensor gives (N,)."""
    return _core.all_gather_into_tensor(tensor, group, async_op)


def reduce_scatter_tensor(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Part r of the reduction, cut along dim 0, which must be divisible by the number of ranks."""
    return _core.reduce_scatter_tensor(tensor, op, group, async_op)


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """The reduction on `dst`, zeros on every other rank: a tensor, no handle."""
    return _core.reduce(tensor, dst, op, group)


def scatter_tensor(tensor, src=0, group=GlobalComm.WORLD_COMM_GROUP):
    """Part r of `src`'s tensor along dim 0. The others pass a tensor of the same shape and dtype, which is ignored."""
    return _core.scatter_tensor(tensor, src, group)


def gather_into_tensor(tensor, dst=0, group=GlobalComm.WORLD_COMM_GROUP):
    """Everybody's tensor, concatenated along dim 0, on `dst`; a zero of shape (1,) on every other rank."""
    return _core.gather_into_tensor(tensor, dst, group)


def broadcast(tensor, src=0, group=GlobalComm.WORLD_COMM_GROUP):
    """`src`'s tensor on every rank, as a new one."""
    return _core.broadcast(tensor, src, group)


def barrier(group=GlobalComm.WORLD_COMM_GROUP):
    """Returns once every rank has come."""
    _core.barrier(group)


def all_to_all_single_with_output_shape(output_shape, tensor, output_split_sizes=None, input_split_sizes=None, group=None,
                                        async_op=False):
    """Part i of the result, along dim 0, is part r of rank i's tensor, r being this rank."""
    shape = _shape(output_shape)
    return _core.all_to_all_single_with_output_shape(shape, tensor, output_split_sizes, input_split_sizes, group, async_op)


def all_to_all_with_output_shape(output_shape_list, input_tensor_list, group=None, async_op=False):
    """Element i of the result is element r of rank i's list, r being this rank. Returns (tuple of tensors, handle)."""
    return _core.all_to_all_with_output_shape([_shape(shape) for shape in output_shape_list], input_tensor_list, group, async_op)


def all_to_all_v_c(output, input, send_count_matrix, group=None, async_op=False):
    """Into `output`, where every rank knows how many elements each sends to each: row r is what rank r sends."""
    counts = [int(count) for row in send_count_matrix for count in (row if hasattr(row, "__len__") else [row])]
    return _core.all_to_all_v_c(output, input, counts, group, async_op)


def send(tensor, dst=0, group=GlobalComm.WORLD_COMM_GROUP, tag=0):
    """Sends the tensor to `dst`. Small ones are on their way when this returns; large ones have been taken."""
    _core.send(tensor, dst, group, tag)


def recv(tensor, src=0, group=GlobalComm.WORLD_COMM_GROUP, tag=0):
    """What `src` sent, as a new tensor with the shape and dtype of `tensor`, which is ignored."""
    return _core.recv(tensor, src, group, tag)


def isend(tensor, dst=0, group=GlobalComm.WORLD_COMM_GROUP, tag=0):
    """As send, without waiting. Returns the handle."""
    return _core.isend(tensor, dst, group, tag)


def irecv(tensor, src=0, group=GlobalComm.WORLD_COMM_GROUP, tag=0):
    """As recv, without waiting. Returns (tensor, handle)."""
    return _core.irecv(tensor, src, group, tag)


class P2POp:
    """One letter of a batch: `op` is isend or irecv, or their names. To receive, `tensor` may be a shape where `recv_dtype` is
    given."""

    def __init__(self, op, tensor, peer, group=None, tag=0, recv_dtype=None):
        name = op if isinstance(op, str) else getattr(op, "__name__", "")
        if name not in ("isend", "irecv"):
            from unisono._errors import ArgumentError
            raise ArgumentError(f"op is {op!r}; it is isend or irecv")
        self.op, self.tensor, self.peer, self.group, self.tag, self.recv_dtype = name, tensor, peer, group, tag, recv_dtype


def batch_isend_irecv(p2p_op_list):
    """Sends and receives all of them, in any order. What was received stands in the place of its operation; a zero of shape
    (1,) in that of a send."""
    return _core.batch_isend_irecv([_letter(operation) for operation in p2p_op_list])


def _letter(operation):
    tensor = operation.tensor
    if operation.recv_dtype is not None and isinstance(tensor, (tuple, list, int)):
        from unisono._arrays import empty_like_dtype
        tensor = empty_like_dtype(_shape(tensor), operation.recv_dtype)
    return (operation.op == "isend", tensor, operation.peer, operation.group, operation.tag, None)


def _shape(shape):
    return [shape] if isinstance(shape, int) else [int(size) for size in shape]


_sys.modules["unisono.communication.comm_func"] = _sys.modules[__name__]  # where MindSpore has it
