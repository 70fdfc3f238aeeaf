"""Two machines, which are network namespaces, and the programs of this folder built for them. What is missing is a reason to skip: `make clusters` brings it."""
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import machines as machines_of_tests  # noqa: E402
from openssh import Sshd  # noqa: E402
from slurm import Slurm  # noqa: E402
from waiting import wait_until  # noqa: E402

OPEN_MPI_5 = ROOT / ".venv-clusters"
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
def open_folder():
    """Any user can enter it; pytest's own folders are for one alone."""
    folder = Path(tempfile.mkdtemp(prefix="unisono-clusters-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def for_everybody(open_folder):
    """Makes a copy of a program that any user can run, with the library beside it, wherever the tree lies."""
    folder = open_folder

    def made(program):
        for library in BUILD.glob("libunisono.so*"):
            shutil.copy(library, folder, follow_symlinks=False)
        copy = folder / program.name
        copy.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={folder} exec {folder}/copied "$@"\n')
        shutil.copy(program, folder / "copied")
        copy.chmod(0o755)
        return copy

    return made


@pytest.fixture
def machines(tmp_path):
    why_not = machines_of_tests.cannot_be_made()
    if why_not:
        pytest.skip(why_not)
    made = machines_of_tests.Machines(tmp_path, own_run=True)
    yield made
    made.close()


@pytest.fixture
def in_place_of_ssh(machines, tmp_path):
    """Makes the script that a launcher is given for ssh: `script host words of a command` runs them on that machine, with more folders in PATH."""

    def made(folders=""):
        script = tmp_path / "in-place-of-ssh"
        cases = "".join(f"{name}) set -- {shlex.join(machines.on(number))} sh -c \"$*\";; " for number, name in enumerate(("one", "two")))
        path = f"export PATH={folders}:$PATH\n" if folders else ""
        script.write_text(f'#!/bin/sh\nhost=$1; shift\ncase $host in {cases}*) exit 255;; esac\n{path}exec "$@"\n')
        script.chmod(0o755)
        return script

    return made


@pytest.fixture
def mpirun(machines, in_place_of_ssh):
    def start(*line, **variables):
        names = ["UNISONO_SECRET_FILE", *variables]
        exported = [word for name in names for word in ("-x", name)]
        return machines.start(0, "mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", in_place_of_ssh(), "--mca", "oob_tcp_if_include", "wire", "--mca", "btl_tcp_if_include", "wire",
                              "--host", "one:2,two:2", *exported, *line, **variables)

    return start


@pytest.fixture
def prterun(machines, in_place_of_ssh):
    def start(launcher, *line):
        agent = in_place_of_ssh(OPEN_MPI_5 / "bin")
        return machines.start(0, OPEN_MPI_5 / "bin" / launcher, "--allow-run-as-root", "--prefix", OPEN_MPI_5, "--prtemca", "plm_ssh_agent", agent, "--prtemca", "prte_if_include", "wire",
                              "--host", "one:2,two:2", "-x", "UNISONO_SECRET_FILE", "-x", "PMIX_PREFIX", *line, PMIX_PREFIX=str(OPEN_MPI_5))

    return start


@pytest.fixture
def slurm(machines, open_folder):
    made = Slurm(machines, open_folder / "slurm")
    yield made
    made.close()


@pytest.fixture
def sshd(machines, tmp_path):
    made = Sshd(machines, tmp_path / "sshd")
    yield made
    made.close()


@pytest.fixture
def run(machines, sshd):
    """Starts `unisono run` on machine one, with signals as a shell's foreground has them, and input from a pipe where there is one."""

    def start(*line, input=None, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UNISONO_")} | {"HOME": "/nonexistent"} | variables
        command = machines.on(0, BUILD / "unisono", "run", "--ssh", " ".join(sshd.client()), *line)
        process = subprocess.Popen(command, env=environment, stdin=input or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        machines.started.append(process)
        return process

    return start


NOTHING_LEFT_WITHIN_S = 5


def running(program):
    """The process ids of a program of this folder that `waits`, on all machines."""
    return subprocess.run(["pgrep", "-f", f"^{program} waits"], capture_output=True, text=True).stdout.split()


def begun(process, program):
    """The job's ranks have added up once, and are in what ends only with them."""
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout.readline() for _ in range(4)), daemon=True)
    reader.start()
    reader.join(timeout=60)
    assert sorted(lines) == [line + "\n" for line in sums("Unisono", 10)]
    assert len(running(program)) == 4


def nothing_is_left_of(program):
    assert wait_until(lambda: not running(program), NOTHING_LEFT_WITHIN_S), running(program)


def said_by(process):
    """Status, the lines of stdout sorted, stderr."""
    stdout, stderr = process.communicate(timeout=30)
    return process.returncode, sorted(stdout.splitlines()), stderr


def sums(word, total, times=1):
    return sorted([f"rank {rank} of 4: {total} by {word}" for rank in range(4)] * times)
