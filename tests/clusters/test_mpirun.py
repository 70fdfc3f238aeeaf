"""Under mpirun on two machines nothing says where ranks meet: the launcher passes it on (PMIx). """
import os
import shutil
import signal
import subprocess
import time

import pytest
from conftest import begun, nothing_is_left_of, said_by, sums

pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed (Debian: openmpi-bin)")


def test_ranks_meet_by_themselves(mpirun, programs):
    status, lines, errors = said_by(mpirun(programs["plain"], "alone"))
    assert (status, lines) == (0, sums("Unisono", 10)), errors


def test_a_second_world_meets_anew(mpirun, programs):
    status, lines, errors = said_by(mpirun(programs["plain"], "twice"))
    assert (status, lines) == (0, sums("Unisono", 10, times=2)), errors


@pytest.mark.parametrize("order", ["mpi-first", "mpi-last"])
def test_a_program_may_use_mpi_as_well(mpirun, programs, order):
    if "with_mpi" not in programs:
        pytest.skip("mpicc is not installed (Debian: libopenmpi-dev)")
    status, lines, errors = said_by(mpirun(programs["with_mpi"], order))
    by_mpi = [f"rank {rank}: 10 by MPI" for rank in range(4)]
    assert (status, lines) == (0, sorted(sums("Unisono", 10, times=2) + by_mpi)), errors


def test_a_store_of_the_users_goes_before(mpirun, programs):
    status, lines, errors = said_by(mpirun(programs["plain"], "alone", UNISONO_STORE="10.77.0.1:29511", PMIX_PREFIX="/nonexistent"))
    assert (status, lines) == (0, sums("Unisono", 10)), errors


def test_ports_are_those_of_the_range(mpirun, programs):
    status, lines, errors = said_by(mpirun(programs["plain"], "alone", UNISONO_PORT_RANGE="41000-41009"))
    assert (status, lines) == (0, sums("Unisono", 10)), errors


def test_without_a_secret_every_rank_is_told_what_to_do(mpirun, programs, machines, tmp_path):
    empty = tmp_path / "home"
    empty.mkdir()
    began = time.monotonic()
    process = mpirun("sh", "-c", f"unset UNISONO_SECRET_FILE; HOME={empty} {programs['plain']} alone || sleep 1")
    status, lines, errors = said_by(process)
    assert lines == [] and errors.count("there is no secret by which this job's ranks know each other") == 4, errors
    assert time.monotonic() - began < 10


def test_what_rank_0_cannot_do_is_said_by_all(mpirun, programs):
    line = f'[ "$OMPI_COMM_WORLD_RANK" != 0 ] || export UNISONO_SOCKET_IFNAME=nowhere; {programs["plain"]} alone || sleep 1'
    began = time.monotonic()
    status, lines, errors = said_by(mpirun("sh", "-c", line))
    assert lines == [] and errors.count("UNISONO_SOCKET_IFNAME") >= 4, errors
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("in_own_code", [0, 3])
def test_nothing_is_left_when_mpirun_is_killed(mpirun, programs, in_own_code):
    process = mpirun(programs["plain"], "waits", in_own_code)
    begun(process, programs["plain"])
    listed = subprocess.run(["pgrep", "-P", str(process.pid), "-x", "mpirun"], capture_output=True, text=True).stdout.split()
    os.kill(int(listed[0]) if listed else process.pid, signal.SIGKILL)
    nothing_is_left_of(programs["plain"])
