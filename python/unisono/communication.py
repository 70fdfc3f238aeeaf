"""The shape of mindspore.communication: joining the world, and groups by name. See unisono.comm_func for the functions.

Both dialects share one world: whichever is initialised second finds it there. Examples begin as those of comm_func do.
"""
from __future__ import annotations

import sys as _sys

from unisono._core import communication as _core
from unisono import _core as _whole
from unisono._joining import joining as _joining

__all__ = ["GlobalComm", "HCCL_WORLD_COMM_GROUP", "MCCL_WORLD_COMM_GROUP", "NCCL_WORLD_COMM_GROUP", "ReduceOp", "comm_func",
           "create_group", "destroy_group", "get_group_rank_from_world_rank", "get_group_size", "get_local_rank",
           "get_local_rank_size", "get_process_group_ranks", "get_rank", "get_world_rank_from_group_rank", "init", "release"]

HCCL_WORLD_COMM_GROUP = "hccl_world_group"  # all three are names of the world
NCCL_WORLD_COMM_GROUP = "nccl_world_group"
MCCL_WORLD_COMM_GROUP = "mccl_world_group"


class ReduceOp:
    """The names of the reductions: strings, as in MindSpore."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AVG = "avg"
    BAND = "band"  # from here on: extensions
    BOR = "bor"
    BXOR = "bxor"


class _GlobalCommType(type):
    @property
    def INITED(cls):
        """Whether the world was joined."""
        return _whole.is_initialized()


class GlobalComm(metaclass=_GlobalCommType):
    """What is common to all ranks."""

    BACKEND = "unisono"
    WORLD_COMM_GROUP = HCCL_WORLD_COMM_GROUP


def init(backend_name=None) -> None:
    """Joins the world as the launcher says; a second call finds it there. `backend_name` is taken and ignored.

    In msrun's scheduler, which runs the program too and is no rank, it ends the process, as MindSpore's own init() does. A
    program that calls both calls MindSpore's first: its ranks need that scheduler.

    >>> init()
    >>> get_rank(), get_group_size(), get_process_group_ranks()
    (0, 1, [0])
    >>> release()
    """
    with _joining():
        _core.init()


def release() -> None:
    """Leaves the world.

    >>> communication.release()
    >>> communication.GlobalComm.INITED
    False
    """
    _core.release()


def get_rank(group: str | None = GlobalComm.WORLD_COMM_GROUP) -> int:
    """This rank, in the group.

    >>> communication.get_rank(), communication.get_rank("hccl_world_group")
    (0, 0)
    """
    return _core.get_rank(group)


def get_group_size(group: str | None = GlobalComm.WORLD_COMM_GROUP) -> int:
    """How many ranks the group has.

    >>> communication.get_group_size()
    1
    """
    return _core.get_group_size(group)


def get_local_rank(group: str | None = GlobalComm.WORLD_COMM_GROUP) -> int:
    """This rank among those of the group that are on this machine.

    >>> communication.get_local_rank()
    0
    """
    return _core.get_local_rank(group)


def get_local_rank_size(group: str | None = GlobalComm.WORLD_COMM_GROUP) -> int:
    """How many ranks of the group are on this machine.

    >>> communication.get_local_rank_size()
    1
    """
    return _core.get_local_rank_size(group)


def create_group(group: str, rank_ids, options=None) -> None:
    """Makes a group of these ranks under this name; its members call this. `options` is taken and ignored.

    >>> communication.create_group("mine", [0])
    >>> output, _ = comm_func.all_reduce(numpy.ones(2), group="mine")
    >>> communication.get_group_size("mine"), output.tolist()
    (1, [1.0, 1.0])
    """
    _core.create_group(group, rank_ids)


def destroy_group(group: str) -> None:
    """Leaves the group.

    >>> communication.create_group("mine", [0])
    >>> communication.destroy_group("mine")
    """
    _core.destroy_group(group)


def get_world_rank_from_group_rank(group: str, group_rank_id) -> int:
    """The rank in the world of a rank of the group.

    >>> communication.create_group("mine", [0])
    >>> communication.get_world_rank_from_group_rank("mine", 0)
    0
    """
    return _core.get_world_rank_from_group_rank(group, group_rank_id)


def get_group_rank_from_world_rank(world_rank_id, group) -> int:
    """The rank in the group of a rank of the world.

    >>> communication.create_group("mine", [0])
    >>> communication.get_group_rank_from_world_rank(0, "mine")
    0
    """
    return _core.get_group_rank_from_world_rank(world_rank_id, group)


def get_process_group_ranks(group: str | None = GlobalComm.WORLD_COMM_GROUP) -> list[int]:
    """The ranks of the world that are in the group, in its order.

    >>> communication.get_process_group_ranks()
    [0]
    """
    return _core.get_process_group_ranks(group)


def __getattr__(name):
    if name == "management":  # as in mindspore.communication.management, which has the functions of this module
        return _sys.modules[__name__]
    if name == "comm_func":  # as in mindspore.communication.comm_func; it imports this module
        import unisono.comm_func
        return unisono.comm_func
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_sys.modules["unisono.communication.management"] = _sys.modules[__name__]  # where MindSpore has them too
