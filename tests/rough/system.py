"""System calls that Python has no function for, and cgroups of either version."""
import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import signal
import socket
import struct
import time

CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_PDEATHSIG = 38, 22, 1
SECCOMP_MODE_FILTER = 2
# machine → its number in a filter, and the numbers of system calls
MACHINES = {"x86_64": (0xC000003E, {"process_vm_readv": 310}), "aarch64": (0xC00000B7, {"process_vm_readv": 270})}

libc = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function.__name__}: {os.strerror(number)}")


def unshare(flags):
    call(libc.unshare, ctypes.c_int(flags))


def die_with_parent():
    call(libc.prctl, PR_SET_PDEATHSIG, 9, 0, 0, 0)


def bring_loopback_up():
    set_flags, up_and_running = 0x8914, 0x41  # SIOCSIFFLAGS; IFF_UP | IFF_RUNNING
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up_and_running))


def cannot_unshare(flags):
    return reason_why_not(lambda: unshare(flags))


def cannot_refuse():
    return reason_why_not(lambda: refuse("process_vm_readv", "EPERM"))


def reason_why_not(action):
    """Tries it in a process of its own: None, or what it says."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            action()
        except Exception as error:  # whatever it is, it is the reason
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as file:
        return file.read() or None


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def refuse(name, error):
    """From here on this process and its children get that error from that system call."""
    if platform.machine() not in MACHINES:
        raise OSError(f"the numbers of system calls of {platform.machine()} are not in {os.path.basename(__file__)}")
    machine, numbers = MACHINES[platform.machine()]
    load, equal, answer = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K
    allow, fail = 0x7FFF0000, 0x00050000 | getattr(errno, error)
    steps = ((load, 0, 0, 4), (equal, 0, 2, machine), (load, 0, 0, 0), (equal, 1, 0, numbers[name]), (answer, 0, 0, allow),
             (answer, 0, 0, fail))
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    program = Program(len(steps), code)
    call(libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call(libc.prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)


def cgroup_parent(controller):
    """The folder of this process's own group, in either version; where it is hidden, the root of the mount."""
    with open("/proc/self/cgroup") as file:
        lines = [line.strip().split(":", 2) for line in file]
    for _, controllers, path in lines:
        if controller in controllers.split(","):
            mount = f"/sys/fs/cgroup/{controller}"
            return mount + path if os.path.isdir(mount + path) else mount
    for number, _, path in lines:
        if number == "0":
            mount = "/sys/fs/cgroup"
            return mount + path if os.path.exists(f"{mount}{path}/cgroup.procs") else mount
    raise OSError("there are no cgroups")


@contextlib.contextmanager
def cgroup(controller, limits):
    """A group of this process's own with those limits, of which each version knows its own; removed at the end."""
    folder = os.path.join(cgroup_parent(controller), f"unisono-rough-{os.getpid()}")
    os.mkdir(folder)
    try:
        set_limits = 0
        for name, value in limits.items():
            if os.path.exists(os.path.join(folder, name)):
                write(os.path.join(folder, name), value)
                set_limits += 1
        if not set_limits:
            raise OSError(f"{folder} has none of {', '.join(limits)}: the {controller} controller is not enabled there")
        yield folder
    finally:
        remove_cgroup(folder)


def remove_cgroup(folder):
    """With whatever the program has left in it. The kernel takes a moment to let go of processes that have ended."""
    deadline = time.monotonic() + 10
    while True:
        with open(os.path.join(folder, "cgroup.procs")) as file:
            for process in file.read().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
        try:
            return os.rmdir(folder)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def cannot_make_cgroup(controller):
    def make():
        with cgroup(controller, {"memory.limit_in_bytes": 1 << 30, "memory.max": 1 << 30}) as folder:
            move_into(folder)
            move_into(os.path.dirname(folder))
    return reason_why_not(make)


def move_into(folder):
    write(os.path.join(folder, "cgroup.procs"), os.getpid())


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))
