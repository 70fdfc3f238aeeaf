"""Every program of examples/, started as its own text says, and what it prints."""
import re
from pathlib import Path

import jobs
import pytest

EXAMPLES = jobs.ROOT / "examples"
needs_torch = pytest.mark.skipif(not jobs.has("torch"), reason="torch is not installed here")
needs_backend = pytest.mark.skipif(not jobs.has("torch") or not jobs.has("unisono.torch"), reason="unisono.torch is not here")


def said(example, *arguments, ranks=2, hosts="", ends_well=True):
    """What every rank printed, as a list of lines a rank; where it `ends_well`, the example must also have left without an error."""
    done = jobs.unisono_run(ranks, EXAMPLES / example, *arguments, hosts=hosts)
    assert done.returncode == 0 or not ends_well, jobs.explain(done)
    return [re.findall(rf"^\[{rank}\] (.*)$", done.stdout, re.MULTILINE) for rank in range(ranks)]


def test_tour():
    everything, nothing = said("tour.py")
    rows = [line.split(None, 1)[1] for line in everything if re.match(r"[01] ", line)]
    assert [re.sub(r"\s{2,}", " | ", row.replace("[ ", "[").replace("0  1 10", "0 1 10")) for row in rows] == [
        "[0 1] | [10 12] | [10 12]",
        "[10 11] | [10 12] | [10 12]",
        "[0 1] | [0 1] [10 11] | [0 1 10 11]",
        "[10 11] | [0 1] [10 11] | [0 1 10 11]",
        "[0 1 2 3] | [10 12] | [10 12]",
        "[10 11 12 13] | [14 16] | [14 16]",
        "[0 1] | [10 12] | [10 12]",
        "[10 11] | [10 11] | [0 0]",
        "[0 1 2 3] | [0 1] | [0 1]",
        "(not looked at) | [2 3] | [2 3]",
    ]
    assert nothing == []


def test_tour_on_four_ranks():
    everything = said("tour.py", ranks=4)[0]
    assert sum(bool(re.match(r"[0-3] ", line)) for line in everything) == 5 * 4


@pytest.mark.parametrize("ranks", [2, 4])
def test_tensor_parallel_comm_func(ranks):
    lines = said("tensor_parallel_comm_func.py", ranks=ranks)
    for rank in range(ranks):
        parts = f"{1024 // ranks} of 1024 columns, {4 // ranks} of 4 samples"
        assert lines[rank][0] == f"rank {rank}: {parts}, gathered again: the same"
    assert lines[0][1].endswith("(right)")


@needs_torch
def test_tensor_parallel():
    for rank, lines in enumerate(said("tensor_parallel.py")):
        assert lines == [f"rank {rank}: 256 of 512 columns; result, gradient of the input, of the weights: right, right, right"]


def losses(lines):
    return [float(line.split()[-1]) for line in lines[0] if line.startswith("step ")]


@needs_backend
def test_ddp():
    lines = said("ddp.py")
    ours = losses(lines)
    assert len(ours) == 6 and ours[-1] < ours[0] / 2
    for rank in range(2):
        assert lines[rank][-1] == f"rank {rank}: 641 weights, the same on all 2 ranks"
    # Of Gloo only the losses are asked: once in some thousand runs it aborts after the last line, with Unisono or without. A thread of
    # Gloo that drops the tensors of its last call while the interpreter ends is ended by Python in the middle of a destructor.
    assert ours == losses(said("ddp.py", "--backend", "gloo", ends_well=False))


@needs_backend
def test_ddp_on_pretended_hosts():
    """Two ranks add up in one order wherever they are, so the losses are those of one host."""
    assert losses(said("ddp.py", hosts="1,1")) == losses(said("ddp.py"))
    lines = said("ddp.py", ranks=3, hosts="2,1")
    assert lines[2][-1] == "rank 2: 641 weights, the same on all 3 ranks"


def test_all_are_short_and_run():
    tests = Path(__file__).read_text() + Path(__file__).with_name("test_survive.py").read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in tests
        assert len(example.read_text().splitlines()) <= 80


def test_the_page_about_failures_shows_lines_of_the_example():
    page = (jobs.ROOT / "docs" / "failure_model.md").read_text()
    shown = re.search(r"### Going on after a loss.*?```python\n(.*?)```", page, re.DOTALL)[1].splitlines()
    example = (EXAMPLES / "survive.py").read_text().splitlines()
    assert len(shown) > 15 and [line for line in shown if line not in example] == []
