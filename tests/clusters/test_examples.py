"""One program, examples/tour.py, with no change under whatever starts it on two machines: it prints what it prints on one."""
import os
import shutil
import subprocess
import sys

import openssh
import pytest
import slurm as slurm_of_tests
from conftest import BUILD, OPEN_MPI_5, ROOT

TOUR = ROOT / "examples" / "tour.py"


@pytest.fixture(scope="session")
def said_on_one_machine():
    command = [BUILD / "unisono", "run", "-n", "4", "--no-prefix", "--", sys.executable, TOUR]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60).stdout


def under_mpirun(fixture):
    return fixture("mpirun")(sys.executable, TOUR) if shutil.which("mpirun") else None


def under_prterun(fixture):
    return fixture("prterun")("prterun", sys.executable, TOUR) if (OPEN_MPI_5 / "bin" / "prterun").exists() else None


def under_srun(fixture):
    return fixture("slurm").srun("--mpi=pmix", sys.executable, TOUR) if all(map(shutil.which, slurm_of_tests.PROGRAMS)) else None


def over_ssh(fixture):
    return fixture("run")("--no-prefix", "--hosts", "one:2,two:2", "--", sys.executable, TOUR) if os.path.exists(openssh.SSHD) else None


def by_hand(fixture):
    """On each machine its ranks, with the variables of env://."""
    machines = fixture("machines")
    place = {"WORLD_SIZE": "4", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29512"}
    return [machines.python(rank // 2, TOUR, RANK=str(rank), **place) for rank in range(4)][0]


@pytest.mark.parametrize("start", [under_mpirun, under_prterun, under_srun, over_ssh, by_hand])
def test_the_tour_is_the_same(start, request, said_on_one_machine):
    process = start(request.getfixturevalue)
    if process is None:
        pytest.skip("not installed here; `make clusters` installs it")
    stdout, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert stdout == said_on_one_machine
