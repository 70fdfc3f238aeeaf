"""Every function x both dialects x NumPy and torch x dtypes x operations x 1 to 4 ranks x waiting or not, against the oracle."""
import inspect
import itertools
import os

import pytest

import matrix
import matrix_moves
import numpy_oracle as oracle
import unisono
import unisono.comm_func as func
import unisono.distributed as dist
from rank_pool import has_torch

KINDS = ["numpy"] + (["torch"] if has_torch() else [])
WAYS = [(kind, async_op) for kind in KINDS for async_op in (False, True)]
FULL = "UNISONO_TEST_FULL" in os.environ


def ways(number, every):
    """All of WAYS, or one of them, so that each comes up for every dtype and every function."""
    return WAYS if every else [WAYS[number % len(WAYS)]]


def outcomes(case, kit):
    for got, expected in case(kit):
        kit.same(got, expected)


def cell(case, kit):
    if not oracle.applies(kit.op, kit.dtype):
        if "UNISONO_PRETEND_HOSTS" in os.environ:
            return  # between hosts a refusal breaks the group
        with pytest.raises((unisono.ArgumentError, unisono.ArgumentTypeError), match=kit.dtype):
            next(case(kit))
        return
    try:
        outcomes(case, kit)
    except Exception as error:
        raise AssertionError(f"{case.__name__} {kit.dtype} {kit.op} {kit.kind} async_op={kit.async_op}") from error


def reductions(every):
    cells = 0
    for number, (dtype, op) in enumerate(itertools.product(oracle.REDUCED, oracle.OPS)):
        for index, case in enumerate(matrix.REDUCTIONS + (matrix.SCANS if op != "avg" else [])):
            for kind, async_op in ways(number + index, every):
                cell(case, matrix.Kit(dtype, kind, async_op, op))
                cells += 1
    return cells


def moves(every):
    cells = 0
    for number, dtype in enumerate(oracle.ALL):
        for index, case in enumerate(matrix_moves.MOVES):
            for kind, async_op in ways(number + index, every):
                cell(case, matrix.Kit(dtype, kind, async_op))
                cells += 1
    return cells


# All ways on two ranks; on other numbers one each, unless UNISONO_TEST_FULL asks for all.
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("part, expected", [(reductions, 17 * (9 * 8 + 8 * 3)), (moves, 20 * 12)])
def test_matrix(pool, part, expected, ranks):
    every = ranks == 2 or FULL
    assert pool.run(part, ranks, every) == [expected * (len(WAYS) if every else 1)] * ranks


HOSTS = ["2,2", "3,1"] + (["1,1", "1,2,1", "0/1/0/1"] if FULL else [])


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("part, expected", [(reductions, 17 * (9 * 8 + 8 * 3)), (moves, 20 * 12)])
def test_matrix_on_pretended_hosts(pool, part, expected, hosts):
    ranks = 2 if hosts == "1,1" else 4
    assert pool.run(part, ranks, FULL, UNISONO_PRETEND_HOSTS=hosts) == [expected * (len(WAYS) if FULL else 1)] * ranks


def test_no_function_is_forgotten():
    """Each collective and each letter of both dialects is called by name in the matrix."""
    text = inspect.getsource(matrix) + inspect.getsource(matrix_moves)
    not_here = {"barrier", "monitored_barrier", "agree", "abort", "failed_ranks", "P2POp"}  # they move no data
    for module, prefix in ((dist, "dist."), (func, "func.")):
        for name in module.__all__:
            if name in not_here or name.endswith(("object", "object_list", "group", "subgroups", "enumeration")):
                continue
            if name[0].islower() and not name.startswith(("get_", "is_", "supports_", "init_", "new_", "group")):
                assert prefix + name in text, f"{prefix}{name} is not in the matrix"
