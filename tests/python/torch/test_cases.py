"""Every case on real ranks; the cases are in cases_*.py, one set of processes for each module and number of ranks."""
import ast
import functools
import os

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


# On so many pretended hosts, too; more of it in UNISONO_TEST_FULL.
HOSTS = {"cases_reductions": {4: "2,2"}, "cases_moves": {4: "3,1"}, "cases_letters": {3: "2,1"}}
if "UNISONO_TEST_FULL" in os.environ:
    HOSTS |= {"cases_asynchronous": {3: "1,2"}, "cases_parity": {4: "0/1/0/1"}, "cases_training": {2: "1,1"}, "cases_parallel": {2: "1,1"}}


@functools.cache
def outcomes(module, size, hosts=""):
    return ranks.run(module, size, hosts)


ALL = [(module, size, case) for module, sizes in SIZES.items() for size in sizes for case in [*names_of(module), "the end"]]


@pytest.mark.parametrize("module, size, case", ALL, ids=[f"{module[6:]}-{size}-{case.replace(' ', '_')}" for module, size, case in ALL])
def test(module, size, case):
    said = outcomes(module, size).get(case, "" if case == "the end" else "it was not run: see the end")
    assert not said, said


BETWEEN_HOSTS = [(module, size, hosts) for module, layouts in HOSTS.items() for size, hosts in layouts.items()]


@pytest.mark.parametrize("module, size, hosts", BETWEEN_HOSTS, ids=[f"{module[6:]}-{hosts}" for module, _, hosts in BETWEEN_HOSTS])
def test_on_pretended_hosts(module, size, hosts):
    said = {case: text for case, text in outcomes(module, size, hosts).items() if text}
    assert not said, "\n".join(f"{case}: {text}" for case, text in said.items())
