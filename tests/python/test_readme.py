"""The programs of README.md do what it says."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(name):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- test: {re.escape(name)} -->\n```python\n(.*?)```", text, re.S)[1]


def command():
    """The launcher that was installed beside this interpreter, or the one of the build."""
    beside = Path(sys.executable).parent / "unisono"
    return str(beside) if beside.exists() else shutil.which("unisono") or str(ROOT / "build/python/unisono")


@pytest.mark.parametrize("name", ["program.py", "with_torch.py"])
def test_prints_what_it_says(name, tmp_path):
    if name == "with_torch.py":
        pytest.importorskip("torch", reason="torch is not installed (TORCH=no)")
    (tmp_path / name).write_text(program(name), encoding="utf-8")
    run = subprocess.run([command(), "run", "-n", "4", sys.executable, tmp_path / name], stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.split("\n"))[1:] == [f"[{rank}] rank {rank}: 10" for rank in range(4)], run.stdout
