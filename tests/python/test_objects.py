"""Collectives on objects: results, groups, pickles, and errors on one rank that must not leave the others waiting."""
import contextlib
import tracemalloc

import numpy
import pytest

import unisono
import unisono.distributed as dist
from unisono import _codec

GOOD = {"text": "é\ud800", "numbers": [1, 2.5, -3j, 2**100], "nested": ({1, 2}, frozenset("ab"), None, True), "bytes": b"\0\xff"}


class Refuses:
    def __reduce__(self):
        raise RuntimeError("no pickle of this")


class Interrupts:
    def __reduce__(self):
        raise KeyboardInterrupt


CALLS = [  # each is the sender's call on one rank and the receiver's on another
    lambda obj, **options: dist.all_gather_object([None] * 3, obj, **options),
    lambda obj, **options: dist.gather_object(obj, [None] * 3 if dist.get_rank() == 1 else None, dst=1, **options),
    lambda obj, **options: dist.scatter_object_list([None], [obj] * 3 if dist.get_rank() == 0 else None, src=0, **options),
    lambda obj, **options: dist.broadcast_object_list([obj], src=0, **options),
]


def no_room(size):
    raise MemoryError(f"of {size} bytes")


@contextlib.contextmanager
def without_memory():
    """Rank 1 finds no room for what is about to arrive."""
    from unisono import _objects
    room = _objects._room
    if dist.get_rank() == 1:
        _objects._room = no_room
    yield
    _objects._room = room


def one_rank_has_no_memory():
    for call in CALLS:
        with without_memory(), pytest.raises(unisono.Error) as caught:
            call(b"x" * 1000)
        if dist.get_rank() == 1:
            assert isinstance(caught.value, unisono.MemoryError) and "of 10" in str(caught.value)
        else:
            assert isinstance(caught.value, unisono.PeerArgumentError) and caught.value.peer == 1
            assert "memory" in str(caught.value)
        call(1)  # the group is usable


def one_rank_is_interrupted():
    for root, call in zip([2, 2, 0, 0], CALLS, strict=True):
        interrupted = dist.get_rank() == root
        with pytest.raises(KeyboardInterrupt if interrupted else unisono.PeerArgumentError) as caught:
            call(Interrupts() if interrupted else 1, allow_pickle=True)
        assert interrupted or caught.value.peer == root and "KeyboardInterrupt" in str(caught.value)
        call(1)


def memory_of_large_objects():
    """The bytes that are received, and the object that is made of them; nothing in between."""
    size, giver = 8 << 20, dist.get_rank() == 0
    objects = [numpy.ones(size, "uint8") if giver else None]
    dist.broadcast_object_list([1])
    tracemalloc.start()
    dist.broadcast_object_list(objects)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert objects[0].sum() == size and peak < (1.2 if giver else 2.2) * size, peak / size


def results():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    everyone = [None] * ranks
    dist.all_gather_object(everyone, {"rank": rank, "good": GOOD, "array": numpy.arange(rank * 1000)})
    assert [one["rank"] for one in everyone] == list(range(ranks)) and everyone[-1]["good"] == GOOD
    assert [one["array"].size for one in everyone] == [1000 * index for index in range(ranks)]
    for root in range(ranks):
        gathered = [None] * ranks if rank == root else None
        dist.gather_object(("from", rank), gathered, dst=root)
        assert gathered is None or gathered == [("from", index) for index in range(ranks)]
        output = [None]
        dist.scatter_object_list(output, [f"to {index}" * index for index in range(ranks)] if rank == root else None, src=root)
        assert output == [f"to {rank}" * rank]
        objects = [root, "x" * 100_000, None] if rank == root else [None] * 3
        dist.broadcast_object_list(objects, src=root)
        assert objects == [root, "x" * 100_000, None]
    received = [None, None]
    if rank == 0:
        dist.send_object_list([1, "two"], dst=ranks - 1)
    elif rank == ranks - 1:
        assert dist.recv_object_list(received, src=0) == 0 and received == [1, "two"]
    dist.all_gather_object(everyone, ValueError(rank), allow_pickle=True)
    assert [error.args[0] for error in everyone] == list(range(ranks))


def in_groups():
    rank = dist.get_rank()
    group = dist.new_group([2, 1])
    outside = dist.get_rank(group) < 0
    everyone = [None, None]
    dist.all_gather_object(everyone, rank, group=group)
    assert everyone == ([None, None] if outside else [1, 2])
    objects = [rank]
    dist.broadcast_object_list(objects, src=2, group=group)
    assert objects == ([rank] if outside else [2])
    objects = [rank]
    dist.broadcast_object_list(objects, group_src=0, group=group)
    assert objects == ([rank] if outside else [1])
    if not outside:
        with pytest.raises(unisono.ArgumentError, match="rank 0"):
            dist.broadcast_object_list([None], src=0, group=group)


WRONG = [  # (a call, what rank 1 gives instead, the word that its error has)
    (lambda obj: dist.all_gather_object([None] * 3, obj), object(), "allow_pickle"),
    (lambda obj: dist.all_gather_object([None] * 3, obj, allow_pickle=True), Refuses(), "no pickle of this"),
    (lambda there: dist.all_gather_object(there, 1), [None], "object_list"),
    (lambda there: dist.all_gather_object(there, 1), (None,) * 3, "object_list"),
    (lambda obj: dist.gather_object(obj, [None] * 3 if dist.get_rank() == 1 else None, dst=1), object(), "allow_pickle"),
    (lambda there: dist.gather_object(1, there if dist.get_rank() == 1 else None, dst=1), None, "object_gather_list"),
    (lambda there: dist.gather_object(1, there if dist.get_rank() == 1 else None, dst=1), [None], "object_gather_list"),
    (lambda root: dist.gather_object(1, None if dist.get_rank() else [None] * 3, dst=root), "x", "dst"),
    (lambda obj: dist.scatter_object_list([None], [1, 2, obj] if dist.get_rank() == 1 else None, src=1), object(),
     "allow_pickle"),
    (lambda out: dist.scatter_object_list(out, [1, 2, 3] if dist.get_rank() == 1 else None, src=1), [],
     "scatter_object_output_list"),
    (lambda given: dist.scatter_object_list([None], given if dist.get_rank() == 1 else None, src=1), [1],
     "scatter_object_input_list"),
    (lambda root: dist.scatter_object_list([None], [1, 2, 3] if dist.get_rank() == 0 else None, src=root), 9, "9"),
    (lambda obj: dist.broadcast_object_list([obj], src=1), object(), "allow_pickle"),
    (lambda there: dist.broadcast_object_list(there, src=0), None, "object_list"),
    (lambda root: dist.broadcast_object_list([1], src=root), 1.5, "src"),
    *[(lambda flag, call=call: call(flag), wrong, "allow_pickle") for wrong in ("False", 1, None) for call in (
        lambda flag: dist.all_gather_object([None] * 3, 1, allow_pickle=flag),
        lambda flag: dist.gather_object(1, [None] * 3 if dist.get_rank() == 0 else None, allow_pickle=flag),
        lambda flag: dist.scatter_object_list([None], [1, 2, 3] if dist.get_rank() == 0 else None, allow_pickle=flag),
        lambda flag: dist.broadcast_object_list([1], allow_pickle=flag))],
]
RIGHT = [1, 1, [None] * 3, [None] * 3, 1, [None] * 3, [None] * 3, 0, 3, [None], [1, 2, 3], 0, 1, [None], 0] + [False] * 12


def one_rank_is_wrong():
    complaints = []
    for index, ((call, wrong, word), right) in enumerate(zip(WRONG, RIGHT, strict=True)):
        try:
            call(wrong if dist.get_rank() == 1 else right)
            error = None
        except unisono.Error as caught:
            error = caught
        if dist.get_rank() == 1:
            good = isinstance(error, (unisono.ArgumentError, unisono.ArgumentTypeError)) and word in str(error)
        else:
            good = isinstance(error, unisono.PeerArgumentError) and error.peer == 1
        everyone = [None] * 3
        dist.all_gather_object(everyone, index)
        if not good or everyone != [index] * 3:
            complaints.append(f"{index}: {error!r} {everyone}")
    return complaints


def letters_that_cannot_be_written():
    rank = dist.get_rank()
    if rank == 0:
        for options in ({}, {"allow_pickle": "True"}):
            with pytest.raises(unisono.ArgumentTypeError, match="allow_pickle"):
                dist.send_object_list([object()], dst=1, **options)
        with pytest.raises(KeyboardInterrupt):
            dist.send_object_list([Interrupts()], dst=1, allow_pickle=True)
        dist.send_object_list([5], dst=1)
        dist.send_object_list([6, 7], dst=1)
    else:
        with pytest.raises(unisono.ArgumentTypeError, match="allow_pickle"):
            dist.recv_object_list([None], src=0, allow_pickle="True")
        for _ in range(3):
            with pytest.raises(unisono.PeerArgumentError, match="rank 0"):
                dist.recv_object_list([None], src=0)
        assert dist.recv_object_list(got := [None]) == 0 and got == [5]
        with pytest.raises(unisono.MismatchError, match="1 elements here and rank 0 sent 2"):
            dist.recv_object_list([None], src=0)
    dist.barrier()


def letters_that_are_no_lists():
    data = numpy.frombuffer(_codec.encode("ab"), "uint8")
    if dist.get_rank() == 0:
        dist.send(numpy.array([data.size]), dst=1)
        dist.send(data, dst=1)
    else:
        with pytest.raises(unisono.ProtocolError, match="no list"):
            dist.recv_object_list(objects := [None, None], src=0)
        assert objects == [None, None]
    dist.barrier()


def pickles_and_lengths_differ():
    """What is wrong with what was received is found after the calls, and the group goes on."""
    rank = dist.get_rank()
    everyone = [None, None]
    with pytest.raises(unisono.ArgumentError, match="pickle") if rank == 1 else nothing():
        dist.all_gather_object(everyone, {1: rank}, allow_pickle=rank == 0)
    with pytest.raises(unisono.MismatchError) if rank == 1 else nothing():
        dist.broadcast_object_list([1] if rank == 0 else [1, 2], src=0)
    dist.barrier()


def nothing():
    return contextlib.nullcontext()


@pytest.mark.parametrize("case, ranks", [(results, 2), (results, 3), (in_groups, 3), (letters_that_cannot_be_written, 2),
                                         (letters_that_are_no_lists, 2),
                                         (pickles_and_lengths_differ, 2), (one_rank_has_no_memory, 3),
                                         (one_rank_is_interrupted, 3), (memory_of_large_objects, 2)])
def test_objects(pool, case, ranks):
    pool.run(case, ranks)


def test_errors_on_one_rank(pool):
    assert pool.run(one_rank_is_wrong, 3) == [[], [], []]
