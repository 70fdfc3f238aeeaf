"""The programs of README.md do what it says."""
import re

import jobs
import pytest


def program(name):
    text = (jobs.ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- test: {re.escape(name)} -->\n```python\n(.*?)```", text, re.S)[1]


@pytest.mark.parametrize("name", ["program.py", "with_torch.py"])
def test_prints_what_it_says(name, tmp_path):
    if name == "with_torch.py" and not jobs.has("torch"):
        pytest.skip("torch is not installed (TORCH=no)")
    (tmp_path / name).write_text(program(name), encoding="utf-8")
    done = jobs.unisono_run(4, tmp_path / name)
    assert done.returncode == 0, jobs.explain(done)
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] rank {rank}: 10" for rank in range(4)], jobs.explain(done)
