"""Unisono as a backend of torch.distributed.

    import torch.distributed as dist
    import unisono.torch

    dist.init_process_group("unisono")  # or "cpu:unisono", "cpu:unisono,cuda:nccl"

Importing registers the backend, and opens monitored_barrier() and split_group() of torch.distributed to it, which torch reserves for
backends of its own. It is compiled for one version of torch; where that differs, or nothing was compiled yet, the
import fails and names the command that does it.
"""
import atexit
import json
import sys
from pathlib import Path

import torch
import torch.distributed

from . import _reserved

__all__ = ["create_backend"]

BUILD_COMMAND = f"{sys.executable} -m unisono.torch build"
RECORD = Path(__file__).parent / "_backend.json"


def _runs_the_build():
    """Whether this import is only on the way to `python -m unisono.torch`, which has to work before there is a module."""
    return sys.argv[:1] == ["-m"] and "unisono.torch" in sys.orig_argv


def _load():
    if not torch.distributed.is_available():
        raise ImportError(f"unisono.torch: torch {torch.__version__} was built without torch.distributed")
    try:
        built_for = json.loads(RECORD.read_text())["torch"]
    except (OSError, ValueError, KeyError):
        raise ImportError(f"unisono.torch is not built for this environment yet; build it with\n  {BUILD_COMMAND}") from None
    if built_for != torch.__version__:
        raise ImportError(
            f"unisono.torch was built for torch {built_for}, and this is torch {torch.__version__}; build it again with\n"
            f"  {BUILD_COMMAND}"
        )
    from . import _backend

    return _backend


def create_backend(options, backend_options=None):
    """Makes the backend of one process group; called by torch."""
    return _module.create(options)


if not _runs_the_build():
    _module = _load()
    torch.distributed.Backend.register_backend("unisono", create_backend, extended_api=True, devices=["cpu"])
    _reserved.open_all(_module.Backend)
    atexit.register(_module.end_for_exit)
