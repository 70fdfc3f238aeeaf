"""What works and handles hold and give back: results through copies, dropped works, cycles, storages, results that fail."""
import gc
import threading
import weakref

import numpy
import pytest

import unisono
import unisono._arrays
import unisono.comm_func as func
import unisono.distributed as dist
from rank_pool import has_torch

if has_torch():
    import torch

LARGE = 1_000_000  # of so many elements, memory that is given back is gone


class Holder(numpy.ndarray):
    """An array that can have attributes."""


class DLPackOnly:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def column(value):
    """(an array that is not contiguous, the one it is a part of)."""
    whole = numpy.full((4, 2), float(value))
    return whole[:, 0], whole


def let_others_go():
    """Rank 0 lets the others begin the call that it has begun already."""
    dist.barrier(group=LATER)


def later():
    """A group of its own for that."""
    global LATER
    LATER = dist.new_group(list(range(dist.get_world_size())))


def a_result_that_cannot_be_made():
    """A call that is under way keeps its arrays, though its result could not be made into an array."""
    later()
    calls = [(lambda data: func.all_reduce(data, async_op=True), func.all_reduce),
             (lambda data: func.all_to_all_with_output_shape([(LARGE,)] * 2, [data, data], async_op=True),
              lambda data: func.all_to_all_with_output_shape([(LARGE,)] * 2, [data, data])),
             (lambda data: func.irecv(data, src=1), lambda data: func.send(data, dst=0))]
    for begin, take_part in calls:
        data = numpy.ones(LARGE)
        if dist.get_rank() == 1:
            let_others_go()
            take_part(data)
            dist.barrier()
            continue
        alive = weakref.ref(data)
        making, unisono._arrays.numpy_dtype = unisono._arrays.numpy_dtype, interrupted
        try:
            with pytest.raises(KeyboardInterrupt):
                begin(DLPackOnly(data))
        finally:
            unisono._arrays.numpy_dtype = making
        del data
        gc.collect()
        assert alive() is not None
        let_others_go()
        dist.barrier()
        while alive() is not None:  # a letter tells when it is over, not before the barrier is
            dist.barrier(group=dist.new_group([0]))
    return True


def interrupted(name):
    raise KeyboardInterrupt


class Calling(numpy.ndarray):
    """Its finalizer makes calls, which look after dropped works in turn."""
    gone = []

    def __del__(self):
        Calling.gone.append(len(Calling.gone))
        if dist.is_initialized():
            dist.barrier(group=ALONE, async_op=True).wait()


def finalizers_that_make_calls():
    global ALONE
    ALONE = dist.new_group([dist.get_rank()])
    Calling.gone.clear()
    if dist.get_rank() == 1:
        dist.recv(numpy.empty(1), src=0)
        for tag in range(6):
            dist.send(numpy.ones(4), dst=0, tag=tag)
        dist.recv(numpy.empty(1), src=0)
        return True
    for tag in range(6):
        dist.irecv(numpy.zeros(4).view(Calling), src=1, tag=tag)
    assert not Calling.gone
    dist.send(numpy.ones(1), dst=1)
    while len(Calling.gone) < 6:
        dist.barrier(group=ALONE, async_op=True).wait()
    dist.send(numpy.ones(1), dst=1)
    return True


def results_through_copies():
    """They are there as soon as anybody has been told that the call is over, in whatever way."""
    told = [lambda work: work.is_completed(), lambda work: work.is_success(), lambda work: work.wait()]
    for is_over in told:
        part, whole = column(1)
        work = dist.all_reduce(part, async_op=True)
        while not is_over(work):
            pass
        assert whole.tolist() == [[2, 1]] * 4
        part[:] = 7  # the array is the user's again
        work.wait()
        assert work.is_completed() and part.tolist() == [7] * 4 and work.result()[0] is part
    part, whole = column(1)
    handle = func.all_to_all_v_c(part, numpy.arange(4.0), [[2, 2], [2, 2]], async_op=True)
    while not handle.is_completed():
        pass
    assert part.tolist() == ([0, 1, 0, 1] if dist.get_rank() == 0 else [2, 3, 2, 3])
    return True


def dropped_results_through_copies():
    part, whole = column(1)
    dist.all_reduce(part, async_op=True)
    dist.barrier()
    assert whole.tolist() == [[2, 1]] * 4
    work = dist.all_reduce(part, async_op=True)
    dist.barrier()
    del work  # it is over, and nobody has asked
    assert whole.tolist() == [[4, 1]] * 4
    group = dist.new_group([0, 1])
    dist.all_reduce(part, async_op=True, group=group)
    dist.all_reduce(numpy.ones(1), group=group)
    dist.destroy_process_group(group)
    assert whole.tolist() == [[8, 1]] * 4
    return True


def threads_that_wait_for_one_call():
    """Each of them finds the result when it is told, though only one has copied it."""
    base = numpy.ones((4, 2))
    part = base[:, 0]
    work = dist.all_reduce(part, async_op=True)
    copy_into, seen = numpy.copyto, []
    copying, go_on = threading.Event(), threading.Event()

    def slowly(*arguments):
        copying.set()
        go_on.wait()
        copy_into(*arguments)

    numpy.copyto = slowly
    try:
        threads = [threading.Thread(target=lambda: seen.append((work.wait(), part.tolist()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        copying.wait()
        assert seen == []
        go_on.set()
        for thread in threads:
            thread.join()
    finally:
        numpy.copyto = copy_into
    return seen == [(True, [2] * 4)] * 3


def a_call_that_fails_writes_nothing_back():
    part, whole = column(1)
    if dist.get_rank() == 1:
        with pytest.raises(unisono.MismatchError):
            dist.all_reduce(numpy.ones(5))
        return True
    work = dist.all_reduce(part, async_op=True)
    with pytest.raises(unisono.MismatchError):
        work.wait()
    part[:] = 5
    assert work.is_completed() and not work.is_success() and whole.tolist() == [[5, 1]] * 4
    return True


def tensors_that_are_only_read():
    """A reduction to another rank and a broadcast from this one leave the array to its user once they are over."""
    me = dist.get_rank()
    for call in (lambda part: dist.reduce(part, dst=0, async_op=True),
                 lambda part: dist.broadcast(part, src=1, async_op=True)):
        part, whole = column(1)
        work = call(part)
        dist.barrier()
        if me == 1:
            part += 10
        assert work.wait() and (me == 0 or whole.tolist() == [[11, 1]] * 4)
        assert len(work.result()) == (0 if me == 1 else 1)
    return True


def cycles_are_collected():
    later()
    gc.collect()
    for make in (lambda data: dist.all_reduce(data, async_op=True), lambda data: func.all_reduce(data, async_op=True)[1]):
        for waits in (True, False):
            data = numpy.ones(1000).view(Holder)
            data.work = make(data)
            if waits:
                data.work.wait()
            alive = weakref.ref(data)
            dist.barrier()
            del data
            gc.collect()
            assert alive() is None
    part, whole = column(1)
    part = part.view(Holder)
    part.work = dist.all_reduce(part, async_op=True)
    alive = weakref.ref(part)
    dist.barrier()
    del part
    gc.collect()
    assert alive() is None and whole.tolist() == [[2, 1]] * 4
    if dist.get_rank() == 1:
        let_others_go()
        dist.all_reduce(numpy.ones(LARGE))
        dist.barrier()
        return True
    data = numpy.ones(LARGE).view(Holder)
    data.work = dist.all_reduce(data, async_op=True)
    alive = weakref.ref(data)
    del data
    gc.collect()
    assert alive() is not None  # nobody knows it, but the call that is under way
    let_others_go()
    dist.barrier()
    gc.collect()
    assert alive() is None
    return True


def dropped_arrays_are_given_back_by_any_call():
    for call in (dist.barrier, lambda: dist.all_reduce(numpy.ones(1)), lambda: func.all_reduce(numpy.ones(1)), func.barrier):
        data = numpy.ones(100)
        alive = weakref.ref(data)
        dist.all_reduce(data, async_op=True)
        del data
        call()
        assert alive() is None
    return True


def classes_of_arrays_are_given_back():
    class Short(numpy.ndarray):
        pass

    dist.all_reduce(numpy.ones(3).view(Short))
    alive = weakref.ref(Short)
    del Short
    gc.collect()
    assert alive() is None
    for number in range(100):  # where others lie afterwards, they are what they are
        made = type(f"Made{number}", (numpy.ndarray,), {})
        dist.all_reduce(numpy.ones(3).view(made))
        del made
        gc.collect(0)
        other = type(f"Other{number}", (), {})()
        with pytest.raises(unisono.ArgumentTypeError, match=f"Other{number}"):
            dist.all_reduce(other)
        dist.barrier()
    return True


@pytest.mark.parametrize("case", [
    a_result_that_cannot_be_made, finalizers_that_make_calls, results_through_copies, dropped_results_through_copies,
    threads_that_wait_for_one_call, a_call_that_fails_writes_nothing_back, tensors_that_are_only_read, cycles_are_collected,
    dropped_arrays_are_given_back_by_any_call, classes_of_arrays_are_given_back], ids=lambda case: case.__name__)
def test_on_two_ranks(pool, case):
    assert pool.run(case, 2) == [True, True]


def a_tensor_gets_another_storage():
    later()
    for make, take_part, expected in [
            (lambda data: dist.all_reduce(data, async_op=True), lambda data: dist.all_reduce(data) or data, 2),
            (lambda data: func.all_reduce(data, async_op=True)[1], lambda data: func.all_reduce(data)[0], 2),
            (lambda data: dist.isend(data, dst=1), lambda data: dist.recv(data, src=0) or data, 1),
            (lambda data: dist.batch_isend_irecv([dist.P2POp(dist.isend, data, 1)])[0],
             lambda data: dist.recv(data, src=0) or data, 1)]:
        data = torch.ones(LARGE)
        if dist.get_rank() == 1:
            let_others_go()
            result = take_part(data)
            assert result.min() == result.max() == expected
            continue
        work = make(data)
        data.data = torch.zeros(1)
        let_others_go()
        work.wait()
        assert data.tolist() == [0]
    return True


def torch_results_and_cycles():
    part = torch.ones(8)[::2]
    work = dist.all_reduce(part, async_op=True)
    while not work.is_completed():
        pass
    assert part.tolist() == [2] * 4
    for make in (lambda: torch.ones(100), lambda: torch.ones(8)[::2]):
        tensor = make()
        tensor.handle = dist.all_reduce(tensor, async_op=True)
        tensor.handle.wait()
        alive = weakref.ref(tensor)
        del tensor
        gc.collect()
        assert alive() is None
    return True


def giving_is_no_writing():
    """The version that backward() looks at changes where a tensor is written, and only there."""
    me = dist.get_rank()
    for call, writes in [(lambda data: dist.broadcast(data, src=0), me == 1), (lambda data: dist.reduce(data, dst=1), me == 1),
                         (lambda data: dist.reduce(data, group_dst=0), me == 0),
                         (lambda data: dist.broadcast(data, group_src=1), me == 0)]:
        for data in (torch.ones(4), torch.ones(8)[::2]):
            before = data._version
            call(data)
            assert (data._version != before) == writes
    return True


@pytest.mark.skipif(not has_torch(), reason="torch is not installed")
@pytest.mark.parametrize("case", [a_tensor_gets_another_storage, torch_results_and_cycles, giving_is_no_writing],
                         ids=lambda case: case.__name__)
def test_with_torch(pool, case):
    assert pool.run(case, 2) == [True, True]
