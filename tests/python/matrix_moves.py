"""The functions that move data and never look at it: see matrix.py."""
import numpy

import unisono
import unisono.comm_func as func
import unisono.distributed as dist
from matrix import COLUMNS, ROWS


def gathered(kit, *shape):
    return numpy.concatenate([kit.values(rank, *shape) for rank in kit.everyone])


def all_gather(kit):
    outputs = [kit.room(ROWS + rank) for rank in kit.everyone]  # sizes differ
    kit.wait(dist.all_gather(outputs, kit.mine(ROWS + kit.rank), async_op=kit.async_op))
    yield from zip(outputs, [kit.values(rank, ROWS + rank) for rank in kit.everyone])


def all_gather_into_tensor(kit):
    for function in (dist.all_gather_into_tensor, dist.all_gather_single):
        kit.wait(function(output := kit.room(kit.ranks * ROWS, COLUMNS), kit.mine(ROWS, COLUMNS), async_op=kit.async_op))
        yield output, gathered(kit, ROWS, COLUMNS)
    kit.wait(dist.all_gather_into_tensor(output := kit.room(kit.ranks, ROWS), kit.mine(ROWS), async_op=kit.async_op))
    yield output, gathered(kit, ROWS).reshape(kit.ranks, ROWS)


def all_gather_coalesced(kit):
    lists = [[kit.room(ROWS), kit.room(2)] for _ in kit.everyone]
    kit.wait(dist.all_gather_coalesced(lists, [kit.mine(ROWS), kit.mine(2)], async_op=kit.async_op))
    for rank, (first, second) in enumerate(lists):
        yield first, kit.values(rank, ROWS)
        yield second, kit.values(rank, 2)
    outputs = [kit.room(kit.ranks * ROWS), kit.room(kit.ranks, 2)]
    kit.wait(dist.all_gather_into_tensor_coalesced(outputs, [kit.mine(ROWS), kit.mine(2)], async_op=kit.async_op))
    yield from zip(outputs, [gathered(kit, ROWS), gathered(kit, 2).reshape(kit.ranks, 2)])


def broadcast(kit):
    for root in kit.everyone:
        kit.wait(dist.broadcast(tensor := kit.mine(ROWS, COLUMNS), root, async_op=kit.async_op))
        yield tensor, kit.values(root, ROWS, COLUMNS)


def scatter(kit):
    for root in kit.everyone:
        parts = [kit.mine(ROWS, salt=rank) for rank in kit.everyone] if kit.rank == root else None
        kit.wait(dist.scatter(tensor := kit.room(ROWS), parts, root, async_op=kit.async_op))
        yield tensor, kit.values(root, ROWS, salt=kit.rank)


def gather(kit):
    for root in kit.everyone:
        parts = [kit.room(ROWS) for _ in kit.everyone] if kit.rank == root else None
        kit.wait(dist.gather(kit.mine(ROWS), parts, group_dst=root, async_op=kit.async_op))
        if parts:
            yield from zip(parts, [kit.values(rank, ROWS) for rank in kit.everyone])


def all_to_all(kit):
    outputs = [kit.room(1 + rank + kit.rank) for rank in kit.everyone]
    inputs = [kit.mine(1 + rank + kit.rank, salt=rank) for rank in kit.everyone]
    kit.wait(dist.all_to_all(outputs, inputs, async_op=kit.async_op))
    yield from zip(outputs, [kit.values(rank, 1 + rank + kit.rank, salt=kit.rank) for rank in kit.everyone])


def equal_parts(kit):
    """What all_to_all of equal parts gives this rank."""
    parts = [kit.values(rank, 2 * kit.ranks, COLUMNS)[2 * kit.rank:2 * kit.rank + 2] for rank in kit.everyone]
    return numpy.concatenate(parts)


def uneven_parts(kit):
    """Rank r sends i + 1 rows to rank i: (rows that come, rows that go, what arrives here)."""
    total = sum(rank + 1 for rank in kit.everyone)
    first = sum(rank + 1 for rank in range(kit.rank))
    parts = [kit.values(rank, total, COLUMNS)[first:first + kit.rank + 1] for rank in kit.everyone]
    return [kit.rank + 1] * kit.ranks, [rank + 1 for rank in kit.everyone], numpy.concatenate(parts)


def all_to_all_single(kit):
    kit.wait(dist.all_to_all_single(output := kit.room(2 * kit.ranks, COLUMNS), kit.mine(2 * kit.ranks, COLUMNS),
                                    async_op=kit.async_op))
    yield output, equal_parts(kit)
    come, go, expected = uneven_parts(kit)
    output = kit.room(sum(come), COLUMNS)
    kit.wait(dist.all_to_all_single(output, kit.mine(sum(go), COLUMNS), come, go, async_op=kit.async_op))
    yield output, expected


def to_itself(kit, *calls):
    """A rank alone has nobody to write to."""
    for call in calls:
        try:
            call()
        except unisono.ArgumentError as error:
            assert "this rank itself" in str(error)
            continue
        raise AssertionError("a letter to oneself was taken")


def letters(kit):
    if kit.ranks == 1:
        return to_itself(kit, lambda: dist.send(kit.mine(ROWS), 0), lambda: dist.recv(kit.room(ROWS), 0))
    right, left = (kit.rank + 1) % kit.ranks, (kit.rank - 1) % kit.ranks
    if kit.async_op:
        works = [dist.irecv(output := kit.room(ROWS), left, tag=3), dist.isend(kit.mine(ROWS), right, tag=3)]
        assert all(work.wait() for work in works) and works[0].source_rank() == left
    elif kit.rank % 2:
        assert dist.recv(output := kit.room(ROWS), left) == left
        dist.send(kit.mine(ROWS), right)
    else:
        dist.send(kit.mine(ROWS), right)
        assert dist.recv(output := kit.room(ROWS), None if kit.ranks == 2 else left) == left
    yield output, kit.values(left, ROWS)
    output = kit.room(ROWS)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, output, left), dist.P2POp(dist.isend, kit.mine(ROWS), right)]):
        work.wait()
    yield output, kit.values(left, ROWS)


def func_gathers(kit):
    yield kit.taken(func.all_gather_into_tensor(kit.mine(ROWS, COLUMNS), async_op=kit.async_op)), gathered(kit, ROWS, COLUMNS)
    for root in kit.everyone:
        got = func.gather_into_tensor(kit.mine(ROWS), root)
        if kit.rank == root:
            yield got, gathered(kit, ROWS)
        yield func.broadcast(kit.mine(ROWS), root), kit.values(root, ROWS)
        yield func.scatter_tensor(kit.mine(kit.ranks * 2), root), kit.values(root, kit.ranks * 2)[2 * kit.rank:2 * kit.rank + 2]


def func_exchanges(kit):
    given = {"async_op": kit.async_op}
    size = 2 * kit.ranks
    yield kit.taken(func.all_to_all_single_with_output_shape((size, COLUMNS), kit.mine(size, COLUMNS), **given)), equal_parts(kit)
    come, go, expected = uneven_parts(kit)
    data = kit.mine(sum(go), COLUMNS)
    yield kit.taken(func.all_to_all_single_with_output_shape((sum(come), COLUMNS), data, come, go, **given)), expected
    shapes = [(1 + rank + kit.rank,) for rank in kit.everyone]
    inputs = [kit.mine(1 + rank + kit.rank, salt=rank) for rank in kit.everyone]
    outputs = kit.taken(func.all_to_all_with_output_shape(shapes, inputs, **given))
    yield from zip(outputs, [kit.values(rank, 1 + rank + kit.rank, salt=kit.rank) for rank in kit.everyone])
    matrix = [[(rank + 1) * COLUMNS for rank in kit.everyone] for _ in kit.everyone]
    output = kit.room(sum(come), COLUMNS)
    handle = func.all_to_all_v_c(output, kit.mine(sum(go), COLUMNS), matrix, **given)
    assert (handle is not None) == kit.async_op and (handle is None or handle.wait() is None)
    yield output, expected


def func_letters(kit):
    if kit.ranks == 1:
        return to_itself(kit, lambda: func.send(kit.mine(ROWS), 0), lambda: func.irecv(kit.room(ROWS), 0))
    right, left = (kit.rank + 1) % kit.ranks, (kit.rank - 1) % kit.ranks
    sending = func.isend(kit.mine(ROWS), right, tag=4)
    if kit.async_op:
        output, handle = func.irecv(kit.room(ROWS), left, tag=4)
        handle.wait()
    else:
        output = func.recv(kit.room(ROWS), left, tag=4)
    sending.wait()
    yield output, kit.values(left, ROWS)
    if kit.rank == 0:
        func.send(kit.mine(2), 1)
    elif kit.rank == 1:
        yield func.recv(kit.room(2), 0), kit.values(0, 2)
    _, output = func.batch_isend_irecv([func.P2POp("isend", kit.mine(ROWS), right), func.P2POp("irecv", kit.room(ROWS), left)])
    yield output, kit.values(left, ROWS)


MOVES = [all_gather, all_gather_into_tensor, all_gather_coalesced, broadcast, scatter, gather, all_to_all, all_to_all_single,
         letters,
         func_gathers, func_exchanges, func_letters]
