"""Unisono: the ranks of a job sum, gather, scatter and exchange arrays together.

Two dialects over one core: `unisono.distributed` has the shape of torch.distributed, `unisono.comm_func` and
`unisono.communication` that of MindSpore. Both take NumPy arrays, torch and MindSpore tensors, and whatever has DLPack or
a buffer; none of those is needed to import this package. `import unisono.torch` makes Unisono a backend of
torch.distributed itself.

    import numpy
    import unisono.distributed as dist

    dist.init_process_group()               # as the launcher says: unisono run -n 4 python3 program.py
    data = numpy.full(3, float(dist.get_rank()))
    dist.all_reduce(data)                   # in place, on every rank
    dist.destroy_process_group()
"""
import atexit
import sys

from unisono import _core
from unisono._errors import (ArgumentError, ArgumentTypeError, AuthError, CorruptionError, Error, InitError, InternalError,
                             MemoryError, MismatchError, PeerArgumentError, PeerLostError, ProtocolError, ResourceError,
                             RevokedError, StateError, StoreLostError, TimeoutError, VersionError)
from unisono import comm_func, communication, distributed

# MemoryError and TimeoutError are not among these: `from unisono import *` leaves Python's own in their place.
__all__ = ["ArgumentError", "ArgumentTypeError", "AuthError", "CorruptionError", "Error", "InitError", "InternalError",
           "MismatchError", "PeerArgumentError", "PeerLostError", "ProtocolError", "ResourceError", "RevokedError", "StateError",
           "StoreLostError", "VersionError", "comm_func", "communication", "distributed", "empty_shared", "zeros_shared"]

__version__ = _core.__version__
_core.prepare()


def empty_shared(shape, dtype="float32", kind="numpy"):
    """A new array in memory that all ranks of this machine have mapped: collectives read it where it lies, with no staging.

    `kind` is "numpy" or "torch". The world must have been joined.

    >>> array = unisono.empty_shared((2, 3), "float64")
    >>> array.shape, array.dtype.name
    ((2, 3), 'float64')
    """
    return zeros_shared(shape, dtype, kind)  # fresh memory is zero


def zeros_shared(shape, dtype="float32", kind="numpy"):
    """As empty_shared, and the array holds zeros.

    >>> import unisono
    >>> unisono.distributed.init_process_group(rank=0, world_size=1)
    >>> array = unisono.zeros_shared((2, 3), "float64")
    >>> array.shape, array.dtype.name, float(array.sum())
    ((2, 3), 'float64', 0.0)
    >>> unisono.distributed.destroy_process_group()
    """
    if kind not in ("numpy", "torch"):
        raise ArgumentError(f'kind is {kind!r}; it is "numpy" or "torch"')
    return _core.alloc_shared(shape, dtype, kind)


def _say_last_words():
    """An exception that nobody caught is why this process ends: whoever waits for this rank hears of that, and not only that it left."""
    error = getattr(sys, "last_value", None)
    if error is None or hasattr(sys, "ps1"):  # at a prompt it is the last of many, and was survived
        return
    try:
        text = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
    except Exception:  # an exception whose text cannot be had is told by its name
        text = type(error).__name__
    _core.say_last_words(text[:200].encode("utf-8", "replace").decode())


atexit.register(_say_last_words)


class _Farewell:
    """Ends what is still under way when the interpreter takes its modules down, so that nothing writes into arrays that go with it:
    after everything that was registered with atexit, for a program's own clean-up may still need the world."""

    def __del__(self, is_initialized=_core.is_initialized, leave=_core.destroy_process_group, error=Error):
        try:
            if is_initialized():
                leave(None)
        except error:
            pass  # after a fork, or a second time: this process has nothing to leave


_farewell = _Farewell()
