"""Jobs that others start: torchrun, `unisono run`, a shell with the variables of env://, msrun's scheduler."""
import subprocess
import sys
from pathlib import Path

import jobs
import pytest

JOB = Path(__file__).resolve().parent / "job_sum.py"
needs_torch = pytest.mark.skipif(not jobs.has("torch"), reason="torchrun is a part of torch, which is not installed here")


def lines(done):
    """What the ranks said, in their order, without what a launcher puts in front."""
    return sorted(line[line.index("rank "):] for line in done.stdout.splitlines() if "rank " in line and " of " in line)


def test_unisono_run():
    done = jobs.unisono_run(3, JOB)
    assert done.returncode == 0, jobs.explain(done)
    assert lines(done) == [f"rank {rank} of 3, restart none: 111" for rank in range(3)]


def torchrun(*line):
    return jobs.run(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *line)


@needs_torch
@pytest.mark.parametrize("options", [["--standalone"], []], ids=["standalone", "static"])
def test_torchrun(options):
    with jobs.held_port() as port:
        done = torchrun(*options, *([] if options else [f"--master-port={port}"]), JOB)
    assert done.returncode == 0, jobs.explain(done)
    assert lines(done) == [f"rank {rank} of 2, restart 0: 11" for rank in range(2)]


@needs_torch
def test_torchrun_restarts_the_job(tmp_path):
    done = torchrun("--standalone", "--max-restarts=2", JOB, tmp_path)
    assert done.returncode == 0, jobs.explain(done)
    assert lines(done) == [f"rank {rank} of 2, restart 1: 11" for rank in range(2)]


@needs_torch
def test_torchrun_without_restarts_fails(tmp_path):
    done = torchrun("--standalone", JOB, tmp_path)
    assert done.returncode != 0 and lines(done) == []
    assert "exitcode  : 7" in done.stderr


def test_variables_set_by_hand():
    with jobs.held_port() as port:
        ranks = [subprocess.Popen([sys.executable, str(JOB)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=jobs.environment(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port))
                 for rank in range(2)]
        for rank, process in enumerate(ranks):
            stdout, stderr = process.communicate(timeout=jobs.MAY_TAKE_S)
            assert (process.returncode, stdout) == (0, f"rank {rank} of 2, restart none: 11\n"), stderr


def test_nobody_started_it():
    done = jobs.run(sys.executable, JOB)
    assert (done.returncode, lines(done)) == (0, ["rank 0 of 1, restart none: 1"]), jobs.explain(done)
    assert "no launcher found, world of 1; start with `unisono run -n 4 …`" in done.stderr


AS_SCHEDULER = {"MS_ROLE": "MS_SCHED", "MS_WORKER_NUM": "2", "MS_SCHED_HOST": "127.0.0.1", "MS_SCHED_PORT": "8118"}


@pytest.mark.parametrize("init", ["communication.init()", "distributed.init_process_group()"])
def test_msruns_scheduler_ends_where_ranks_join(init):
    """As in MindSpore, whose init() never returns there. A job of msrun itself is in tests/python/mindspore."""
    done = jobs.run(sys.executable, "-c", f"import unisono\nunisono.{init}\nprint('went on')",
                    env=jobs.environment(**AS_SCHEDULER))
    assert (done.returncode, done.stdout) == (0, ""), jobs.explain(done)
    assert "this process is msrun's scheduler, which is no rank" in done.stderr


def test_other_errors_of_msruns_processes_are_raised():
    done = jobs.run(sys.executable, "-c", "import unisono\nunisono.communication.init()",
                    env=jobs.environment(**{**AS_SCHEDULER, "MS_WORKER_NUM": "two"}))
    assert done.returncode == 1 and "InitError" in done.stderr and "MS_WORKER_NUM" in done.stderr, jobs.explain(done)
