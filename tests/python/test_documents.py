"""What is written down: examples that run, stubs that say what there is, a package that imports no framework."""
import ast
import builtins
import doctest
import inspect
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

import unisono
from unisono import _arrays, _codec, _core, _errors, _groups, _objects

MODULES = [unisono, unisono.distributed, unisono.comm_func, unisono.communication, _arrays, _codec, _errors, _groups, _objects]
PUBLIC = MODULES[:4]


NAMES = {"numpy": numpy, "unisono": unisono, "dist": unisono.distributed, "comm_func": unisono.comm_func,
         "communication": unisono.communication}


def examples(module):
    """{name: doctest} of the module's own functions and classes."""
    return {test.name: test for test in doctest.DocTestFinder().find(module, globs=vars(module) | NAMES) if test.examples}


def complaints_of(test):
    said = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    return "".join(said)


def is_for_two(test):
    return "# of two ranks" in test.docstring


def in_a_world_of_one(test):
    """Joins it, unless the example does."""
    joins = "init(" in test.docstring or "init_process_group(" in test.docstring
    if not joins:
        unisono.distributed.init_process_group(rank=0, world_size=1)
    said = complaints_of(test)
    if unisono.distributed.is_initialized():
        unisono.distributed.destroy_process_group()
        said += f"{test.name} has left the world joined" if joins else ""
    return said


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples(module):
    assert "".join(in_a_world_of_one(test) for test in examples(module).values() if not is_for_two(test)) == ""


def complaints_among_two(module_name, name):
    return complaints_of(examples(sys.modules[module_name])[name])


def test_examples_for_two_ranks(pool):
    """Letters: a rank alone has nobody to write to."""
    tests = [(module.__name__, name) for module in MODULES for name, test in examples(module).items() if is_for_two(test)]
    assert [pool.run(complaints_among_two, 2, *test) for test in tests] == [["", ""]] * len(tests)
    assert len(tests) == 12


def test_every_function_has_an_example():
    without = [f"{module.__name__}.{name}" for module, name, value in public_names()
               if inspect.isfunction(value) and ">>> " not in (value.__doc__ or "")]
    assert without == []


def public_names():
    for module in PUBLIC:
        for name in getattr(module, "__all__", [name for name in dir(module) if not name.startswith("_")]):
            value = getattr(module, name)
            if (inspect.isfunction(value) or inspect.isclass(value)) and getattr(value, "__module__", "").startswith("unisono"):
                yield module, name, value


def test_everything_public_is_described():
    silent = [f"{module.__name__}.{name}" for module, name, value in public_names() if not (value.__doc__ or "").strip()]
    assert silent == []


def stub():
    return ast.parse((pathlib.Path(unisono.__file__).parent / "_core.pyi").read_text())


def parameters_in_stub(node):
    return [argument.arg for argument in node.args.args if argument.arg != "self"]


def parameters_there(method):
    signature = re.sub(r"\\\d+", "None", method.__nb_signature__[0][0])  # nanobind has numbers in the place of defaults
    return parameters_in_stub(ast.parse(signature + ": ...").body[0])


def test_the_stub_says_what_there_is():
    classes = {node.name: node for node in stub().body if isinstance(node, ast.ClassDef)}
    handle = next(node for node in classes.pop("comm_func").body if isinstance(node, ast.ClassDef))
    compared = 0
    for node, kind in [(node, getattr(_core, name)) for name, node in classes.items()] + [(handle, _core.comm_func.CommHandle)]:
        own = {name for name in vars(kind) if not name.startswith("_")}
        written = {item.name if isinstance(item, ast.FunctionDef) else item.target.id for item in node.body
                   if isinstance(item, (ast.FunctionDef, ast.AnnAssign))} - {"__init__"}
        assert own == written, node.name
        for item in node.body:
            method = vars(kind).get(item.name) if isinstance(item, ast.FunctionDef) else None
            if hasattr(method, "__nb_signature__"):
                assert parameters_there(method) == parameters_in_stub(item), (node.name, item.name)
                compared += 1
    assert compared > 25
    public = {name for name, value in vars(_core).items() if inspect.isclass(value)} - {"Memory"}
    assert public == set(classes)


def test_no_framework_is_imported():
    check = ("import sys, unisono; "
             "print([name for name in ('numpy', 'torch', 'mindspore', 'ml_dtypes', 'pickle') if name in sys.modules])")
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (0, "[]\n", "")


def test_everything_at_once_leaves_pythons_own_names():
    names = {}
    exec("from unisono import *", names)
    assert [name for name in dir(builtins) if name in names and names[name] is not getattr(builtins, name)] == []
    errors = {name for name, value in vars(_errors).items() if inspect.isclass(value)}
    assert set(unisono.__all__) == errors - {"MemoryError", "TimeoutError"} | {"comm_func", "communication", "distributed",
                                                                               "empty_shared", "zeros_shared"}


@pytest.mark.parametrize("call", [lambda: unisono.distributed.all_reduce(bytearray(3)), unisono.distributed.get_rank,
                                  lambda: unisono.comm_func.all_reduce(bytearray(3)), unisono.communication.get_rank,
                                  lambda: unisono.zeros_shared(3), lambda: unisono.empty_shared(3),
                                  lambda: unisono.distributed.new_group([0]), unisono.distributed.barrier,
                                  lambda: unisono.distributed.all_gather_object([None], 1)])
def test_errors_speak_python(call):
    with pytest.raises(unisono.StateError, match=r"init_process_group\(\) or communication\.init\(\) first") as caught:
        call()
    assert "::" not in str(caught.value) and "alloc_" not in str(caught.value)


def test_errors_are_of_two_kinds():
    pairs = [(unisono.ArgumentError, ValueError), (unisono.ArgumentTypeError, TypeError), (unisono.TimeoutError, TimeoutError),
             (unisono.MemoryError, MemoryError), (unisono.MemoryError, unisono.ResourceError), (unisono.StateError, RuntimeError)]
    assert all(issubclass(one, other) and issubclass(one, unisono.Error) for one, other in pairs)
    with pytest.raises(unisono.StateError, match="init_process_group"):
        unisono.distributed.all_reduce(bytearray(3))
    with pytest.raises(unisono.StateError, match="init"):
        unisono.comm_func.all_reduce(bytearray(3))
