"""Sends and receives, alone and collected."""
import threading
import weakref

import torch
import torch.distributed as dist
from cases_moves import noise, nothing
from oracle import ALL_DTYPES, same, spread


def neighbours(world):
    return (world.rank + 1) % world.size, (world.rank - 1) % world.size


def case_blocking(world):
    for dtype in ALL_DTYPES:
        for spreads in (False, True):
            tensor, received = noise(world.rank, (5, 2), dtype), nothing((5, 2), dtype)
            if spreads:
                tensor, received = spread(tensor), spread(received)
            right, left = neighbours(world)
            if world.rank == 0:
                dist.send(tensor, right)
                assert dist.recv(received, left) == left
            else:
                assert dist.recv(received, left) == left
                dist.send(tensor, right)
            same(received, noise(left, (5, 2), dtype), str(dtype))


def case_in_any_order(world):
    right, left = neighbours(world)
    for count in (1, 1 << 20):
        received = [torch.zeros(count) for _ in range(3)]
        works = [dist.irecv(received[tag], left, tag=tag) for tag in (2, 0, 1)]
        works += [dist.isend(torch.full((count,), float(10 * world.rank + tag)), right, tag=tag) for tag in range(3)]
        for work in works:
            work.wait()
        for tag in range(3):
            same(received[tag], torch.full((count,), float(10 * left + tag)))


def case_from_anybody(world):
    if world.rank != 0:
        dist.send(torch.tensor([world.rank]), 0)
        return
    seen = []
    for _ in world.ranks[1:]:
        tensor = torch.zeros(1, dtype=torch.int64)
        source = dist.recv(tensor)
        assert tensor.item() == source
        seen.append(source)
    assert sorted(seen) == world.ranks[1:]


def case_from_anybody_in_a_group_with_other_ranks(world):
    group = dist.new_group(world.ranks[::-1])
    last = world.size - 1
    if world.rank == 0:
        dist.send(torch.ones(1), last, group=group)
    elif world.rank == last:
        assert dist.recv(torch.zeros(1), group=group) == 0


def case_batches(world):
    right, left = neighbours(world)
    for _ in range(3):
        one, two = torch.zeros(3), spread(torch.zeros(70_000))
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, torch.full((3,), float(world.rank)), right),
            dist.P2POp(dist.irecv, one, left),
            dist.P2POp(dist.isend, torch.full((70_000,), float(-world.rank)), right),
            dist.P2POp(dist.irecv, two, left),
        ])
        for work in works:
            work.wait()
        same(one, torch.full((3,), float(left)))
        same(two, torch.full((70_000,), float(-left)))


def case_a_batch_has_a_work_for_each(world):
    right, left = neighbours(world)
    received = torch.zeros(3)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(3), right), dist.P2POp(dist.irecv, received, left)])
    assert len(works) == 2
    works[1].wait()
    same(received, torch.ones(3))
    works[0].wait()


def case_a_batch_that_is_refused_leaves_nothing_open(world):
    right, left = neighbours(world)
    group = dist.new_group(world.ranks)
    strange = torch.zeros(4, dtype=torch.float4_e2m1fn_x2)
    try:
        dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(2), right, group), dist.P2POp(dist.irecv, strange, left, group)])
    except TypeError as error:
        assert str(error).startswith("ArgumentTypeError"), error
    else:
        raise AssertionError("that dtype is nobody's")
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=group)
    same(tensor, torch.full((3,), float(world.size)))


CPU = torch.device("cpu")


def case_calls_are_collected(world):
    """By torch's manager, with and without a device; letters too."""
    right, left = neighbours(world)
    for device in (None, CPU):
        for async_ops in (False, True):
            tensors = [torch.full((4,), float(index)) for index in range(3)]
            with dist._coalescing_manager(device=device, async_ops=async_ops) as manager:
                for tensor in tensors:
                    dist.all_reduce(tensor)
            if async_ops:
                manager.wait()
            for index, tensor in enumerate(tensors):
                same(tensor, torch.full((4,), float(index * world.size)))
    received = torch.zeros(4)
    with dist._coalescing_manager(device=CPU):
        dist.isend(torch.full((4,), float(world.rank)), right)
        dist.irecv(received, left)
    same(received, torch.full((4,), float(left)))


def refused(call):
    try:
        call()
    except dist.DistBackendError as error:
        assert str(error).startswith("StateError"), error
    else:
        raise AssertionError("that was out of order")


def case_collecting_is_one_threads_own_and_does_not_nest(world):
    group = dist.new_group(world.ranks)
    collected = torch.ones(2)
    group._start_coalescing(CPU)
    group.allreduce([collected])
    other = threading.Thread(target=lambda: refused(lambda: group._end_coalescing(CPU)))
    other.start()
    other.join()
    group._end_coalescing(CPU).wait()
    same(collected, torch.full((2,), float(world.size)))
    refused(lambda: group._end_coalescing(CPU))
    group._start_coalescing(CPU)
    refused(lambda: group._start_coalescing(CPU))  # and ends it, as whoever was interrupted in one may try again
    group._start_coalescing(CPU)
    group._end_coalescing(CPU).wait()


def case_what_was_collected_and_is_over_is_dropped(world):
    """Where an exception has come between start and end, nobody ever asks for it."""
    group = dist.new_group(world.ranks)
    tensors = []
    group._start_coalescing(CPU)
    for _ in range(100):
        tensor = torch.ones(100)
        tensors.append(weakref.ref(tensor))
        group.allreduce([tensor]).wait()
    assert sum(tensor() is not None for tensor in tensors) < 20
    group._end_coalescing(CPU).wait()


def case_futures_of_letters(world):
    right, left = neighbours(world)
    received = torch.zeros(4)
    answer = dist.irecv(received, left).get_future().then(lambda future: future.value()[0].sum().item())
    dist.isend(torch.ones(4), right).get_future().wait()
    assert answer.wait() == 4.0


def case_objects(world):
    if world.rank == 0:
        dist.send_object_list(["text", {"a": 1}], 1)
    elif world.rank == 1:
        objects = [None, None]
        dist.recv_object_list(objects, 0)
        assert objects == ["text", {"a": 1}]
