"""Works, futures and their callbacks, hooks, numbers, deadlines."""
import datetime
import gc
import threading
import time

import torch
import torch.distributed as dist
from oracle import same, spread
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd
from torch.nn.parallel import DistributedDataParallel

import unisono.torch


def backend():
    return dist.group.WORLD._get_backend(torch.device("cpu"))


def case_a_work_knows_its_result(world):
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    assert work.is_completed() and work.is_success() and work.exception() is None
    same(work.result()[0], torch.full((3,), float(world.size)))
    assert work.wait() is True


def case_works_may_be_waited_for_in_any_order(world):
    tensors = [torch.full((size,), float(index)) for index, size in enumerate((1, 100_000, 10, 5000))]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for index in (2, 0, 3, 1):
        works[index].wait()
        assert tensors[index][-1] == index * world.size


def case_dropped_works_are_performed(world):
    tensor = torch.full((100_000,), float(world.rank + 1))
    for _ in range(3):
        dist.all_reduce(tensor, async_op=True)
    gone = spread(torch.ones(50_000))
    dist.all_reduce(gone, async_op=True)
    del gone  # the Work alone holds it
    gc.collect()
    dist.barrier()
    same(tensor, torch.full((100_000,), float(sum(range(1, world.size + 1)) * world.size**2)))


def case_futures_have_the_results(world):
    tensor = torch.ones(4)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    assert future.wait()[0] is not None
    same(future.value()[0], torch.full((4,), float(world.size)))
    parts = [torch.zeros(2) for _ in world.ranks]
    value = dist.all_gather(parts, torch.full((2,), float(world.rank)), async_op=True).get_future().wait()
    assert [part[0].item() for part in value] == world.ranks
    assert dist.barrier(async_op=True).get_future().wait() == []


def case_a_future_that_is_asked_for_late_is_complete(world):
    work = dist.all_reduce(torch.ones(4), async_op=True)
    work.wait()
    assert work.get_future().wait()[0][0] == world.size
    assert work.get_future().done()


def case_views_with_gaps_are_filled_before_the_future_is_complete(world):
    tensor = spread(torch.ones(1000))
    answer = dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: tensor.sum().item())
    assert answer.wait() == 1000 * world.size


def case_callbacks_run_on_the_pools_threads(world):
    """Or on the caller's, where the future is complete when they are hung on it."""
    seen = set()
    futures = []
    for _ in range(20):
        work = dist.all_reduce(torch.ones(20_000), async_op=True)
        note = lambda future: seen.add((threading.get_native_id(), open("/proc/thread-self/comm").read().strip()))  # noqa: E731
        futures.append(work.get_future().then(note))
    torch.futures.collect_all(futures).wait()
    assert all(name == "unisono torch" or thread == threading.get_native_id() for thread, name in seen), seen


def case_callbacks_may_block_on_other_calls(world):
    """As many at once as there are: the pool has a thread more than those that are blocked. The others make their calls only
    when rank 0 has attached its callbacks: one that is attached to a future that is complete runs at once, and not in the pool."""
    inner = dist.new_group(world.ranks)
    if world.rank != 0:
        dist.recv(torch.ones(1), 0)
        for group in [None] * 9 + [inner]:
            dist.all_reduce(torch.ones(2) if group is None else torch.full((2,), float(world.size)), group=group)
        return
    may_go_on = threading.Event()
    blocked = threading.Semaphore(0)

    def block(future):
        blocked.release()
        assert may_go_on.wait(60)
        return future.value()[0]

    def makes_a_call(future):
        return dist.all_reduce(future.value()[0], async_op=True, group=inner).get_future().wait()[0]

    futures = [dist.all_reduce(torch.ones(2), async_op=True).get_future().then(block) for _ in range(8)]
    one = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(makes_a_call)
    for rank in range(1, world.size):
        dist.send(torch.ones(1), rank)
    for _ in futures:
        assert blocked.acquire(timeout=60)
    assert unisono.torch._module.completion_threads() > 8
    assert one.wait()[0].item() == world.size**2
    may_go_on.set()
    for future in futures:
        future.wait()


def attached(world, count, function):
    """The futures of `function` on rank 0, none on the others, which make their calls once all are attached."""
    group = dist.new_group(world.ranks)
    if world.rank != 0:
        dist.recv(torch.ones(1), 0)
        for _ in range(count):
            dist.all_reduce(torch.ones(2), group=group)
        return []
    futures = [dist.all_reduce(torch.ones(2), async_op=True, group=group).get_future().then(function) for _ in range(count)]
    for rank in range(1, world.size):
        dist.send(torch.ones(1), rank)
    return futures


def case_busy_callbacks_need_few_threads(world):
    """One is added only where none has moved for 10 ms, so their number has a bound, however slow the machine is."""
    most = [0]

    def work(future):
        sum(range(60_000))  # some milliseconds, none of them blocked
        most[0] = max(most[0], unisono.torch._module.completion_threads())

    before, start = unisono.torch._module.completion_threads(), time.monotonic()
    for future in attached(world, 400, work):
        future.wait()
    allowed = max(before, 5) + (time.monotonic() - start) / 0.010
    assert most[0] <= allowed, (most, allowed)


def case_the_pool_has_an_end(world):
    """The others make calls meanwhile, which takes long enough for more threads to come if there could be any."""
    may_go_on, began = threading.Event(), threading.Semaphore(0)
    futures = attached(world, 300, lambda future: (began.release(), may_go_on.wait(120)))
    for _ in futures[:256]:
        assert began.acquire(timeout=60)
    for _ in range(1000):
        dist.all_reduce(torch.ones(1000))
        assert unisono.torch._module.completion_threads() <= 256
    may_go_on.set()
    for future in futures:
        future.wait()


def case_what_was_posted_of_a_refused_call_keeps_its_memory(world):
    """Of two dtypes the second is refused when the first is under way already, which the others join in only later."""
    group = dist.new_group(world.ranks)
    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = dist.ReduceOp.BAND
    whole_numbers = torch.full((1 << 16, 2), 7)[:, 0]  # with gaps, so through a copy

    def call():
        try:
            group.allreduce_coalesced([whole_numbers, torch.ones(8)], options)
        except ValueError as error:
            assert str(error).startswith("ArgumentError: band of float32"), error
        else:
            raise AssertionError("floats have no bits")

    if world.rank == 0:
        call()
    others = [torch.full((1 << 16,), 1000 + world.rank) for _ in range(6)]
    dist.barrier(group=world.gloo)
    if world.rank != 0:
        call()
    dist.barrier(group=group)
    for other in others:
        same(other, torch.full((1 << 16,), 1000 + world.rank))


def case_an_error_reaches_the_future(world):
    group = dist.new_group(world.ranks)
    tensor = torch.ones(3 + world.rank)
    future = dist.all_reduce(tensor, async_op=True, group=group).get_future()
    try:
        future.wait()
    except dist.DistBackendError as error:
        assert str(error).startswith("MismatchError"), error
    else:
        raise AssertionError("different sizes were summed up")
    work = dist.all_reduce(tensor, async_op=True, group=group)
    try:
        work.wait()
    except dist.DistBackendError:
        assert work.is_completed() and not work.is_success()
    else:
        raise AssertionError("different sizes were summed up")


def case_a_callback_that_throws_harms_nobody(world):
    failing = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda future: 1 / 0)
    try:
        failing.wait()
    except (RuntimeError, ZeroDivisionError) as error:
        assert "ZeroDivisionError" in repr(error) or isinstance(error, ZeroDivisionError)
    else:
        raise AssertionError("the callback's error was lost")
    assert dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()[0][0] == world.size


def case_power_sgd(world):
    """Its hook waits for a call inside of another one's callback."""
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.Linear(40, 5)))
    state = power_sgd.PowerSGDState(process_group=None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=0.5)
    model.register_comm_hook(state, power_sgd.powerSGD_hook)
    for step in range(5):
        model.zero_grad()
        torch.manual_seed(10 * step + world.rank)
        model(torch.rand(8, 30)).sum().backward()
    gradient = next(model.parameters()).grad
    everybody = [torch.empty_like(gradient) for _ in world.ranks]
    dist.all_gather(everybody, gradient)
    for other in everybody:
        torch.testing.assert_close(other, gradient)


def case_hooks_hear_of_every_call(world):
    group = dist.new_group(world.ranks)
    ours = group._get_backend(torch.device("cpu"))
    heard = []
    group._register_on_completion_hook(heard.append)
    for async_op in (False, True):
        work = dist.all_reduce(torch.ones(3), group=group, async_op=async_op)
        if work:
            work.wait()
        dist.broadcast(torch.ones(3), 0, group=group)
    group._wait_for_pending_works()
    assert len(heard) == 4, heard
    assert sorted(info.seq for info in heard) == [1, 2, 3, 4]
    assert {str(info.op_type) for info in heard} == {"OpType.ALLREDUCE", "OpType.BROADCAST"}
    assert all(info.active_duration >= datetime.timedelta(0) for info in heard)
    assert ours.name() == "unisono"


def case_numbers_count_the_collectives(world):
    ours = backend()
    before = ours._get_sequence_number_for_group()
    for _ in range(3):
        dist.all_reduce(torch.ones(1))
    work = dist.barrier(async_op=True)
    work.wait()
    assert ours._get_sequence_number_for_group() == before + 4
    assert work._get_sequence_number() == before + 4 if hasattr(work, "_get_sequence_number") else True


def case_works_know_how_long_they_took(world):
    if world.rank == 0:
        start = time.perf_counter()
        work = dist.all_reduce(torch.ones(3), async_op=True)
        try:
            work._get_duration()
        except dist.DistBackendError as error:
            assert str(error).startswith("StateError"), error
        else:
            raise AssertionError("nobody else has called yet")
    dist.barrier(group=world.gloo)
    if world.rank == 0:
        work.wait()
        assert 0 < work._get_duration() <= (time.perf_counter() - start) * 1000
    else:
        work = dist.group.WORLD.allreduce([torch.ones(3)], dist.AllreduceOptions())
        work.wait()
        assert work._get_duration() > 0


def case_a_wait_that_expires_leaves_the_call_running(world):
    """Rank 0 waits until it has expired before it lets the others join in."""
    tensor = torch.ones(3)
    if world.rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        try:
            work.wait(datetime.timedelta(milliseconds=20))
        except dist.DistBackendError as error:
            assert str(error).startswith("TimeoutError"), error
        else:
            raise AssertionError("nobody else has called yet")
        assert not work.is_completed()
    dist.barrier(group=world.gloo)
    if world.rank != 0:
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    same(tensor, torch.full((3,), float(world.size)))


def case_deadlines(world):
    group = dist.new_group(world.ranks, timeout=datetime.timedelta(seconds=60))
    ours = group._get_backend(torch.device("cpu"))
    ours._set_default_timeout(datetime.timedelta(milliseconds=200))
    if world.rank == 0:
        try:
            dist.all_reduce(torch.ones(3), group=group)
        except dist.DistBackendError as error:
            assert str(error).startswith("TimeoutError"), error
        else:
            raise AssertionError("nobody else has called")
    dist.barrier(group=world.gloo)


def case_aborting_frees_everybody(world):
    group = dist.new_group(world.ranks)
    if world.rank == 0:
        group.abort()
    try:
        dist.all_reduce(torch.ones(3), group=group)
    except dist.DistBackendError as error:
        assert "Error: " in str(error), error
    else:
        raise AssertionError("the group was aborted")


def case_memory_of_the_backend(world):
    ours = backend()
    assert ours.supports_tensor_alloc(torch.device("cpu"))
    tensor = ours.allocate_tensor(1000, dtype=torch.float32, device=torch.device("cpu"))
    tensor.fill_(world.rank + 1)
    dist.all_reduce(tensor)
    same(tensor, torch.full((1000,), float(sum(world.ranks) + world.size)))
