"""`unisono bench --through python`: what it measures, and what it refuses before any rank is started."""
import jobs
import pytest

from unisono import bench


def run(collective, *options):
    return jobs.run(jobs.command(), "bench", collective, "--through", "python", "--ranks", 2, *options)


@pytest.mark.parametrize("collective", sorted(bench._SUBJECTS))
def test_measures(collective):
    done = run(collective, "--sizes", "64,4K", "--repeats", 1, "--seconds", 0.001)
    assert done.returncode == 0, jobs.explain(done)
    head, columns, *rows = done.stdout.splitlines()
    assert head.startswith(f"{collective} through python on 2 ranks") and [row.split()[0] for row in rows] == ["64", "4096"]
    assert ("c++" in columns) == (collective == "all_reduce")


@pytest.mark.parametrize("collective", ["all", "scan", "send", "nonsense"])
def test_refuses(collective):
    done = run(collective)
    assert done.returncode != 0 and done.stdout == "", jobs.explain(done)
    names = ", ".join(bench._SUBJECTS)
    assert done.stderr.splitlines()[0] == f"collective {collective}: --through python measures one of {names}"
    assert "usage: unisono bench" not in done.stderr  # argparse's, of a rank
