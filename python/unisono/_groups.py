"""Joining and groups, for unisono.distributed."""
import itertools

from unisono import _core, _errors
from unisono._joining import joining


class GroupMember:
    """What stands for a group where there is none: WORLD, and what new_group() returns outside the group."""

    WORLD = None
    NON_GROUP_MEMBER = _core.outside()


class group:
    """`group.WORLD` is all ranks."""

    WORLD = None


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None):
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
    if backend not in (None, "", "unisono", "cpu:unisono"):
        raise _errors.ArgumentError(f"backend is {backend!r}; this is unisono.distributed, and its only backend is \"unisono\"")
    if _core.is_initialized():
        raise _errors.StateError("the world was joined already: destroy_process_group() leaves it")
    method = init_method or ""
    if method.startswith("tcp://"):
        raise _errors.ArgumentError("tcp:// needs several machines, which Unisono does not join yet; on one machine give "
                                    "init_method=\"file:///path\", a store, or start with `unisono run`")
    with joining():
        _core.init_process_group(None if rank < 0 else rank, None if world_size < 0 else world_size, method, timeout, store)


def destroy_process_group(group=None):
    """Leaves the group, or the world and everything."""
    _core.destroy_process_group(group)


def is_initialized():
    """Whether the world was joined."""
    return _core.is_initialized()


def is_available():
    """True."""
    return True


def get_backend(group=None):
    """"unisono"."""
    return _core.get_backend()


def get_rank(group=None):
    """This rank, in the group; -1 outside it."""
    return _core.get_rank(group)


def get_world_size(group=None):
    """How many ranks the group has; -1 outside it."""
    return _core.get_world_size(group)


def get_process_group_ranks(group=None):
    """The ranks of the world that are in the group, in its order."""
    return _core.get_process_group_ranks(group)


def get_group_rank(group, global_rank):
    """The rank in the group of a rank of the world."""
    return _core.get_group_rank(group, global_rank)


def get_global_rank(group, group_rank):
    """The rank in the world of a rank of the group."""
    return _core.get_global_rank(group, group_rank)


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None,
              device_id=None, *, reproducible=None):
    """A group of these ranks, in the order of their numbers; all ranks where none are given.

    Every rank may call this, or its members only: what others do makes no difference, except that they get
    GroupMember.NON_GROUP_MEMBER. `reproducible` is ours: whether the bits of a reduction depend on the inputs and the
    number of ranks alone.
    """
    members = list(range(_core.get_world_size(None))) if ranks is None else sorted(ranks)
    made = _core.new_group(members, timeout, "", reproducible)
    return made if made.is_member() else GroupMember.NON_GROUP_MEMBER


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None):
    """Splits a group along lists of its ranks; returns the part that this rank is in, or None. Every rank of it calls."""
    if not split_ranks:
        raise _errors.ArgumentError("split_ranks must be a list of lists of ranks of the group")
    mine = _core.get_rank(parent_pg)
    colour = next((index for index, ranks in enumerate(split_ranks) if mine in ranks), -1)
    made = _core.split_group(parent_pg, colour, mine, timeout, "")
    return made if made.is_member() else None


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of `group_size` neighbouring ranks each: (the one that this rank is in, all of them)."""
    size = _core.get_world_size(group)
    wanted = size if group_size is None else group_size
    if wanted <= 0 or size % wanted:
        raise _errors.ArgumentError(f"group_size is {wanted}; it must divide the {size} ranks into equal parts")
    ranks = _core.get_process_group_ranks(group)
    parts = [list(part) for part in itertools.zip_longest(*[iter(ranks)] * wanted)]
    return new_subgroups_by_enumeration(parts, timeout)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Groups of the ranks that are listed: (the one that this rank is in, all of them)."""
    mine, everyone = _core.new_subgroups_by_enumeration([list(ranks) for ranks in ranks_per_subgroup_list], timeout)
    all_groups = [made if made.is_member() else GroupMember.NON_GROUP_MEMBER for made in everyone]
    return (mine if mine.is_member() else None), all_groups


def shrink_group(ranks_to_exclude, group=None, shrink_flags=0, pg_options=None):
    """The group without these ranks and without those that are gone. The others call, also when the group is broken."""
    return _core.shrink_group(list(ranks_to_exclude), group, None)


def agree(flag, group=None, timeout=None):
    """True when every rank of the group that is still there passes true; all get the same answer, also on a broken group."""
    return _core.agree(flag, group, timeout)


def abort(group=None, why="abort() was called"):
    """Ends every call on the group, on every rank, with RevokedError; the group is broken afterwards. Any thread."""
    _core.abort(group, why)
