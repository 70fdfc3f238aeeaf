"""Ctrl-C while waiting: KeyboardInterrupt here, and the others hear that this rank was interrupted."""
import pytest

import programs

# Rank 0 is interrupted where it waits; rank 1 is in the same call; rank 2 never comes to it.
TOGETHER = {
    "all_reduce": "def waiting(): dist.all_reduce(numpy.ones(4))",
    "a large one": "def waiting(): dist.all_reduce(numpy.ones(1000000))",
    "barrier": "def waiting(): dist.barrier()",
    "comm_func": "def waiting(): unisono.comm_func.all_gather_into_tensor(numpy.ones(4))",
    "Work.wait": "def waiting(): work.wait()\nwork = dist.all_reduce(numpy.ones(4), async_op=True) if rank < 2 else None",
    "CommHandle.wait": "def waiting(): handle.wait()\n"
                       "handle = unisono.comm_func.all_reduce(numpy.ones(4), async_op=True)[1] if rank < 2 else None",
    "recv": "def waiting(): dist.recv(numpy.ones(4), src=2)",
    "recv from anyone": "def waiting(): dist.recv(numpy.ones(4))",
    "objects": "def waiting(): dist.all_gather_object([None] * 3, 'x')",
}


@pytest.mark.parametrize("call", TOGETHER)
def test_in_a_call(call):
    source = f"""
join()
{TOGETHER[call]}
if rank == 0:
    interrupt_in({"waiting" if "wait" in call else {"objects": "_sizes", "recv from anyone": "recv", "a large one": "all_reduce",
                  "comm_func": "all_gather_into_tensor"}.get(call, call)!r})
if rank < 2:
    try:
        waiting()
    except KeyboardInterrupt:
        say("KeyboardInterrupt")
    except unisono.RevokedError as error:
        say("told" if "rank 0 was interrupted" in str(error) else error)
else:
    try:
        dist.recv(numpy.empty(1), src=0, tag=9)
    except unisono.Error as error:
        say("told" if "rank 0 was interrupted" in str(error) else error)
"""
    (first, *others) = programs.run(source, 3)
    assert first == (0, ["KeyboardInterrupt"], "")
    assert others == [(0, ["told"], "")] * 2


def test_while_joining():
    source = """
if rank == 0:
    interrupt_in("init_process_group")
    try:
        join()
    except KeyboardInterrupt:
        say("KeyboardInterrupt")
"""
    assert programs.run(source, 2)[0] == (0, ["KeyboardInterrupt"], "")


@pytest.mark.parametrize("store", ["dist.HashStore()", "dist.FileStore(meeting[7:] + 'store')",
                                   "dist.TCPStore('127.0.0.1', 0, is_master=True)"])
def test_in_a_store(store):
    source = f"""
store = {store}
def waiting(): store.get("never")
interrupt_in("waiting")
try:
    waiting()
except KeyboardInterrupt:
    say("KeyboardInterrupt")
store.set("key", "value")
say(store.get("key"))
"""
    assert programs.run(source, 1) == [(0, ["KeyboardInterrupt", "b'value'"], "")]


def test_waiting_for_the_master_of_a_store():
    source = """
import socket
free = socket.socket()
free.bind(("127.0.0.1", 0))
def waiting(): dist.TCPStore("127.0.0.1", free.getsockname()[1])
interrupt_in("waiting")
try:
    waiting()
except KeyboardInterrupt:
    say("KeyboardInterrupt")
"""
    assert programs.run(source, 1) == [(0, ["KeyboardInterrupt"], "")]


def test_not_caught_it_ends_the_program_as_usual():
    source = """
join()
if rank == 0:
    interrupt_in("recv")
try:
    dist.recv(numpy.empty(1), src=1 - rank)
except unisono.RevokedError:
    sys.exit(7)
"""
    (status, _, errors), other = programs.run(source, 2)
    assert status in (-2, 130) and errors.rstrip().endswith("KeyboardInterrupt")
    assert other == (7, [], "")


def test_a_handler_that_does_not_raise_leaves_the_call_waiting():
    source = """
join()
handled = threading.Event()
def ask():
    handled.wait()
    dist.send(numpy.ones(1), dst=1)
if rank == 0:
    signal.signal(signal.SIGINT, lambda *_: handled.set())
    threading.Thread(target=ask).start()
    interrupt_in("recv")
    dist.recv(data := numpy.zeros(1), src=1)
    say(data[0])
else:
    dist.recv(numpy.empty(1), src=0)
    dist.send(numpy.full(1, 5.0), dst=0)
"""
    assert programs.run(source, 2) == [(0, ["5.0"], ""), (0, [], "")]


@pytest.mark.parametrize("tidying", ["dist.destroy_process_group()", "dist.barrier(timeout=3)", "dist.new_group([0, 1])"])
@pytest.mark.parametrize("call", ["all_reduce", "recv"])
def test_a_handler_that_would_wait_for_the_call_it_interrupts_is_told_so(call, tidying):
    source = f"""
join()
def tidy_up(*_):
    {tidying}
if rank == 0:
    signal.signal(signal.SIGINT, tidy_up)
    interrupt_in({call!r})
    try:
        dist.all_reduce(numpy.ones(4)) if {call == "all_reduce"} else dist.recv(numpy.ones(4), src=1)
    except unisono.StateError as error:
        say("told" if "signal's handler" in str(error) else error)
    dist.destroy_process_group()
else:
    try:
        dist.recv(numpy.empty(1), src=0, tag=9)
    except unisono.RevokedError as error:
        say("told" if "rank 0 was interrupted" in str(error) else error)
"""
    assert programs.run(source, 2) == [(0, ["told"], "")] * 2


def test_a_handler_that_exits_or_aborts_ends_the_call():
    source = """
join()
def leave(*_):
    sys.exit(3)
def abort(*_):
    dist.abort(group, "SIGINT came")
signal.signal(signal.SIGINT, abort)
group = dist.new_group([0, 1])
if rank == 0:
    interrupt_in("barrier")
    try:
        dist.barrier(group)
    except unisono.RevokedError as error:
        say("told" if "SIGINT came" in str(error) else error)
    signal.signal(signal.SIGINT, leave)
    interrupt_in("recv")
    try:
        dist.recv(numpy.empty(1), src=1)
    finally:
        dist.destroy_process_group()
else:
    try:
        dist.recv(numpy.empty(1), src=0)
    except unisono.RevokedError as error:
        say("told" if "rank 0 was interrupted" in str(error) else error)
"""
    assert programs.run(source, 2) == [(3, ["told"], ""), (0, ["told"], "")]


def test_a_handler_that_destroys_the_group_of_torch_in_a_call_is_told_so():
    pytest.importorskip("unisono.torch", exc_type=ImportError)
    source = """
import torch
import torch.distributed as dist
import unisono.torch
dist.init_process_group("unisono", init_method=meeting, rank=rank, world_size=ranks)
signal.signal(signal.SIGINT, lambda *_: dist.destroy_process_group())
if rank == 0:
    interrupt_in("all_reduce")
    try:
        dist.all_reduce(torch.ones(4))
    except dist.DistBackendError as error:
        say("told" if "signal's handler" in str(error) else error)
else:
    try:
        dist.recv(torch.ones(1), src=0)
    except dist.DistBackendError as error:
        say("told" if "rank 0 was interrupted" in str(error) else error)
"""
    assert [(status, lines) for status, lines, _ in programs.run(source, 2)] == [(0, ["told"])] * 2
