"""Two machines, and the programs of this folder built for them. What a machine lacks is a reason to skip: `tools/setup/dependencies clusters` brings it."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import machines as machines_of_tests  # noqa: E402

BUILD = Path(os.environ.get("UNISONO_BUILD_DIRECTORY", ROOT / "build" / "release"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """The path of each program; `beside_mpi` alone where MPI's compiler is missing."""
    folder = tmp_path_factory.mktemp("programs")
    source = ROOT / "tests" / "clusters" / "beside_mpi.c"
    flags = [f"-I{ROOT / 'include'}", str(source), f"-L{BUILD}", "-lunisono", f"-Wl,-rpath,{BUILD}"]
    built = {"plain": folder / "plain"}
    subprocess.run(["cc", "-o", built["plain"], *flags], check=True)
    if shutil.which("mpicc"):
        built["with_mpi"] = folder / "with_mpi"
        subprocess.run(["mpicc", "-DWITH_MPI", "-o", built["with_mpi"], *flags], check=True)
    return built


@pytest.fixture
def machines(tmp_path):
    why_not = machines_of_tests.cannot_be_made()
    if why_not:
        pytest.skip(why_not)
    made = machines_of_tests.Machines(tmp_path)
    yield made
    made.close()
