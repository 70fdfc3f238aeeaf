"""Joining and leaving, by every way there is, many times in one process; and what happens at exit."""
import os
import re
import subprocess
import sys
import textwrap
import threading

import numpy
import torch
import torch.distributed as dist
from ranks import CALLS_MAY_TAKE

import unisono.distributed as ours
import unisono.torch

JOIN_THEMSELVES = True


def check(world, size=None):
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor[0].item() == (size or world.size)


def case_again_and_again(world):
    for turn in range(10):
        world.join(name="again", backend=("unisono", "cpu:unisono")[turn % 2])
        group = dist.new_group(world.ranks)
        work = dist.all_reduce(torch.ones(2), group=group, async_op=True)
        check(world)
        if turn % 3:
            work.wait()
        dist.barrier()
        dist.destroy_process_group()
        assert not dist.is_initialized()


def case_while_the_old_group_is_still_held(world):
    held = []
    for turn in range(3):
        world.join(name="held")
        held.append((dist.group.WORLD, dist.all_reduce(torch.ones(2), async_op=True)))
        held[-1][1].wait()
        check(world)
        dist.barrier()
        dist.destroy_process_group()
    for group, work in held:
        assert work.is_completed()
        try:
            group.allreduce([torch.ones(1)])
        except dist.DistBackendError as error:
            assert str(error).startswith("StateError"), error
        else:
            raise AssertionError("that group is destroyed")


def case_by_a_tcp_store(world):
    path = f"{world.folder}/port"
    if world.rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, world.size, True, wait_for_workers=False)
        with open(f"{path}.new", "w") as file:
            file.write(str(store.port))
        os.rename(f"{path}.new", path)
    else:
        meeting = dist.FileStore(f"{world.folder}/for-the-port", world.size)
    if world.rank == 0:
        dist.FileStore(f"{world.folder}/for-the-port", world.size).set("there", "yes")
    else:
        meeting.wait(["there"])
        store = dist.TCPStore("127.0.0.1", int(open(path).read()), world.size, False)
    for _ in range(3):  # one store serves several worlds, one after the other
        dist.init_process_group("unisono", store=store, rank=world.rank, world_size=world.size, timeout=CALLS_MAY_TAKE)
        check(world)
        dist.barrier()
        dist.destroy_process_group()
    store.add("through", 1)
    if world.rank == 0:
        while store.add("through", 0) < world.size:  # the others still ask this process
            pass


def case_a_world_of_one(world):
    dist.init_process_group("unisono", store=dist.HashStore(), rank=0, world_size=1)
    check(world, 1)
    dist.destroy_process_group()


def case_beside_gloo(world):
    """The default group is Gloo's; ours has all ranks, and another one of them alone is a part of that."""
    world.join(name="beside", backend="gloo")
    group = dist.new_group(world.ranks, backend="unisono", timeout=CALLS_MAY_TAKE)
    assert dist.get_backend(group) == "unisono"
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=group)
    assert tensor[0] == world.size
    alone = dist.new_group([world.rank], backend="unisono", use_local_synchronization=True)
    dist.all_reduce(tensor, group=alone)
    assert tensor[0] == world.size
    dist.destroy_process_group()


def case_beside_gloo_with_ranks_that_are_in_no_world(world):
    world.join(name="outside", backend="gloo")
    alone = dist.new_group([world.rank], backend="unisono", use_local_synchronization=True)  # a world of its own
    try:
        dist.new_group(world.ranks, backend="unisono")
    except ValueError as error:
        other = 1 if world.rank == 0 else 0
        assert re.match(rf"ArgumentError: .*rank {other} is not in the world", str(error)), error
    else:
        raise AssertionError("the others are in other worlds")
    dist.destroy_process_group()
    del alone


def case_in_a_world_that_is_there_already(world):
    """Joined by the library's own dialect, which goes on using it beside and after torch's groups."""
    ours.init_process_group(init_method=f"file://{world.folder}/ours", rank=world.rank, world_size=world.size)
    for _ in range(2):
        world.join(name="already")
        check(world)
        array = numpy.ones(3)
        ours.all_reduce(array)
        assert array[0] == world.size
        dist.barrier()
        dist.destroy_process_group()
        assert ours.is_initialized(), "it was not torch's to leave"
    try:
        dist.init_process_group("unisono", store=dist.HashStore(), rank=0, world_size=1)
    except dist.DistBackendError as error:
        assert str(error).startswith("StateError"), error
    else:
        raise AssertionError("that is another world")
    ours.barrier()
    ours.destroy_process_group()


def case_torchs_world_is_there_for_the_other_dialects(world):
    world.join(name="others")
    assert ours.get_rank() == world.rank and ours.get_world_size() == world.size
    array = numpy.ones(3)
    ours.all_reduce(array)
    assert array[0] == world.size
    check(world)
    dist.barrier()
    dist.destroy_process_group()
    assert not ours.is_initialized()


ENDINGS = {
    "without destroying anything": "",
    "with a call that nobody answers": "dist.all_reduce(torch.ones(3), async_op=True)",
    "with a callback that waits for such a call": """
        waiting = threading.Event()
        pending = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        def wait(future):
            waiting.set()
            pending.wait()
        pair = dist.new_group([0, 1])
        dist.all_reduce(torch.ones(3), group=pair, async_op=True).get_future().then(wait)
        dist.send(torch.ones(1), 1, tag=3)  # only now: a future that is complete would run its callback here
        waiting.wait()
    """,
    "with a callback inside of a synchronous call": """
        waiting = threading.Event()
        pair = dist.new_group([0, 1])
        def call(future):
            waiting.set()
            dist.all_reduce(torch.ones(3), group=pair)
        dist.all_reduce(torch.ones(3), async_op=True).get_future().then(call)
        dist.send(torch.ones(1), 1, tag=3)
        waiting.wait()
    """,
    "with callbacks that are still to run": """
        one = dist.new_group([0])
        for _ in range(50):
            dist.all_reduce(torch.ones(30000), group=one, async_op=True).get_future().then(lambda future: sum(range(20000)))
    """,
    "with a receive that is dropped": "dist.irecv(torch.ones(3), 1)",
    "after a child was forked that ended in the same way": """
        child = os.fork()
        if child == 0:
            try:
                dist.all_reduce(torch.ones(1))
            except dist.DistBackendError as error:
                sys.exit(0 if str(error).startswith("StateError") else 2)
            sys.exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        dist.send(torch.ones(7), 1, tag=9)
    """,
}


OTHERS = {
    "with a callback inside of a synchronous call": """
pair = dist.new_group([0, 1])
dist.recv(torch.ones(1), 0, tag=3)
dist.all_reduce(torch.ones(3))
try:
    dist.recv(torch.ones(3), 0, group=pair)  # in this group, and not before rank 0 has left it
except dist.DistBackendError as error:
    print(error)
""",
    "with a callback that waits for such a call":
        "pair = dist.new_group([0, 1]); dist.recv(torch.ones(1), 0, tag=3); dist.all_reduce(torch.ones(3), group=pair)",
    "with callbacks that are still to run": "dist.new_group([0])",
}


def case_exits(world):
    """The interpreter ends cleanly and soon, whatever is under way. Rank 1 stays to see rank 0 go."""
    for turn, (name, ending) in enumerate(ENDINGS.items()):
        program = f"""
import os, sys, threading, torch, torch.distributed as dist, unisono.torch
dist.init_process_group("unisono", init_method="file://{world.folder}/exit-{turn}", rank={world.rank}, world_size={world.size})
{textwrap.dedent(ending) if world.rank == 0 else OTHERS.get(name, "")}
if {world.rank} != 0:
    try:
        dist.recv(torch.ones(7), 0, tag=9)
    except dist.DistBackendError as error:
        print(error)
print("the end")
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "the end" in done.stdout, f"{name}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "terminate called" not in done.stderr and "Fatal" not in done.stderr, f"{name}: {done.stderr}"


def case_an_interrupt_ends_the_call_on_all_ranks(world):
    """Ctrl-C while rank 0 waits in a call, in wait(), and in destroying a group whose call the others have not made:
    KeyboardInterrupt there, an error on the others."""
    calls = ("dist.all_reduce(tensor, group=group)", "dist.all_reduce(tensor, group=group, async_op=True).wait()",
             "dist.all_reduce(tensor, group=group, async_op=True); dist.destroy_process_group(group)")
    for turn, call in enumerate(calls):
        program = f"""
import os, signal, threading, torch, torch.distributed as dist, unisono.torch
dist.init_process_group("unisono", init_method="file://{world.folder}/interrupt-{turn}", rank={world.rank}, world_size={world.size})
tensor, group, over = torch.ones(3), dist.new_group([0, 1]), threading.Event()
def interrupt():
    for _ in range(150):
        if over.wait(0.2):
            return
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(9)
if {world.rank} == 0:
    threading.Thread(target=interrupt).start()
    try:
        try:
            {call}
        finally:
            over.set()
    except KeyboardInterrupt:
        print("interrupted")
else:
    try:
        dist.recv(tensor, 0, group=group)
    except dist.DistBackendError as error:
        print("told:", error)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        said = "interrupted" if world.rank == 0 else "told: "
        assert said in done.stdout, f"{call}: {done.returncode}\n{done.stdout}\n{done.stderr}"


def case_an_interrupt_ends_an_exit_that_waits(world):
    """For a callback that never ends. Python says what came out of it, and goes."""
    if world.rank != 0:
        return
    program = """
import atexit, os, signal, threading, torch, torch.distributed as dist, unisono.torch
dist.init_process_group("unisono", store=dist.HashStore(), rank=0, world_size=1)
waiting, leaving = threading.Event(), threading.Event()
dist.group.WORLD._register_on_completion_hook(lambda info: (waiting.set(), threading.Event().wait()))
dist.all_reduce(torch.ones(3), async_op=True)
def interrupt():
    leaving.wait(60)
    for _ in range(150):
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(0.2)
    os._exit(9)
threading.Thread(target=interrupt, daemon=True).start()
waiting.wait()
atexit.register(leaving.set)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "KeyboardInterrupt" in done.stderr, f"{done.returncode}\n{done.stdout}\n{done.stderr}"


def case_a_forked_child_joins_a_world_of_its_own(world):
    """With futures, whatever its parent has joined, left or under way; a call of the parent's is not the child's to wait for."""
    for how in ("there", "left"):
        program = f"""
import multiprocessing, sys, torch, torch.distributed as dist, unisono.torch
left = {how == "left"}
dist.init_process_group("unisono", init_method="file://{world.folder}/forks-{how}", rank={world.rank}, world_size={world.size})
dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()
if {world.rank} != 0:
    try:
        dist.recv(torch.ones(1), 0)
    except dist.DistBackendError as error:
        print(error)
    sys.exit(0)
pending = dist.irecv(torch.ones(1), 1)
if left:
    dist.destroy_process_group()
def expect_state_error(call):
    try:
        call()
    except dist.DistBackendError as error:
        assert str(error).startswith("StateError"), error
    else:
        raise AssertionError("that call is the parent's")
def child(rank):
    if not left:
        expect_state_error(pending.wait)
        expect_state_error(pending.get_future().wait)
        dist.destroy_process_group()
    dist.init_process_group("unisono", init_method="file://{world.folder}/children-{how}", rank=rank, world_size=2)
    answer = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(lambda future: future.value()[0][0].item())
    assert answer.wait() == 2
    dist.destroy_process_group()
children = [multiprocessing.get_context("fork").Process(target=child, args=(rank,)) for rank in range(2)]
for each in children:
    each.start()
for each in children:
    each.join(90)
    each.kill()
print([each.exitcode for each in children])
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{how}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert world.rank != 0 or done.stdout == "[0, 0]\n", f"{how}: {done.stdout}\n{done.stderr}"


def case_the_last_group_goes_while_another_one_comes(world):
    """Each thread's group finds the world there, to stay, or joins it anew."""
    errors = []

    def come_and_go():
        try:
            for _ in range(2000):
                options = torch._C._distributed_c10d._DistributedBackendOptions()
                options.store, options.group_rank, options.group_size = dist.HashStore(), 0, 1
                options.timeout, options.group_id, options.global_ranks_in_group = CALLS_MAY_TAKE, "one", []
                backend = unisono.torch._module.create(options)
                backend.allreduce([torch.ones(3)]).wait()
                backend.shutdown()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
