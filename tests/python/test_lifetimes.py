"""Who keeps what, and until when: dropped works, interpreters that end, forks, threads, the GIL."""
import gc
import sys
import threading
import weakref

import numpy
import pytest

import programs
import unisono
import unisono.comm_func as func
import unisono.distributed as dist

CLEAN = (0, [], "")


def a_dropped_work_keeps_its_arrays():
    rank = dist.get_rank()
    for make in (lambda data: dist.all_reduce(data, async_op=True), lambda data: func.all_reduce(data, async_op=True)):
        if rank == 1:
            dist.recv(numpy.empty(1), src=0)  # rank 0 has dropped everything by now
            make(numpy.ones(100_000))
            dist.barrier()
            continue
        data = numpy.zeros(100_000)
        alive = weakref.ref(data)
        work = make(data)
        del data, work
        gc.collect()
        others = [numpy.zeros(100_000) for _ in range(8)]  # would lie where the array was
        assert alive() is not None
        dist.send(numpy.ones(1), dst=1)
        dist.barrier()
        assert not any(other.any() for other in others)
        dist.all_reduce(numpy.ones(1), group=dist.new_group([0]), async_op=True).wait()  # at the next chance they are let go
        assert alive() is None
    return True


def what_dropped_works_held_makes_calls_when_it_goes():
    """Those calls let go of what other dropped works held, while the first is at it."""
    if dist.get_rank() == 1:
        dist.recv(numpy.empty(1), src=0)
        for _ in range(8):
            dist.all_reduce(numpy.ones(1000))
        dist.barrier()
        return True
    alone, gone = dist.new_group([0]), []

    def goes(index):
        dist.all_reduce(numpy.ones(1), group=alone, async_op=True).wait()
        gone.append(index)

    for index in range(8):
        data = numpy.ones(1000)
        weakref.finalize(data, goes, index)
        dist.all_reduce(data, async_op=True)
        del data
    dist.send(numpy.ones(1), dst=1)
    dist.barrier()
    dist.all_reduce(numpy.ones(1), group=alone, async_op=True).wait()
    assert sorted(gone) == list(range(8))
    return True


def a_result_that_cannot_be_made():
    """The call is under way by then, and reads its input."""
    class WithDlpack:
        def __init__(self, array):
            self.array = array
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    def fails(name):
        raise ImportError("as planned")

    calls = [lambda data: func.all_reduce(data, async_op=True),
             lambda data: func.all_to_all_with_output_shape([50_000] * 2, [data, data], async_op=True)]
    for make in calls:
        data = numpy.ones(50_000)
        if dist.get_rank() == 1:
            dist.recv(numpy.empty(1), src=0)
            make(data)
            dist.barrier()
            continue
        alive = weakref.ref(data)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(unisono._arrays, "numpy_dtype", fails)
            with pytest.raises(ImportError, match="as planned"):
                make(WithDlpack(data))
        del data
        gc.collect()
        assert alive() is not None
        dist.send(numpy.ones(1), dst=1)
        dist.barrier()
        unisono._core.forget_finished()
        assert alive() is None
    return True


def references_are_given_back():
    """Of arrays, lists and results, after calls that end well, that are not waited for, and that fail."""
    data, parts, slanted = numpy.ones(4), [numpy.ones(4), numpy.ones(4)], numpy.ones((2, 3)).T
    held = [data, parts, parts[0], slanted, parts[1]]
    before = [sys.getrefcount(one) for one in held]
    for _ in range(20):
        dist.all_reduce(data)
        dist.all_gather(parts, data)
        dist.all_reduce(slanted)
        work = dist.all_gather(parts, data, async_op=True)
        work.wait()
        assert len(work.result()) == 2
        del work
        output, handle = func.all_reduce(data, async_op=True)
        handle.wait()
        del output, handle
        for wrong in ("x", None, [data], data.astype("S8")):
            try:
                dist.all_gather(parts, wrong)
            except unisono.Error:
                pass
            try:
                dist.all_gather([data, wrong], data)
            except unisono.Error:
                pass
    gc.collect()
    return [sys.getrefcount(one) for one in held] == before


class Keeping(numpy.ndarray):
    """An array that can keep its work."""


def works_in_a_cycle():
    alive = []
    for _ in range(50):
        data = numpy.ones(1000).view(Keeping)
        data.work = dist.all_reduce(data, async_op=True)
        cycle = {"work": data.work, "data": data}
        cycle["self"] = cycle
        alive.append(weakref.ref(data))
        del cycle, data
    gc.collect()
    dist.barrier()
    gc.collect()
    assert not any(reference() is not None for reference in alive)
    work = dist.all_reduce(data := numpy.ones(3), async_op=True)
    while not work.is_completed():
        pass
    assert work.is_success() and work.exception() is None and work.result()[0] is data
    return data.tolist()


def expiring_waits():
    if dist.get_rank() == 1:
        dist.recv(numpy.empty(1), src=0)
        dist.all_reduce(numpy.ones(2))
        return True
    work = dist.all_reduce(data := numpy.ones(2), async_op=True)
    with pytest.raises(unisono.TimeoutError) as caught:
        work.wait(0.001)
    assert isinstance(caught.value, TimeoutError) and not work.is_completed()
    with pytest.raises(unisono.StateError):
        work.result()
    dist.send(numpy.ones(1), dst=1)
    return work.wait() and data.tolist() == [2, 2]


def many_threads_on_many_groups():
    """Each thread has a group of its own; the sums tell if calls of one came into another's."""
    ranks = dist.get_world_size()
    groups = [dist.new_group(list(range(ranks))) for _ in range(4)]
    wrong = []

    def work(index, group):
        for step in range(150):
            data = numpy.full(1 + 300 * (step % 3), index * 1000 + step)
            pending = dist.all_reduce(data, group=group, async_op=step % 2 == 0)
            if pending:
                pending.wait()
            if not (data == ranks * (index * 1000 + step)).all():
                wrong.append((index, step, data[0]))

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def waiting_lets_other_threads_run():
    """The barrier of rank 0 ends only after another thread of rank 0 has written to rank 1."""
    if dist.get_rank() == 1:
        dist.recv(numpy.empty(1), src=0)
        dist.barrier()
        return True
    entered = threading.Event()

    def write():
        entered.wait()
        dist.send(numpy.ones(1), dst=1)

    thread = threading.Thread(target=write)
    thread.start()
    entered.set()
    dist.barrier()
    thread.join()
    return True


@pytest.mark.parametrize("case, expected", [
    (a_dropped_work_keeps_its_arrays, True), (what_dropped_works_held_makes_calls_when_it_goes, True),
    (a_result_that_cannot_be_made, True), (references_are_given_back, True),
    (works_in_a_cycle, [2, 2, 2]),
    (expiring_waits, True), (many_threads_on_many_groups, []), (waiting_lets_other_threads_run, True)],
    ids=lambda value: getattr(value, "__name__", ""))
def test_in_one_process(pool, case, expected):
    assert pool.run(case, 2) == [expected, expected]


# Rank 0 ends with a call under way that rank 1 never makes.
ENDINGS = {
    "held": "work = dist.all_reduce(data, async_op=True)",
    "dropped": "dist.all_reduce(data, async_op=True)",
    "with a copy": "work = dist.all_reduce(numpy.ones((300, 300)).T, async_op=True)",
    "in a cycle": "cycle = [dist.all_reduce(data, async_op=True)]; cycle.append(cycle)",
    "receiving": "work = dist.irecv(data, src=1)",
    "a result": "output, handle = unisono.comm_func.all_reduce(data, async_op=True)",
    "in a thread": """
inside = threading.Event()
def wait():
    inside.set()
    try:
        dist.all_reduce(data)
    except unisono.Error:
        pass
threading.Thread(target=wait, daemon=True).start()
inside.wait()
""",
    "left by hand": "work = dist.all_reduce(data, async_op=True); dist.destroy_process_group()",
    "a batch": "works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, data, 1)])",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends(ending):
    source = f"""
join()
data = numpy.ones(100000)
if rank == 0:
{chr(10).join("    " + line for line in ENDINGS[ending].splitlines())}
else:
    try:
        dist.recv(numpy.empty(1), src=0)
    except unisono.PeerLostError:
        pass
"""
    assert programs.run(source, 2) == [CLEAN, CLEAN]


def test_exceptions_end_it_as_usual():
    source = """
join()
work = dist.all_reduce(numpy.ones(100000), async_op=True) if rank == 0 else None
if rank == 0:
    raise ValueError("as planned")
try:
    dist.recv(numpy.empty(1), src=0)
except unisono.PeerLostError:
    sys.exit(7)
"""
    (status, _, errors), other = programs.run(source, 2)
    assert status == 1 and errors.endswith("ValueError: as planned\n")
    assert errors.count("Error: ") == 1  # without the colon it is in the line that raises, which Python 3.13 shows
    assert other == (7, [], "")


def test_a_forked_child_is_told_and_the_parent_goes_on():
    source = """
import warnings
join()
warnings.simplefilter("ignore", DeprecationWarning)  # of any fork beside threads, since Python 3.12
child = os.fork()
if child == 0:
    for call in (lambda: dist.all_reduce(numpy.ones(1)), lambda: dist.get_rank(),
                 lambda: unisono.comm_func.all_reduce(numpy.ones(1)), lambda: dist.send(numpy.ones(1), 0)):
        try:
            call()
        except unisono.StateError as error:
            say("StateError" if "fork" in str(error) else error)
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
dist.all_reduce(data := numpy.ones(1))
say(data[0])
"""
    for status, lines, errors in programs.run(source, 2):
        assert (status, lines, errors) == (0, ["StateError"] * 4 + ["2.0"], "")


def test_a_pool_of_processes_is_started():
    source = """
import multiprocessing
join()
with multiprocessing.get_context("fork").Pool(2) as workers:
    say(workers.map(abs, [-1, -2]))
dist.all_reduce(data := numpy.ones(1))
say(data[0])
"""
    assert programs.run(source, 2) == [(0, ["[1, 2]", "2.0"], "")] * 2


def test_forgetting_the_launcher_is_said_in_one_line():
    for call in ("dist.init_process_group()", "unisono.communication.init()"):
        (status, lines, errors), = programs.run(f"{call}; say(dist.get_world_size())", 1)
        assert (status, lines, errors.count("\n")) == (0, ["1"], 1)
        assert "no launcher found, world of 1; start with `unisono run -n 4" in errors
