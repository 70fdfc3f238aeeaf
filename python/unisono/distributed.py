"""The shape of torch.distributed: functions work in place or fill the caller's tensors.

They return None, or a Work when `async_op` is true; a rank outside the group gets None and nothing happens. `src` and `dst`
are ranks of the world, `group_src` and `group_dst` ranks of the group. Tensors are NumPy arrays, torch or MindSpore tensors,
or whatever has DLPack or a buffer; one that is not contiguous works through a copy.

Examples are those of a world of one rank, or of two where they say so. They begin with

    import numpy
    import unisono.distributed as dist
    dist.init_process_group()
"""
from __future__ import annotations

from unisono import _core
from unisono import _errors
from unisono._core import FileStore, HashStore, PrefixStore, ProcessGroup, ReduceOp, Store, TCPStore, Work
from unisono._groups import (Backend, GroupMember, abort, agree, destroy_process_group, failed_ranks, get_backend, get_backend_config,
                             get_default_backend_for_device, get_global_rank, get_group_rank, get_node_local_rank,
                             get_process_group_ranks, get_rank, get_world_size, group, init_process_group, is_available,
                             is_backend_available, is_gloo_available, is_initialized, is_mpi_available, is_nccl_available,
                             is_torchelastic_launched, is_ucc_available, is_xccl_available, new_group, new_subgroups,
                             new_subgroups_by_enumeration, shrink_group, split_group, supports_complex)
from unisono._objects import (all_gather_object, broadcast_object_list, gather_object, recv_object_list, scatter_object_list,
                              send_object_list)

__all__ = [
    "Backend", "FileStore", "GroupMember", "HashStore", "P2POp", "PrefixStore", "ProcessGroup", "ReduceOp", "Store", "TCPStore", "Work",
    "abort", "agree", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_into_tensor_coalesced",
    "all_gather_object", "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier",
    "batch_isend_irecv", "broadcast", "broadcast_object_list", "destroy_process_group", "exscan", "failed_ranks", "gather",
    "gather_object",
    "get_backend", "get_backend_config", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group", "irecv",
    "is_available", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced", "scan", "scatter",
    "scatter_object_list", "send", "send_object_list", "shrink_group", "split_group", "supports_complex"]

_Group = ProcessGroup | None
_Rank = int | None


def all_reduce(tensor, op=ReduceOp.SUM, group: _Group = None, async_op: bool = False) -> Work | None:
    """The reduction of everybody's tensor, in `tensor`, on every rank.

    >>> import numpy, unisono.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> tensor = numpy.arange(3)
    >>> dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    >>> work = dist.all_reduce(tensor, async_op=True)
    >>> work.wait(), tensor.tolist()
    (True, [0, 1, 2])
    >>> dist.destroy_process_group()
    """
    return _core.all_reduce(tensor, op, group, async_op)


def scan(tensor, op=ReduceOp.SUM, group: _Group = None, async_op: bool = False) -> Work | None:
    """Rank r's tensor becomes the reduction of those of ranks 0 to r. An extension.

    >>> dist.scan(tensor := numpy.array([1, 2]))
    >>> tensor.tolist()  # of rank 0
    [1, 2]
    """
    return _core.scan(tensor, op, group, async_op)


def exscan(tensor, op=ReduceOp.SUM, group: _Group = None, async_op: bool = False) -> Work | None:
    """Rank r's tensor becomes the reduction of those of ranks 0 to r - 1; rank 0's keeps its bytes. An extension.

    >>> dist.exscan(tensor := numpy.array([1, 2]))
    >>> tensor.tolist()  # of rank 0
    [1, 2]
    """
    return _core.exscan(tensor, op, group, async_op)


def all_gather(tensor_list, tensor, group: _Group = None, async_op: bool = False) -> Work | None:
    """Element i of `tensor_list` becomes rank i's tensor. Sizes may differ where element i has rank i's size.

    >>> tensors = [numpy.zeros(2) for _ in range(dist.get_world_size())]
    >>> dist.all_gather(tensors, numpy.array([1.0, 2.0]))
    >>> tensors[0].tolist()
    [1.0, 2.0]
    """
    return _core.all_gather(tensor_list, tensor, group, async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group: _Group = None, async_op: bool = False) -> Work | None:
    """Everybody's tensor in one: concatenated along dim 0, or stacked (N, *shape), as `output_tensor`'s shape says.

    >>> output = numpy.zeros(2 * dist.get_world_size())
    >>> dist.all_gather_into_tensor(output, numpy.array([1.0, 2.0]))
    >>> output.tolist()
    [1.0, 2.0]
    """
    return _core.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def all_gather_single(output_tensor, input_tensor, group: _Group = None, async_op: bool = False) -> Work | None:
    """all_gather_into_tensor by another name.

    >>> output = numpy.zeros(2 * dist.get_world_size())
    >>> dist.all_gather_single(output, numpy.array([1.0, 2.0]))
    >>> output.tolist()
    [1.0, 2.0]
    """
    return _core.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group: _Group = None, async_op: bool = False) -> Work | None:
    """Rank i's `output` is the reduction of everybody's element i of `input_list`.

    >>> output = numpy.zeros(2)
    >>> dist.reduce_scatter(output, [numpy.array([1.0, 2.0]) for _ in range(dist.get_world_size())])
    >>> output.tolist()
    [1.0, 2.0]
    """
    return _core.reduce_scatter(output, input_list, op, group, async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group: _Group = None, async_op: bool = False) -> Work | None:
    """Part r of the reduction of everybody's `input`, which is N outputs concatenated or stacked.

    >>> output = numpy.zeros(2)
    >>> dist.reduce_scatter_tensor(output, numpy.ones(2 * dist.get_world_size()))
    >>> output.tolist()
    [1.0, 1.0]
    """
    return _core.reduce_scatter_tensor(output, input, op, group, async_op)


def reduce_scatter_single(output, input, op=ReduceOp.SUM, group: _Group = None, async_op: bool = False) -> Work | None:
    """reduce_scatter_tensor by another name.

    >>> output = numpy.zeros(2)
    >>> dist.reduce_scatter_single(output, numpy.ones(2 * dist.get_world_size()), op="max")
    >>> output.tolist()
    [1.0, 1.0]
    """
    return _core.reduce_scatter_tensor(output, input, op, group, async_op)


def reduce(tensor, dst: _Rank = None, op=ReduceOp.SUM, group: _Group = None, async_op: bool = False,
           group_dst: _Rank = None) -> Work | None:
    """The reduction in `dst`'s tensor; every other rank's keeps its bytes.

    >>> tensor = numpy.array([1.0, 2.0])
    >>> dist.reduce(tensor, dst=0, op=dist.ReduceOp.PRODUCT)
    >>> tensor.tolist()
    [1.0, 2.0]
    """
    return _core.reduce(tensor, dst, op, group, async_op, group_dst)


def broadcast(tensor, src: _Rank = None, group: _Group = None, async_op: bool = False, group_src: _Rank = None) -> Work | None:
    """`src`'s tensor in everybody's.

    >>> tensor = numpy.arange(3) if dist.get_rank() == 0 else numpy.zeros(3, "int64")
    >>> dist.broadcast(tensor, src=0)
    >>> tensor.tolist()
    [0, 1, 2]
    """
    return _core.broadcast(tensor, src, group, async_op, group_src)


def scatter(tensor, scatter_list=None, src: _Rank = None, group: _Group = None, async_op: bool = False,
            group_src: _Rank = None) -> Work | None:
    """`tensor` receives element r of the list that `src` gives, r being this rank; the others give none.

    >>> parts = [numpy.full(2, 1.0 + rank) for rank in range(dist.get_world_size())]
    >>> dist.scatter(tensor := numpy.zeros(2), parts if dist.get_rank() == 0 else None, src=0)
    >>> tensor.tolist()
    [1.0, 1.0]
    """
    return _core.scatter(tensor, scatter_list, src, group, async_op, group_src)


def gather(tensor, gather_list=None, dst: _Rank = None, group: _Group = None, async_op: bool = False,
           group_dst: _Rank = None) -> Work | None:
    """Element i of the list that `dst` gives becomes rank i's tensor; the others give none.

    >>> parts = [numpy.zeros(2) for _ in range(dist.get_world_size())]
    >>> dist.gather(numpy.array([1.0, 2.0]), parts if dist.get_rank() == 0 else None, dst=0)
    >>> parts[0].tolist()
    [1.0, 2.0]
    """
    return _core.gather(tensor, gather_list, dst, group, async_op, group_dst)


def all_to_all(output_tensor_list, input_tensor_list, group: _Group = None, async_op: bool = False) -> Work | None:
    """Element i of the output list becomes element r of rank i's input list, r being this rank.

    >>> inputs = [numpy.full(2, 1.0 + rank) for rank in range(dist.get_world_size())]
    >>> dist.all_to_all(outputs := [numpy.zeros(2) for _ in inputs], inputs)
    >>> outputs[0].tolist()
    [1.0, 1.0]
    """
    return _core.all_to_all(output_tensor_list, input_tensor_list, group, async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group: _Group = None,
                      async_op: bool = False) -> Work | None:
    """As all_to_all, with one tensor each way, cut along dim 0: into equal parts, or into those that are given.

    >>> output = numpy.zeros(2 * dist.get_world_size())
    >>> dist.all_to_all_single(output, numpy.ones(2 * dist.get_world_size()))
    >>> output.tolist()
    [1.0, 1.0]
    """
    return _core.all_to_all_single(output, input, output_split_sizes, input_split_sizes, group, async_op)


def barrier(group: _Group = None, async_op: bool = False, device_ids=None, timeout=None) -> Work | None:
    """Returns once every rank has come. `device_ids` is taken and ignored: there are no devices.

    >>> dist.barrier()
    >>> dist.barrier(async_op=True).wait()
    True
    """
    return _core.barrier(group, async_op, timeout)


def monitored_barrier(group: _Group = None, timeout=None, wait_all_ranks: bool = False) -> None:
    """A barrier for finding out who does not come: TimeoutError names every rank that is missing.

    >>> dist.monitored_barrier(timeout=30, wait_all_ranks=True)
    """
    _core.monitored_barrier(group, timeout, wait_all_ranks)


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group: _Group = None, async_op: bool = False) -> Work | None:
    """all_reduce of many tensors of one dtype in one call, each where it lies.

    >>> tensors = [numpy.ones(2), numpy.ones((2, 3))]
    >>> dist.all_reduce_coalesced(tensors)
    >>> float(tensors[1].sum())
    6.0
    """
    return _core.all_reduce_coalesced(tensors, op, group, async_op)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group: _Group = None, async_op: bool = False) -> Work | None:
    """output_tensor_lists[i][j] becomes rank i's input_tensor_list[j], in one call.

    >>> lists = [[numpy.zeros(2), numpy.zeros(3)] for _ in range(dist.get_world_size())]
    >>> dist.all_gather_coalesced(lists, [numpy.ones(2), numpy.ones(3)])
    >>> lists[0][1].tolist()
    [1.0, 1.0, 1.0]
    """
    return _core.all_gather_coalesced(output_tensor_lists, input_tensor_list, group, async_op)


def all_gather_into_tensor_coalesced(outputs, inputs, group: _Group = None, async_op: bool = False) -> Work | None:
    """all_gather_into_tensor of many tensors of one dtype in one call.

    >>> outputs = [numpy.zeros(2 * dist.get_world_size()), numpy.zeros(3 * dist.get_world_size())]
    >>> dist.all_gather_into_tensor_coalesced(outputs, [numpy.ones(2), numpy.ones(3)])
    >>> outputs[1].tolist()
    [1.0, 1.0, 1.0]
    """
    return _core.all_gather_into_tensor_coalesced(outputs, inputs, group, async_op)


def reduce_scatter_tensor_coalesced(outputs, inputs, op=ReduceOp.SUM, group: _Group = None,
                                    async_op: bool = False) -> Work | None:
    """reduce_scatter_tensor of many tensors of one dtype in one call.

    >>> outputs = [numpy.zeros(2), numpy.zeros(3)]
    >>> dist.reduce_scatter_tensor_coalesced(outputs, [numpy.ones(size * dist.get_world_size()) for size in (2, 3)])
    >>> outputs[1].tolist()
    [1.0, 1.0, 1.0]
    """
    return _core.reduce_scatter_tensor_coalesced(outputs, inputs, op, group, async_op)


def send(tensor, dst: _Rank = None, group: _Group = None, tag: int = 0, group_dst: _Rank = None) -> None:
    """Sends the tensor to `dst`. Small ones are on their way when this returns; large ones have been taken.

    >>> if dist.get_rank() == 0:  # of two ranks
    ...     dist.send(numpy.arange(3), dst=1)
    ... elif dist.recv(tensor := numpy.zeros(3, "int64"), src=0) == 0:
    ...     assert tensor.tolist() == [0, 1, 2]
    """
    _core.send(tensor, dst, group, tag, group_dst)


def recv(tensor, src: _Rank = None, group: _Group = None, tag: int = 0, group_src: _Rank = None) -> int:
    """Receives from `src`, or from any rank where none is given, and returns who sent it; -1 outside the group.

    >>> if dist.get_rank() == 0:  # of two ranks
    ...     dist.send(numpy.arange(3), dst=1)
    ... elif dist.recv(tensor := numpy.zeros(3, "int64")) == 0:
    ...     assert tensor.tolist() == [0, 1, 2]
    """
    return _core.recv(tensor, src, group, tag, group_src)


def isend(tensor, dst: _Rank = None, group: _Group = None, tag: int = 0, group_dst: _Rank = None) -> Work | None:
    """As send, without waiting: returns a Work.

    >>> other = 1 - dist.get_rank()  # of two ranks
    >>> works = [dist.isend(numpy.ones(3), other), dist.irecv(numpy.zeros(3), other)]
    >>> [work.wait() for work in works]
    [True, True]
    """
    return _core.isend(tensor, dst, group, tag, group_dst)


def irecv(tensor, src: _Rank = None, group: _Group = None, tag: int = 0, group_src: _Rank = None) -> Work | None:
    """As recv, without waiting: returns a Work, whose source_rank() says who sent it.

    >>> other = 1 - dist.get_rank()  # of two ranks
    >>> works = [dist.isend(numpy.ones(3), other), dist.irecv(tensor := numpy.zeros(3), other)]
    >>> [work.wait() for work in works], works[1].source_rank() == other, tensor.tolist()
    ([True, True], True, [1.0, 1.0, 1.0])
    """
    return _core.irecv(tensor, src, group, tag, group_src)


class P2POp:
    """One letter of a batch: `op` is isend or irecv."""

    def __init__(self, op, tensor, peer: _Rank = None, group: _Group = None, tag: int = 0, group_peer: _Rank = None):
        name = getattr(op, "__name__", op)
        if name not in ("isend", "irecv"):
            raise _errors.ArgumentError(f"op is {op!r}; it is isend or irecv")
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer
        self._sends = name == "isend"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Posts all of them at once, in any order, and returns a Work each.

    >>> other, tensor = 1 - dist.get_rank(), numpy.zeros(3)  # of two ranks
    >>> letters = [dist.P2POp(dist.isend, numpy.ones(3), other), dist.P2POp(dist.irecv, tensor, other)]
    >>> [work.wait() for work in dist.batch_isend_irecv(letters)], tensor.tolist()
    ([True, True], [1.0, 1.0, 1.0])
    """
    for operation in _core.items(p2p_op_list, "p2p_op_list", "P2POp"):
        if not isinstance(operation, P2POp):
            raise _errors.ArgumentTypeError(f"p2p_op_list has a {type(operation).__name__} in it; give P2POp only")
    return _core.batch_isend_irecv([(operation._sends, operation.tensor, operation.peer, operation.group, operation.tag,
                                     operation.group_peer) for operation in p2p_op_list])
