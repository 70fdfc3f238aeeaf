"""The examples that lose a rank or a machine in the middle of training: survive.py goes on with those who are left, restart.py is started again by torchrun.

Both train the same, and every loss is compared with that of a run in which nobody is lost: a step that was left out, done twice or done
with somebody's old weights would show, and so would samples that nobody took over.
"""
import json
import os
import re
import sys

import jobs
import machines as namespaces
import pytest

pytestmark = pytest.mark.skipif(not jobs.has("torch") or not jobs.has("unisono.torch"), reason="unisono.torch is not here")
needs_machines = pytest.mark.skipif(bool(namespaces.cannot_be_made()), reason=namespaces.cannot_be_made() or "can be made")
is_long = pytest.mark.skipif("UNISONO_TEST_FULL" not in os.environ, reason="UNISONO_TEST_FULL=1 takes this")
SURVIVE, RESTART = jobs.ROOT / "examples" / "survive.py", jobs.ROOT / "examples" / "restart.py"
STEPS = [*range(0, 100, 10), 99]


def losses(text):
    """{step: [every loss that was printed for it]}"""
    found = {}
    for step, loss in re.findall(r"step +(\d+): loss ([0-9.]+)", text):
        found.setdefault(int(step), []).append(float(loss))
    return found


@pytest.fixture(scope="module")
def undisturbed():
    """{step: loss} when nobody is lost. They are those of all samples, and so the same on any number of ranks but for rounding."""
    done = jobs.unisono_run(1, SURVIVE)
    assert done.returncode == 0, jobs.explain(done)
    alone = {step: values[0] for step, values in losses(done.stdout).items()}
    assert list(alone) == STEPS and alone[99] < alone[50] / 4 and alone[50] < alone[0] / 2
    return alone


def expect_undisturbed(text, undisturbed):
    found = losses(text)
    assert list(found) == STEPS, text
    for step, values in found.items():  # twice where one rank had finished a step, and the next that prints had not
        assert values == pytest.approx([undisturbed[step]] * len(values), rel=1e-3), text


# Rank LATE hears of the loss in step 49 already, which the others have finished: they are an update ahead of it.
LATE = """
import os, runpy, sys
import unisono, unisono.distributed as dist
real, calls = dist.all_reduce_coalesced, []

def all_reduce_coalesced(tensors, **options):
    real(tensors, **options)
    calls.append(1)
    if len(calls) == 50:
        raise unisono.PeerLostError("somebody is lost")

if os.environ["RANK"] == os.environ["LATE"]:
    dist.all_reduce_coalesced = all_reduce_coalesced
sys.argv[0] = os.environ["EXAMPLE"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize("lost, late, step", [(1, 2, 50), pytest.param(1, 0, 49, marks=is_long), pytest.param(0, None, 50, marks=is_long)])
def test_those_who_are_left_go_on_together(undisturbed, tmp_path, lost, late, step):
    """From where the first of them is, also if another is behind it."""
    program = tmp_path / "late.py"
    program.write_text(LATE)
    done = jobs.run(jobs.command(), "run", "-n", 3, "--keep-going", "--env", f"LATE={late}", "--env", f"EXAMPLE={SURVIVE}",
                    sys.executable, program, "--lose-rank", lost, "--result", tmp_path / "model.pt")
    assert done.returncode == 128 + 9, jobs.explain(done)  # that of the rank that was lost, for no other failed
    left = [rank for rank in range(3) if rank != lost]
    told = re.findall(r"^\[(\d)\] rank \1: ranks (.*) go on at step (\d+)$", done.stdout, re.MULTILINE)
    assert sorted(told) == [(str(rank), str(left), str(step)) for rank in left], jobs.explain(done)
    assert re.search(rf"^\[(\d)\] rank \1: rank {lost} \(pid \d+\) was killed", done.stderr, re.MULTILINE), jobs.explain(done)
    assert "Traceback" not in done.stderr, jobs.explain(done)
    expect_undisturbed(done.stdout, undisturbed)
    assert (tmp_path / "model.pt").exists()


# Whoever would kill itself cuts its machine off instead.
CUT = """
import json, os, runpy, subprocess, sys
os.kill = lambda *_: subprocess.run(json.loads(os.environ["CUT"]), check=True)
sys.argv[0] = os.environ["EXAMPLE"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def three(tmp_path):
    made = namespaces.Machines(tmp_path, 3)
    yield made
    made.close()


@needs_machines
@pytest.mark.parametrize("machine", [2, pytest.param(0, marks=is_long)])
def test_two_machines_go_on_without_the_third(undisturbed, three, tmp_path, machine):
    for rank in range(6):
        three.python(rank // 2, "-c", CUT, "--lose-rank", 2 * machine, "--result", tmp_path / f"model{rank}.pt", RANK=str(rank), WORLD_SIZE="6",
                     MASTER_ADDR="10.77.0.1", MASTER_PORT="29500", CUT=json.dumps(three.line_that_cuts_off(machine)), EXAMPLE=str(SURVIVE))
    done = three.wait()
    explained = "\n".join(map(jobs.explain, done))
    lost = [2 * machine, 2 * machine + 1]
    left = [rank for rank in range(6) if rank not in lost]
    assert [each.returncode for each in done] == [3 if rank in lost else 0 for rank in range(6)], explained
    for rank in left:
        assert f"rank {rank}: ranks {left} go on at step 50\n" in done[rank].stdout, explained
        assert re.search(rf"rank {rank}: rank [{lost[0]}{lost[1]}] .* is silent: its machine, with ranks {lost[0]}, {lost[1]},", done[rank].stderr), explained
    for rank in lost:
        assert re.search(rf"rank {rank} ends: .*this may be the smaller side", done[rank].stderr), explained
        assert "go on" not in done[rank].stdout, explained
    assert all("Traceback" not in each.stderr for each in done), explained
    expect_undisturbed("".join(each.stdout for each in done), undisturbed)
    assert list(tmp_path.glob("*.pt")) == [tmp_path / f"model{left[0]}.pt"]


def expect_restarted(done, ranks, undisturbed):
    assert done.returncode == 0, jobs.explain(done)
    assert f"{ranks} ranks go on at step 41\n" in done.stdout, jobs.explain(done)
    expect_undisturbed(done.stdout, undisturbed)


def test_torchrun_goes_on_from_the_checkpoint(undisturbed, tmp_path):
    done = jobs.run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=3", RESTART,
                    "--checkpoint", tmp_path / "checkpoint.pt", "--lose-rank", 1)
    assert re.search(r"PeerLostError: rank 1 \(pid \d+\) was killed", done.stderr), jobs.explain(done)
    expect_restarted(done, 2, undisturbed)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def torchrun_on(machines, nodes, conf, *line, **variables):
    for machine in range(len(machines.holders)):
        machines.python(machine, "-m", "torch.distributed.run", f"--nnodes={nodes}", "--nproc-per-node=2", "--max-restarts=3", "--rdzv-backend=c10d",
                        "--rdzv-endpoint=10.77.0.1:29400", "--rdzv-id=7", f"--local-addr={namespaces.ADDRESSES[machine]}",
                        f"--rdzv-conf=is_host={machine == 0}{conf}", *line, **variables)
    return machines.started


@is_long
@needs_machines
def test_torchrun_on_two_machines(undisturbed, tmp_path):
    two = namespaces.Machines(tmp_path)
    try:
        torchrun_on(two, 2, "", RESTART, "--checkpoint", tmp_path / "checkpoint.pt", "--lose-rank", 3)
        first, second = two.wait()
        assert second.returncode == 0, jobs.explain(second)
        expect_restarted(first, 4, undisturbed)
    finally:
        two.close()


@is_long
@needs_machines
def test_torchrun_goes_on_without_the_third_machine(undisturbed, three, tmp_path):
    """What becomes of the agent that was cut off is torchrun's to say; it is ended with its machine."""
    program = tmp_path / "cut.py"
    program.write_text(CUT)
    soon = ",last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=3"
    agents = torchrun_on(three, "2:3", soon, program, "--checkpoint", tmp_path / "checkpoint.pt", "--lose-rank", 4,
                         CUT=json.dumps(three.line_that_cuts_off(2)), EXAMPLE=str(RESTART))
    cut_off = agents.pop()
    first, second = three.wait()
    three.started = [cut_off]
    assert second.returncode == 0, jobs.explain(second)
    expect_restarted(first, 4, undisturbed)
