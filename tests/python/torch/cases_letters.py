"""Sends and receives."""
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
