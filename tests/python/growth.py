"""Whether anything accumulates: there should be as much of everything after thousands of calls as there was before.

Looked at are Python's objects and references, its memory (and NumPy's, which it knows of), the memory of C++, descriptors and
threads. Whatever is kept for every call shows as growth by their number; caches and lists that grow once do not.
"""
import array
import ctypes
import gc
import os
import sys
import time
import tracemalloc
import weakref

import numpy

import unisono
import unisono.distributed as dist
from unisono import _core

CALLS = 600 if "UNISONO_TEST_SMALL" in os.environ else 2000
CACHES_BYTES = 8192


class Made:
    """Arrays for one kind of call, which have to be dead afterwards."""

    def __init__(self):
        self.references = []

    def __call__(self, size=64, dtype="float64"):
        return self.watched(numpy.ones(size, dtype))

    def watched(self, thing):
        self.references.append(weakref.ref(thing))
        return thing

    def alive(self, patience_s):
        """How many there are. Other threads may be about to let go of theirs."""
        deadline = time.monotonic() + patience_s
        while any(reference() is not None for reference in self.references) and time.monotonic() < deadline:
            gc.collect()
        alive = sum(reference() is not None for reference in self.references)
        self.references.clear()
        return alive


class _Allocated(ctypes.Structure):
    """struct mallinfo2 of glibc."""
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "mapped", "usmblks", "fsmblks", "used", "fordblks", "keepcost")]


def bytes_of_c():
    """What malloc() has given and not got back; AddressSanitizer has its own."""
    process = ctypes.CDLL(None)
    if hasattr(process, "__sanitizer_get_current_allocated_bytes"):
        process.__sanitizer_get_current_allocated_bytes.restype = ctypes.c_size_t
        return process.__sanitizer_get_current_allocated_bytes()
    process.mallinfo2.restype = _Allocated
    now = process.mallinfo2()
    return now.used + now.mapped


REFERENCED = [None, True, False, numpy.ndarray, numpy.dtype("float64"), _core.Work, _core.Memory, _core.ProcessGroup,
              _core.HashStore, _core.comm_func.CommHandle, _core.world, unisono.ArgumentError, unisono.PeerArgumentError]
NAMES = [f"references to {thing!r}" for thing in REFERENCED]
NAMES += ["objects", "blocks", "descriptors", "threads", "bytes of Python", "bytes of C"]


def everything():
    """How much there is of what NAMES say. Few bytes, so that they are not what has grown."""
    return array.array("q", [*map(sys.getrefcount, REFERENCED), len(gc.get_objects()), sys.getallocatedblocks(),
                             len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")),
                             tracemalloc.get_traced_memory()[0], bytes_of_c()])


def settle():
    """Every call is over, and nobody holds what only waited for that."""
    if dist.is_initialized():
        dist.barrier()
    _core.forget_finished()
    getattr(sys, "_clear_internal_caches", sys._clear_type_cache)()  # names of methods that were asked for
    gc.collect()


def grown(kind, calls=CALLS, bytes_a_call=12, patience_s=0):
    """What there is more of after so many calls, by its name. They are made in rounds: what is kept for each call grows in all
    of them; caches and what malloc() keeps for itself do not, or not by much. Where something grew in all three there are more."""
    made, steps, alive, a_round = Made(), [], 0, calls // 3
    found = {}
    tracemalloc.start()
    try:
        while len(steps) < 3 or (found and len(steps) < 8):
            for _ in range(a_round):
                kind(made)
            settle()
            alive += made.alive(patience_s)
            steps.append(everything())
            found = {name: amounts[-1] - amounts[0] for name, *amounts in zip(NAMES, *steps) if grows(name, amounts, a_round, bytes_a_call)}
    finally:
        tracemalloc.stop()
    return found | ({"alive": alive} if alive else {})


def grows(name, amounts, a_round, bytes_a_call):
    most = a_round * bytes_a_call + CACHES_BYTES if name.startswith("bytes") else a_round / 4
    return all(later - earlier > most for earlier, later in zip(amounts, amounts[1:]))
