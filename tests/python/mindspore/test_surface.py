"""The tables of test_surface_mindspore.py, by which the names and signatures here are judged, are those of the real MindSpore."""
import json
import sys

import jobs
import pytest
import test_surface_mindspore as tables

pytestmark = pytest.mark.skipif(not jobs.has("mindspore"), reason="MindSpore is not installed here: make mindspore")

ASK = """
import inspect, json, sys
sys.path[:0] = sys.argv[1:]
import mindspore.communication as communication
from mindspore.communication import comm_func
from mindspore.ops import ReduceOp
from test_surface_mindspore import text_of

def signatures(module):
    return {name: text_of(value) if inspect.isfunction(value) or name == "P2POp" else None
            for name, value in ((name, getattr(module, name)) for name in module.__all__)}

members = {kind.__name__: [name for name in dir(kind) if not name.startswith("_")]
           for kind in (communication.GlobalComm, ReduceOp, comm_func.CommHandle)}
print("\\n" + json.dumps([signatures(comm_func), signatures(communication), members]))
"""


@pytest.fixture(scope="module")
def real():
    done = jobs.run(sys.executable, "-c", ASK, *sys.path)
    assert done.returncode == 0, jobs.explain(done)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("index, table", list(enumerate([tables.COMM_FUNC, tables.COMMUNICATION, tables.MEMBERS])),
                         ids=["comm_func", "communication", "members"])
def test_table(real, index, table):
    assert real[index] == table
