"""Both dialects on mindspore.Tensor, among two ranks of `unisono run`."""
import functools

import cases
import jobs
import pytest

MODULES = ("cases_comm_func", "cases_distributed", "cases_gradients", "cases_memory")
pytestmark = pytest.mark.skipif(not jobs.has("mindspore"), reason="MindSpore is not installed here: make mindspore")


@functools.cache
def outcomes(module):
    return cases.outcomes(module, 2)


@pytest.mark.parametrize("module, name", [(module, name) for module in MODULES for name in [*cases.names(module), "the end"]])
def test_case(module, name):
    assert outcomes(module)[name] == ""
