"""Unisono as a backend of torch.distributed.

    import torch.distributed as dist
    import unisono.torch

    dist.init_process_group("unisono")  # or "cpu:unisono", "cpu:unisono,cuda:nccl"

Importing registers the backend, and opens monitored_barrier() and split_group() of torch.distributed to it, which torch reserves for
backends of its own. It is compiled for one version of torch; where that differs, or nothing was compiled yet, the
import fails and names the command that does it.
"""
import atexit
import sys

import torch
import torch.distributed

from . import _record, _reserved

__all__ = ["create_backend"]


def _runs_the_build():
    """Whether this import is only on the way to `python -m unisono.torch`, which has to work before there is a module."""
    return sys.argv[:1] == ["-m"] and "unisono.torch" in sys.orig_argv


def _load():
    if not torch.distributed.is_available():
        raise ImportError(f"unisono.torch: torch {torch.__version__} was built without torch.distributed")
    if difference := _record.difference(_record.HERE):
        raise ImportError(f"unisono.torch {difference}\n  {sys.executable} -m unisono.torch build")
    from . import _backend

    return _backend


def create_backend(options, backend_options=None):
    """Makes the backend of one process group; called by torch."""
    from unisono._joining import point_out_ucx

    point_out_ucx()
    return _module.create(options)


if not _runs_the_build():
    _module = _load()
    if not hasattr(torch.distributed.Backend, "UNISONO"):  # by the entry point, where the package was installed by pip
        torch.distributed.Backend.register_backend("unisono", create_backend, extended_api=True, devices=["cpu"])
    _reserved.open_all(_module.Backend)
    atexit.register(_module.end_for_exit)
