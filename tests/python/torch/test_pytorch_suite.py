"""PyTorch's own suite with the backend unisono: a slice of it every time, all of it at 2 and 4 ranks with UNISONO_TEST_FULL=1."""
import os
import subprocess
import sys

import pytest
import ranks

pytest.importorskip("unisono.torch", exc_type=ImportError)
pytest.importorskip("expecttest")

FULL = bool(os.environ.get("UNISONO_TEST_FULL"))
LONGEST_S = 2 * 3600 if FULL else 1800


@pytest.mark.parametrize("size", [2, 4] if FULL else [2])
def test_suite(size):
    command = [sys.executable, str(ranks.HERE / "pytorch_suite.py"), "--ranks", str(size), *(["--all"] if FULL else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
