"""Functions of torch.distributed that its Python side reserves for torch's own backends, opened to ours.

Before it asks any backend, torch 2.13 wants the name "gloo" for monitored_barrier(), an accelerator for split_group() and classes of
its own for _set_pg_timeout(). A program that comes from Gloo calls the first of them, so `import unisono.torch` puts functions in
their places which serve groups of ours and hand everything else to torch's.
"""
import datetime
import functools
import inspect

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

CPU = torch.device("cpu")


def open_all(backend_class):
    """Puts the functions below in the places of torch's, for groups whose backend is of this class; once."""

    def ours(group):
        """The group, where its tensors of the CPU are ours and this rank is in it; otherwise None."""
        if group is None and dist.is_initialized():
            group = dist.group.WORLD
        if not isinstance(group, dist.ProcessGroup) or CPU not in group._device_types:
            return None
        return group if isinstance(_backend_of(group), backend_class) else None

    for function in (monitored_barrier, split_group, _set_pg_timeout):
        torchs = getattr(distributed_c10d, function.__name__)
        if hasattr(torchs, "opened_by_unisono"):
            continue
        opened = _opened(function, torchs, ours)
        for module in (distributed_c10d, dist):
            if getattr(module, function.__name__, None) is torchs:
                setattr(module, function.__name__, opened)


def _backend_of(group):
    backend = group._get_backend(CPU)
    return getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL puts something around each


def _opened(function, torchs, ours):
    @functools.wraps(torchs)
    def opened(*arguments, **options):
        mine = function(ours, *arguments, **options)
        return torchs(*arguments, **options) if mine is NotImplemented else mine

    opened.opened_by_unisono = True
    return opened


def monitored_barrier(ours, group=None, timeout=None, wait_all_ranks=False):
    if not (group := ours(group)):
        return NotImplemented
    if isinstance(timeout, (int, float)):
        timeout = datetime.timedelta(seconds=timeout)
    group.monitored_barrier(*([] if timeout is None else [timeout]), wait_all_ranks=wait_all_ranks)


def split_group(ours, parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None):
    """Each part is made by its members; the ranks are those of the parent, in ascending order, as torch has it."""
    if not (parent := ours(parent_pg)) or parent._device_types != [CPU]:  # with an accelerator torch does it itself
        return NotImplemented
    if not split_ranks or not all(split_ranks):
        raise ValueError("split_ranks is a list of lists of ranks, none of them empty")
    named = sorted(rank for part in split_ranks for rank in part)
    if len(set(named)) != len(named) or not 0 <= named[0] <= named[-1] < parent.size():
        raise ValueError(f"split_ranks names each rank of the parent, 0 to {parent.size() - 1}, at most once; this is {split_ranks}")
    mine = next((part for part in split_ranks if parent.rank() in part), None)
    if mine is None:
        return None
    everybody = dist.get_process_group_ranks(parent)
    in_order = {"sort_ranks": False} if "sort_ranks" in inspect.signature(dist.new_group).parameters else {}  # where torch has none, every group's ranks ascend
    return dist.new_group([everybody[rank] for rank in sorted(mine)], timeout, backend or dist.get_backend(parent), pg_options,
                          use_local_synchronization=True, group_desc=group_desc, **in_order)


def _set_pg_timeout(ours, timeout, group=None):
    if not (group := ours(group)):
        return NotImplemented
    _backend_of(group)._set_default_timeout(timeout)
    return NotImplemented if group._device_types != [CPU] else None
