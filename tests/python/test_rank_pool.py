"""The helper itself: results in order, failures with everybody's traceback, processes that stay."""
import os

import numpy
import pytest

import unisono.distributed as dist


def sums_and_process(base):
    data = numpy.array([dist.get_rank() + base])
    dist.all_reduce(data)
    return int(data[0]), os.getpid()


def fails_on_rank_1():
    if dist.get_rank() == 1:
        raise ValueError("as planned")
    dist.barrier()


def dies_on_rank_1():
    if dist.get_rank() == 1:
        os._exit(3)
    dist.barrier()


def test_results_and_reuse(pool):
    first = pool.run(sums_and_process, 2, 10)
    second = pool.run(sums_and_process, 2, 20)
    assert [result for result, _ in first + second] == [21, 21, 41, 41]
    assert [process for _, process in first] == [process for _, process in second]


@pytest.mark.parametrize("function, expected", [(fails_on_rank_1, "ValueError: as planned"),
                                                (dies_on_rank_1, "the process ended with status 3")])
def test_failures_are_told(pool, function, expected):
    with pytest.raises(AssertionError) as failure:
        pool.run(function, 2)
    assert expected in str(failure.value) and "PeerLostError" in str(failure.value)
    assert pool.run(sums_and_process, 2, 0)[0][0] == 1
