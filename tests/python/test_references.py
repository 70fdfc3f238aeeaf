"""Nothing accumulates: thousands of calls of each kind, and then as much of everything as before; see growth.py."""
import contextlib

import numpy
import pytest

import rank_pool
import unisono
import unisono.comm_func as func
import unisono.distributed as dist
from growth import CALLS, grown

SIZE = 64


def here():
    return dist.get_rank(), dist.get_world_size()


# The kinds of calls. Every rank makes each of them, and all are over when it returns or is called the next time.


def synchronous(make):
    rank, ranks = here()
    dist.all_reduce(make())
    dist.all_gather([make() for _ in range(ranks)], make())
    dist.reduce_scatter_tensor(make(SIZE // ranks), make(), op=dist.ReduceOp.MAX)
    dist.gather(make(), [make() for _ in range(ranks)] if rank == 0 else None, dst=0)
    dist.all_reduce_coalesced([make(3), make(5)])


def through_copies(make):
    dist.all_reduce(make.watched(make().reshape(8, 8).T))
    dist.all_reduce(make.watched(make().reshape(8, 8).T), async_op=True).wait()
    func.all_reduce(make.watched(make()[::2]))


def asynchronous(make):
    works = [dist.all_reduce(make(), async_op=True), dist.all_gather([make() for _ in range(here()[1])], make(), async_op=True)]
    for work in works:
        assert work.wait() and work.is_completed() and work.exception() is None and work.result()


def dropped(make):
    dist.all_reduce(make(), async_op=True)
    dist.all_reduce(make.watched(make().reshape(8, 8).T), async_op=True)
    func.all_reduce(make(), async_op=True)
    cycle = [dist.barrier(async_op=True), make()]
    cycle.append(cycle)


class Unreadable:
    """Says that it is an array, and fails to be one."""

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self):
        raise BufferError("as planned")


def wrong_arguments(make):
    for wrong in (None, "x", 1.5, make().astype("S8"), Unreadable(), make()[:0].reshape((0,) * 9), [make()]):
        for call in (dist.all_reduce, func.all_reduce, lambda tensor: dist.all_gather([make(), tensor], make())):
            with contextlib.suppress(unisono.ArgumentError, unisono.ArgumentTypeError, unisono.PeerArgumentError):
                call(wrong)
                raise AssertionError(f"{wrong!r} was taken")
    with pytest.raises(unisono.ArgumentTypeError):
        dist.all_reduce(make(), group="x")
    with pytest.raises(unisono.ArgumentError):
        dist.broadcast(make(), src=99)


def errors_of_peers(make):
    rank, ranks = here()
    tensor = make(dtype="S8") if rank == ranks - 1 else make()
    with pytest.raises(unisono.ArgumentTypeError if rank == ranks - 1 else unisono.PeerArgumentError):
        dist.all_reduce(tensor)
    if rank == ranks - 1:
        with pytest.raises(unisono.ArgumentTypeError):
            func.all_reduce(tensor, async_op=True)
    else:
        _, handle = func.all_reduce(tensor, async_op=True)
        with pytest.raises(unisono.PeerArgumentError):
            handle.wait()
        assert isinstance(handle.exception(), unisono.PeerArgumentError)


def calls_that_differ(make):
    work = dist.all_reduce(make(SIZE + here()[0]), async_op=True)
    with pytest.raises(unisono.MismatchError):
        work.wait()
    assert isinstance(work.exception(), unisono.MismatchError)


def objects(make):
    rank, ranks = here()
    everyone = [None] * ranks
    dist.all_gather_object(everyone, {"rank": rank, "array": make(), "list": [1, 2.5, "text", b"bytes", {3}]})
    objects = [rank, (1, 2), None]
    dist.broadcast_object_list(objects, src=0)
    dist.scatter_object_list(output := [None], list(range(ranks)) if rank == 0 else None, src=0)
    assert output == [rank] and objects == [0, (1, 2), None]
    with pytest.raises(unisono.Error):
        dist.all_gather_object(everyone, object())


def results(make):
    rank, ranks = here()
    output, none = func.all_reduce(make())
    assert none is None and make.watched(output)[0] == ranks
    output, handle = func.all_gather_into_tensor(make(), async_op=True)
    handle.wait()
    assert make.watched(output).size == ranks * SIZE
    outputs, _ = func.all_to_all_with_output_shape([SIZE] * ranks, [make() for _ in range(ranks)])
    for output in outputs:
        make.watched(output)
    make.watched(func.broadcast(make(), 0))
    make.watched(func.reduce(bytearray(SIZE), 0))


def letters(make):
    rank, ranks = here()
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    receive, send = dist.irecv(make(), src=left, tag=3), dist.isend(make(), dst=right, tag=3)
    assert receive.wait() and send.wait() and receive.source_rank() == left
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, make(), right), dist.P2POp(dist.irecv, make(), left)]):
        work.wait()
    sent = func.isend(make(), right)
    make.watched(func.recv(make(), left))
    sent.wait()


def shared_tensors(make):
    shared = make.watched(unisono.zeros_shared(SIZE, "float64"))
    dist.all_reduce(shared)
    dist.all_reduce(shared[3:], async_op=True).wait()


def stores(make):
    store = dist.HashStore()
    part = dist.PrefixStore("part", store)
    part.set("key", "value")
    assert part.get("key") == b"value" and store.num_keys() == 1 and part.underlying_store.num_keys() == 1
    assert store.add("count", 1) == 1 and store.multi_get(["count", "part/key"]) and not part.delete_key("other")
    with pytest.raises(unisono.TimeoutError):
        store.wait(["absent"], 1e-6)
    with pytest.raises(unisono.ArgumentTypeError):
        dist.PrefixStore("part", object())


def groups(make):
    rank, ranks = here()
    group = dist.new_group()
    dist.all_reduce(make(), group=group)
    dist.all_reduce(make(), group=group, async_op=True).wait()
    alone, everyone = dist.new_subgroups(1)
    assert alone.size() == 1 and len(everyone) == ranks
    for made in (group, alone):
        dist.destroy_process_group(made)
    unisono.communication.create_group("by name", list(range(ranks)))
    make.watched(func.all_reduce(make(), group="by name")[0])
    unisono.communication.destroy_group("by name")


def torch_tensors(make):
    import torch

    tensor = make.watched(torch.ones(SIZE))
    dist.all_reduce(tensor)
    dist.all_reduce(make.watched(torch.ones(8, 8).t()), async_op=True).wait()
    output, handle = func.all_reduce(tensor, async_op=True)
    handle.wait()
    assert make.watched(output)[0] == here()[1] ** 2
    with pytest.raises(unisono.ArgumentError):
        dist.all_reduce(torch.ones(SIZE).to_sparse())


class WithDlpack:
    """An array of a kind that nobody knows."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def other_arrays(make):
    dist.all_reduce(make.watched(WithDlpack(make())))
    dist.all_reduce(make.watched(WithDlpack(make().reshape(8, 8).T)), async_op=True).wait()
    dist.all_reduce(bytearray(SIZE), async_op=True).wait()
    make.watched(func.all_reduce(memoryview(make()))[0])


KINDS = [synchronous, through_copies, asynchronous, dropped, wrong_arguments, errors_of_peers, calls_that_differ, objects,
         results, letters, shared_tensors, stores, groups, other_arrays]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_nothing_accumulates(pool, kind):
    assert pool.run(grown_by_name, 2, kind.__name__) == [{}, {}]


@pytest.mark.skipif(not rank_pool.has_torch(), reason="torch is not installed here")
def test_nothing_of_torch_accumulates(pool):
    assert pool.run(grown_by_name, 2, "torch_tensors") == [{}, {}]


def grown_by_name(name):
    return grown(globals()[name])


class OwnStore(dict):
    """A store that is no class of ours: a dictionary with the methods that joining needs."""

    def set(self, key, value):
        self[key] = value

    def get(self, key):
        return self[key]

    def check(self, keys):
        return all(key in self for key in keys)

    def add(self, key, amount):
        self[key] = str(int(self.get(key) if key in self else 0) + amount)
        return int(self[key])

    def compare_set(self, key, expected, desired):
        return self.setdefault(key, desired)

    def delete_key(self, key):
        return self.pop(key, None) is not None


def worlds(make):
    dist.init_process_group(rank=0, world_size=1, store=make.watched(OwnStore()))
    dist.all_reduce(make())
    dist.all_reduce(make(), async_op=True)
    dist.destroy_process_group()


def grown_by_worlds():
    dist.destroy_process_group()  # the one that it was called in
    return grown(worlds, CALLS // 3)


def test_worlds_do_not_accumulate(pool):
    assert pool.run(grown_by_worlds, 1) == [{}]


def keeps(make, kept=[]):  # noqa: B006: this is what it is for
    kept.append(make())
    dist.barrier()


def test_what_is_kept_is_found(pool):
    """Otherwise all of the above might look at nothing."""
    for found in pool.run(grown_by_name, 2, "keeps"):
        assert {"alive", "bytes of Python"} <= set(found), found
