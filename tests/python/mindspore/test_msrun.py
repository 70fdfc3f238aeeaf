"""Jobs that msrun starts, without and with MindSpore's own communication beside ours."""
import collections
import re
import socket
from pathlib import Path

import jobs
import pytest

HERE = Path(__file__).resolve().parent
RANKS = 2
pytestmark = pytest.mark.skipif(not jobs.has("mindspore"), reason="MindSpore is not installed here: make mindspore")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def msrun(script, folder):
    """The status and output of msrun, and the logs of its processes by their names."""
    done = jobs.run("msrun", f"--worker_num={RANKS}", f"--local_worker_num={RANKS}", f"--master_port={free_port()}",
                    "--join=True", f"--log_dir={folder}", HERE / script, cwd=folder)
    return done, collections.defaultdict(str, {path.stem: path.read_text() for path in Path(folder).glob("*.log")})


def test_a_job_joins_with_no_other_change(tmp_path):
    done, logs = msrun("job_plain.py", tmp_path)
    assert done.returncode == 0, jobs.explain(done)
    for rank in range(RANKS):
        assert f"rank {rank} of {RANKS}: [3.0]" in logs[f"worker_{rank}"]
    assert "msrun's scheduler, which is no rank" in logs["scheduler"]
    assert "rank" not in re.sub("which is no rank", "", logs["scheduler"])  # it went no further than init()


@pytest.fixture(scope="module")
def parity(tmp_path_factory):
    done, logs = msrun("job_parity.py", tmp_path_factory.mktemp("parity"))
    assert done.returncode == 0, jobs.explain(done)
    return [logs[f"worker_{rank}"] for rank in range(RANKS)]


# shapes × dtypes (× ops, or × roots without the 0-d shape); MindSpore refuses to reduce float64.
@pytest.mark.parametrize("name, count", [("all_reduce", 5 * 4 * 4), ("all_gather", 5 * 5), ("scatter", 4 * 5 * RANKS)])
def test_same_results_as_mint_distributed(parity, name, count):
    for log in parity:
        assert "DIFFERENT" not in log
        assert len(re.findall(rf"^rank \d: {name} .*: same$", log, re.MULTILINE)) == count


def test_mindspore_refuses_float64_only(parity):
    for log in parity:
        assert set(re.findall(r"all_reduce (\w+) \w+: MindSpore refuses", log)) == {"float64"}


@pytest.mark.parametrize("name", ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "reduce", "scatter_tensor"])
def test_their_comm_func_fails_on_the_cpu(parity, name):
    """What is said of MindSpore 2.10 in the documents."""
    for log in parity:
        assert f"MindSpore's comm_func.{name} fails" in log
