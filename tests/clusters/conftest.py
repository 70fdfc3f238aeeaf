"""Two machines, which are network namespaces, and the programs of this folder built for them. What is missing is a reason to skip: `make clusters` brings it."""
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


@pytest.fixture
def in_place_of_ssh(machines, tmp_path):
    """Makes the script that a launcher is given for ssh: `script host words of a command` runs them on that machine, with more folders in PATH."""

    def made(folders=""):
        script = tmp_path / "in-place-of-ssh"
        cases = "".join(f"{name}) pid={holder.pid};; " for name, holder in zip(("one", "two"), machines.holders))
        path = f"export PATH={folders}:$PATH\n" if folders else ""
        script.write_text(f'#!/bin/sh\nhost=$1; shift\ncase $host in {cases}*) exit 255;; esac\n{path}exec nsenter -t $pid -n -u sh -c "$*"\n')
        script.chmod(0o755)
        return script

    return made


def said_by(process):
    """Status, the lines of stdout sorted, stderr."""
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, sorted(stdout.splitlines()), stderr


def sums(word, total, times=1):
    return sorted([f"rank {rank} of 4: {total} by {word}" for rank in range(4)] * times)
