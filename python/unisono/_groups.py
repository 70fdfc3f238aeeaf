"""Joining and groups, for unisono.distributed."""
from __future__ import annotations

import os

from unisono import _core, _errors
from unisono._joining import joining


_WORLD = _core.world()


class _WorldType(type):
    @property
    def WORLD(cls):
        """All ranks; None before the world was joined, which means the same."""
        return _WORLD if _core.is_initialized() else None


class GroupMember(metaclass=_WorldType):
    """What stands for a group where there is none: WORLD, and what new_group() returns outside the group."""

    NON_GROUP_MEMBER = _core.outside()


class group(metaclass=_WorldType):
    """`group.WORLD` is all ranks."""


class Backend(str):
    """The name of a backend. There is one, "unisono".

    >>> Backend("UNISONO") == "unisono" == Backend.UNISONO
    True
    """

    UNDEFINED = "undefined"
    UNISONO = "unisono"

    def __new__(cls, name):
        if str(name).lower() not in ("unisono", "cpu:unisono"):
            raise _errors.ArgumentError(f'backend is {name!r}; this is unisono.distributed, and its only backend is "unisono"')
        return super().__new__(cls, "unisono")


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None) -> None:
    """Joins the world: returns when all ranks have come; InitError says who is missing.

    By default the launcher (unisono run, torchrun, msrun, mpirun, srun) says who is who; otherwise give `rank` and
    `world_size` and a way to meet: `init_method="file:///path"`, or a `store` that all ranks reach. `timeout` (seconds or a
    timedelta) is the deadline of joining and the default of calls. `backend` is "unisono" or nothing; `group_name`,
    `pg_options` and `device_id` are taken and ignored. In msrun's scheduler, which runs the program too and is no rank, it
    ends the process, as MindSpore's own init() does.

    >>> import unisono.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.get_rank(), dist.get_world_size(), dist.is_initialized()
    (0, 1, True)
    >>> dist.destroy_process_group()
    """
    _check_backend(backend)
    if _core.is_initialized():
        raise _errors.StateError("the world was joined already: destroy_process_group() leaves it")
    with joining():
        _core.init_process_group(rank, world_size, init_method, timeout, store)


def _check_backend(backend):
    if backend:
        Backend(backend)


def destroy_process_group(group=None) -> None:
    """Leaves the group, or the world and everything.

    >>> group = dist.new_group()
    >>> dist.destroy_process_group(group)
    >>> dist.destroy_process_group()
    >>> dist.is_initialized()
    False
    """
    _core.destroy_process_group(group)


def is_initialized() -> bool:
    """Whether the world was joined, by this process: false in a child of a rank's fork(), a DataLoader's worker say.

    >>> dist.is_initialized()
    True
    """
    return _core.is_initialized()


def is_available() -> bool:
    """True.

    >>> dist.is_available()
    True
    """
    return True


def get_backend(group=None) -> Backend:
    """"unisono".

    >>> dist.get_backend()
    'unisono'
    """
    return Backend(_core.get_backend(group))


def get_backend_config(group=None) -> str:
    """Which backend serves which device: "cpu:unisono".

    >>> dist.get_backend_config()
    'cpu:unisono'
    """
    return "cpu:" + _core.get_backend(group)


def get_default_backend_for_device(device) -> str:
    """"unisono" for the CPU, by its name or as a torch.device; ArgumentError for every other device.

    >>> get_default_backend_for_device("cpu")
    'unisono'
    """
    name = str(getattr(device, "type", device)).split(":")[0]
    if name != "cpu":
        raise _errors.ArgumentError(f"device is {device!r}; there is a backend for the CPU only")
    return _core.get_backend(None)


def is_backend_available(backend: str) -> bool:
    """Whether the name is that of our only backend.

    >>> dist.is_backend_available("unisono"), dist.is_backend_available("nccl")
    (True, False)
    """
    return str(backend).lower() == "unisono"


def is_gloo_available() -> bool:
    """False: this package has one backend, "unisono".

    >>> dist.is_gloo_available(), dist.is_nccl_available()
    (False, False)
    """
    return False


is_mpi_available = is_nccl_available = is_ucc_available = is_xccl_available = is_gloo_available


def is_torchelastic_launched() -> bool:
    """Whether torchrun started this process.

    >>> dist.is_torchelastic_launched()
    False
    """
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This rank among those of this machine; before the world was joined: what the launcher says, or `fallback_rank`.

    >>> dist.get_node_local_rank()
    0
    """
    if _core.is_initialized():
        return _core.communication.get_local_rank(None)
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise _errors.StateError("the world was not joined and LOCAL_RANK is not set: call init_process_group(), or give "
                                 "fallback_rank")
    return _core.whole(fallback_rank, "fallback_rank")


def supports_complex(reduceOp) -> bool:
    """Whether complex numbers can be reduced so: they have no order and no bits to combine.

    >>> supports_complex(_core.ReduceOp.SUM), supports_complex(_core.ReduceOp.MAX)
    (True, False)
    """
    ops = _core.ReduceOp
    return _core.op(reduceOp) not in (ops.MAX, ops.MIN, ops.BAND, ops.BOR, ops.BXOR)


def get_rank(group=None) -> int:
    """This rank, in the group; -1 outside it.

    >>> dist.get_rank(), dist.get_rank(dist.GroupMember.NON_GROUP_MEMBER)
    (0, -1)
    """
    return _core.get_rank(group)


def get_world_size(group=None) -> int:
    """How many ranks the group has; -1 outside it.

    >>> dist.get_world_size(), dist.group.WORLD.size()
    (1, 1)
    """
    return _core.get_world_size(group)


def get_process_group_ranks(group) -> list[int]:
    """The ranks of the world that are in the group, in its order.

    >>> dist.get_process_group_ranks(dist.new_group([0]))
    [0]
    """
    return _core.get_process_group_ranks(group)


def get_group_rank(group, global_rank) -> int:
    """The rank in the group of a rank of the world.

    >>> dist.get_group_rank(dist.new_group([0]), global_rank=0)
    0
    """
    return _core.get_group_rank(group, global_rank)


def get_global_rank(group, group_rank) -> int:
    """The rank in the world of a rank of the group.

    >>> dist.get_global_rank(dist.new_group([0]), group_rank=0)
    0
    """
    return _core.get_global_rank(group, group_rank)


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization: bool = False, group_desc=None,
              device_id=None, sort_ranks: bool = True, *, reproducible: bool | None = None):
    """A group of these ranks, in the order of their numbers unless `sort_ranks` is false; all ranks where none are given.

    Every rank may call this, or its members only: what others do makes no difference, except that they get
    GroupMember.NON_GROUP_MEMBER. `reproducible` is ours: whether the bits of a reduction depend on the inputs and the
    number of ranks alone. `pg_options`, `group_desc` and `device_id` are taken and ignored.

    >>> group = dist.new_group([0], timeout=60)
    >>> dist.all_reduce(tensor := numpy.ones(2), group=group)
    >>> group
    <unisono.ProcessGroup "ranks 0 #1": rank 0 of 1>
    """
    _check_backend(backend)
    members = list(range(_core.get_world_size(None))) if ranks is None else _core.wholes(ranks, "ranks")
    if _core.flag(sort_ranks, "sort_ranks"):
        members.sort()
    made = _core.new_group(members, timeout, reproducible)
    return _or_outside(made)


def _or_outside(made):
    return made if made.is_member() else GroupMember.NON_GROUP_MEMBER


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None):
    """Splits a group along lists of its ranks; returns the part that this rank is in, or None. Every rank of it calls.

    >>> part = dist.split_group(dist.group.WORLD, [[0]])
    >>> dist.get_process_group_ranks(part)
    [0]
    """
    _check_backend(backend)
    made = _core.split_group(parent_pg, split_ranks, timeout)
    return made if made.is_member() else None


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of `group_size` neighbouring ranks each: (the one that this rank is in, all of them).

    >>> mine, everyone = dist.new_subgroups(group_size=1)
    >>> mine is everyone[dist.get_rank()]
    True
    """
    size = _core.get_world_size(group)
    wanted = size if group_size is None else _core.whole(group_size, "group_size")
    if wanted <= 0 or size % wanted:
        raise _errors.ArgumentError(f"group_size is {wanted}; it must divide the {size} ranks into equal parts")
    ranks = _core.get_process_group_ranks(group)
    parts = [ranks[first:first + wanted] for first in range(0, size, wanted)]
    return new_subgroups_by_enumeration(parts, timeout, backend)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of the ranks that are listed: (the one that this rank is in, all of them).

    >>> mine, everyone = dist.new_subgroups_by_enumeration([[0]])
    >>> mine.size(), len(everyone)
    (1, 1)
    """
    _check_backend(backend)
    made = [_or_outside(each) for each in _core.new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout)]
    return next((each for each in made if each.is_member()), None), made


def shrink_group(ranks_to_exclude, group=None, shrink_flags=0, pg_options=None):
    """The group without these ranks and without those that are gone. The others call, also when the group is broken.

    >>> smaller = dist.shrink_group([])  # those that are gone are left out anyway
    >>> smaller.size()
    1
    """
    return _or_outside(_core.shrink_group(ranks_to_exclude, group))


def agree(flag, group=None, timeout=None) -> bool:
    """True when every rank of the group that is still there passes true; all get the same answer, also on a broken group.

    >>> dist.agree(True), dist.agree(False)
    (True, False)
    """
    return _core.agree(flag, group, timeout)


def failed_ranks(group=None) -> list[int]:
    """The ranks of the world, in their order, of those members of the group that are known to have died or left. Works on a broken
    group, where an error names one of them; asks nobody else, so two ranks may get different answers for a moment.

    >>> dist.failed_ranks()
    []
    """
    return _core.failed_ranks(group)


def abort(group=None, why="abort() was called") -> None:
    """Ends every call on the group, on every rank, with RevokedError; the group is broken afterwards. Any thread.

    >>> dist.abort(group := dist.new_group(), "the loss is not a number")
    >>> dist.barrier(group)
    Traceback (most recent call last):
    unisono._errors.RevokedError: ...
    """
    _core.abort(group, why)
