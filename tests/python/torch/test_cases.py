"""Every case on real ranks; the cases are in cases_*.py, one set of processes for each module and number of ranks."""
import ast
import functools

import pytest
import ranks

pytest.importorskip("unisono.torch", exc_type=ImportError)

SIZES = {
    "cases_reductions": (2, 3, 4),
    "cases_moves": (2, 3, 4),
    "cases_parity": (2, 3, 4),
    "cases_letters": (2, 3),
    "cases_asynchronous": (2, 3),
    "cases_groups": (2, 4),
    "cases_errors": (2, 3),
    "cases_training": (2,),
    "cases_parallel": (2,),
    "cases_sessions": (2,),
    "cases_references": (2,),
}


def names_of(module):
    """Read, not imported: the tests' own process needs no torch of its own."""
    tree = ast.parse((ranks.HERE / f"{module}.py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("case_")]


@functools.cache
def outcomes(module, size):
    return ranks.run(module, size)


ALL = [(module, size, case) for module, sizes in SIZES.items() for size in sizes for case in [*names_of(module), "the end"]]


@pytest.mark.parametrize("module, size, case", ALL, ids=[f"{module[6:]}-{size}-{case.replace(' ', '_')}" for module, size, case in ALL])
def test(module, size, case):
    said = outcomes(module, size).get(case, "" if case == "the end" else "it was not run: see the end")
    assert not said, said
