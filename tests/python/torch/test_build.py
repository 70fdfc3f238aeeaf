"""The module is only loaded into the torch that it was built for."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("unisono.torch", exc_type=ImportError)
import unisono.torch  # noqa: E402

PACKAGE = Path(unisono.torch.__file__).parent


def import_from(folder):
    """What importing a copy of the package in this folder says."""
    program = f"import sys; sys.path.insert(0, {str(folder)!r}); import unisono.torch; print(unisono.torch.__file__)"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


@pytest.fixture
def copy(tmp_path):
    """The package without what was built: the Python files alone."""
    target = tmp_path / "unisono" / "torch"
    target.mkdir(parents=True)
    (tmp_path / "unisono" / "__init__.py").touch()
    for path in PACKAGE.glob("*.py"):
        shutil.copy(path, target)
    return target


def test_what_was_not_built_names_the_command(copy):
    said = import_from(copy.parent.parent)
    assert said.returncode != 0
    assert "ImportError" in said.stderr and f"{sys.executable} -m unisono.torch build" in said.stderr, said.stderr


def test_what_was_built_for_another_torch_is_not_loaded(copy):
    (copy / "_backend.json").write_text(json.dumps({"torch": "1.8.1"}))
    (copy / "_backend.so").write_text("not even a library")
    said = import_from(copy.parent.parent)
    assert said.returncode != 0
    assert "built for torch 1.8.1" in said.stderr and "-m unisono.torch build" in said.stderr, said.stderr


def test_the_command_runs_before_anything_was_built(copy):
    said = subprocess.run([sys.executable, "-m", "unisono.torch", "build", "--help"], cwd=copy.parent.parent,
                          capture_output=True, text=True, timeout=120)
    assert said.returncode == 0 and "--lib" in said.stdout, said.stderr


def test_the_command_says_what_it_misses(copy):
    said = subprocess.run([sys.executable, "-m", "unisono.torch", "build"], cwd=copy.parent.parent,
                          capture_output=True, text=True, timeout=120)
    assert said.returncode != 0 and "torch_backend/CMakeLists.txt is in none of" in said.stderr, said.stderr


def test_what_was_built_for_another_library_is_not_loaded(copy):
    record = json.loads((PACKAGE / "_backend.json").read_text())
    (copy / "_backend.json").write_text(json.dumps(record | {"library": "another"}))
    (copy / "_backend.so").write_text("not even a library")
    said = import_from(copy.parent.parent)
    assert said.returncode != 0
    assert "another version of the library" in said.stderr and "-m unisono.torch build" in said.stderr, said.stderr


@pytest.mark.parametrize("version, said", [("2.8.0", "torch 2.8.0 is too old: the backend is for torch 2.9 and newer"),
                                           ("2.99.0a0+git1", "torch 2.99.0a0+git1 is newer than 2.15, the newest that was tried; building all the same")])
def test_the_command_says_which_torch_it_is_for(copy, version, said):
    (copy.parent.parent / "sitecustomize.py").write_text(f"import torch\ntorch.__version__ = {version!r}\n")
    done = subprocess.run([sys.executable, "-m", "unisono.torch", "build"], cwd=copy.parent.parent, env={**os.environ, "PYTHONPATH": str(copy.parent.parent)},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and said in done.stderr, done.stderr
