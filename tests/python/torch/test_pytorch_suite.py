"""The slice of PyTorch's own suite that runs every time; the rest is `pytorch_suite.py --all`."""
import subprocess
import sys

import pytest
import ranks

pytest.importorskip("unisono.torch", exc_type=ImportError)
pytest.importorskip("expecttest")


def test_slice():
    done = subprocess.run([sys.executable, str(ranks.HERE / "pytorch_suite.py")], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
