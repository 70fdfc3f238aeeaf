"""The modes of the rough tier: one row a mode, in MODES below. tests/rough/run puts a program into one.

A mode may change the program's environment, enter something in the process that is about to become the program, and put
something around it (a cgroup, neighbours) that is taken away again afterwards.
"""
import contextlib
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
from typing import Callable, NamedTuple

from rough import system

NOBODY = 65534
GIB = 1 << 30
CGROUP_BYTES = 64 << 20
SECRET = "5e" * 32


@contextlib.contextmanager
def nothing_around():
    yield lambda: None


class Mode(NamedTuple):
    name: str
    sentence: str
    enter: Callable = lambda scratch: None       # in the process that becomes the program
    environment: dict = {}
    around: Callable = nothing_around            # a context manager; what it yields is called in that process too
    cannot: Callable = lambda: None              # why this machine cannot do it, or None
    short: bool = False                          # part of `make test`


def need_root():
    return None if os.geteuid() == 0 else "needs root"


def become_nobody(scratch):
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


def limit_descriptors(count):
    return lambda scratch: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def refuse_reading_memory(error):
    return lambda scratch: system.refuse("process_vm_readv", error)


def allow_core_dumps(scratch):
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os.chdir(scratch)


def no_core_dumps():
    with open("/proc/sys/kernel/core_pattern") as file:
        pattern = file.read().strip()
    if pattern.startswith(("|", "/")):
        return f"core dumps go elsewhere: kernel.core_pattern is {pattern}"
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    return None if hard == resource.RLIM_INFINITY or os.geteuid() == 0 else "core dumps are limited, and raising the limit needs root"


def ignore_signals(scratch):
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def no_pid_namespace():
    return need_root() or system.cannot_unshare(system.CLONE_NEWPID)


def limit_address_space(scratch):
    resource.setrlimit(resource.RLIMIT_AS, (80 * GIB, 80 * GIB))


@contextlib.contextmanager
def memory_cgroup():
    with system.cgroup("memory", {"memory.limit_in_bytes": CGROUP_BYTES, "memory.max": CGROUP_BYTES}) as folder:
        yield lambda: system.move_into(folder)


def no_memory_cgroup():
    return need_root() or system.cannot_make_cgroup("memory")


def no_network_namespace():
    return need_root() or system.cannot_unshare(system.CLONE_NEWNET)


@contextlib.contextmanager
def hostile_neighbours():
    """In a network namespace, which has abstract names of its own: nobody else's ranks are visited."""
    system.unshare(system.CLONE_NEWNET)
    system.bring_loopback_up()  # mpirun looks for an interface
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "neighbour")
    roles = ("flood", "flood", "silent", "silent-same-user")
    neighbours = [subprocess.Popen([sys.executable, program, role]) for role in roles]
    try:
        yield lambda: None
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()


def no_machines():
    if missing := [name for name in ("ip", "nsenter") if not shutil.which(name)]:
        return f"needs {' and '.join(missing)} (iproute2, util-linux)"
    return need_root() or system.cannot_unshare(system.CLONE_NEWNET)


def no_ucx():
    try:
        ctypes.CDLL("libucp.so.0")
    except OSError as error:
        return f"needs UCX (Debian: libucx0): {error}"
    return None


def ucx(transports):
    """UCX between hosts, by those of its transports that need no device of their own."""
    return {"UNISONO_TRANSPORT": "ucx", "UNISONO_FABRIC": "trusted", "UNISONO_UCX_TCP": "on", "UCX_TLS": transports}


def machines(name, sentence, layout, short=False, cannot=no_machines, **more):
    """Every world on several machines, which the test makes: tests/support/machine_mode.hpp."""
    return Mode(name, sentence, environment={"UNISONO_TEST_MACHINES": layout, "UNISONO_SECRET": SECRET, **more}, cannot=cannot, short=short)


# Of d and g the test itself takes care, for each rank that it starts: tests/support/rank_process.cpp.
MODES = {mode.name: mode for mode in (
    Mode("a", "as an ordinary user", become_nobody, cannot=need_root, short=True),
    Mode("b-1024", "with 1,024 descriptors", limit_descriptors(1024), short=True),
    Mode("b-256", "with 256 descriptors", limit_descriptors(256), short=True),
    Mode("c-EPERM", "process_vm_readv answers EPERM", refuse_reading_memory("EPERM"), cannot=system.cannot_refuse, short=True),
    Mode("c-ENOSYS", "process_vm_readv answers ENOSYS", refuse_reading_memory("ENOSYS"), cannot=system.cannot_refuse, short=True),
    Mode("d", "descriptors 0, 1 and 2 are closed in every rank", short=True),
    Mode("e", "core dumps are on", allow_core_dumps, cannot=no_core_dumps),
    Mode("f", "SIGINT and SIGPIPE are ignored", ignore_signals),
    Mode("g", "every rank in a pid namespace of its own", cannot=no_pid_namespace),
    Mode("h", "80 GiB of address space (RLIMIT_AS)", limit_address_space),
    Mode("i", "in a memory cgroup of 64 MiB", environment={"UNISONO_TEST_SMALL": "1"}, around=memory_cgroup, cannot=no_memory_cgroup),
    Mode("j", "hostile neighbours at the meeting place", around=hostile_neighbours, cannot=no_network_namespace),
    Mode("k-31", "call numbers start just below 2^31", environment={"UNISONO_FIRST_CALL": "2147483640"}, short=True),
    Mode("k-32", "call numbers start just below 2^32", environment={"UNISONO_FIRST_CALL": "4294967280"}, short=True),
    Mode("l-halves", "on two pretended hosts", environment={"UNISONO_TEST_HOSTS": "halves"}, short=True),
    Mode("l-uneven", "on two pretended hosts, one of one rank", environment={"UNISONO_TEST_HOSTS": "uneven"}),
    Mode("l-middle", "on three pretended hosts, two of one rank", environment={"UNISONO_TEST_HOSTS": "middle"}),
    Mode("l-interleaved", "on two pretended hosts, ranks in turns", environment={"UNISONO_TEST_HOSTS": "interleaved"}),
    Mode("l-trusted", "on two pretended hosts that have a secret in common",
         environment={"UNISONO_TEST_HOSTS": "halves", "UNISONO_SECRET": SECRET}),
    Mode("l-encrypted", "on two pretended hosts, all bytes in TLS",
         environment={"UNISONO_TEST_HOSTS": "halves", "UNISONO_SECRET": SECRET, "UNISONO_ENCRYPT": "on"}),
    Mode("l-alone", "on a pretended host a rank", environment={"UNISONO_TEST_HOSTS": "alone"}),
    Mode("l-ucx", "on two pretended hosts, UCX's shared memory between them", environment={"UNISONO_TEST_HOSTS": "halves", **ucx("shm,self")}, cannot=no_ucx),
    machines("m-ucx", "on two machines, UCX's TCP between them", "halves", cannot=lambda: no_ucx() or no_machines(), UCX_NET_DEVICES="wire", **ucx("tcp,self")),
    machines("m-1+1", "on a machine a rank", "alone"),
    machines("m-2+2", "on two machines", "halves", short=True),
    machines("m-3+1", "on two machines, one of one rank", "uneven"),
    machines("m-1+2+1", "on three machines, two of one rank", "middle"),
    machines("m-interleaved", "on two machines, ranks in turns", "interleaved"),
    machines("m-6", "on two machines without IPv4", "halves,6", short=True),
    machines("m-encrypted", "on two machines, all bytes in TLS", "halves", UNISONO_ENCRYPT="on"),
    machines("m-striped", "on two machines, three connections for each pair and use", "halves", UNISONO_SOCKETS_PER_PEER="3"),
    machines("m-strangers", "on two machines, strangers at every port", "halves", UNISONO_TEST_STRANGERS="1"),
)}
