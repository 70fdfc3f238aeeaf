"""Under `srun --mpi=pmix` on two machines nothing at all needs to be set: Slurm passes on where ranks meet, and munge hands out the job's secret."""
import os
import shutil
import signal

import pytest
from conftest import begun, nothing_is_left_of, said_by, sums
from slurm import PROGRAMS

missing = [name for name in PROGRAMS if not shutil.which(name)]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed (Debian: slurm-wlm)")
ORDINARY_USER = 65534


@pytest.mark.parametrize("order, times", [("alone", 1), ("twice", 2)])
def test_ranks_need_nothing(slurm, programs, order, times):
    status, lines, errors = said_by(slurm.srun("--mpi=pmix", programs["plain"], order))
    assert (status, lines) == (0, sums("Unisono", 10, times)), errors


def test_ranks_of_an_ordinary_user_need_nothing(slurm, programs, for_everybody):
    status, lines, errors = said_by(slurm.srun("--mpi=pmix", for_everybody(programs["plain"]), "twice", user=ORDINARY_USER))
    assert (status, lines) == (0, sums("Unisono", 10, times=2)), errors


@pytest.mark.parametrize("order", ["mpi-first", "mpi-last"])
def test_a_program_may_use_mpi_as_well(slurm, programs, order):
    if "with_mpi" not in programs:
        pytest.skip("mpicc is not installed (Debian: libopenmpi-dev)")
    status, lines, errors = said_by(slurm.srun("--mpi=pmix", programs["with_mpi"], order, OMPI_MCA_btl_tcp_if_include="wire"))
    by_mpi = [f"rank {rank}: 10 by MPI" for rank in range(4)]
    assert (status, lines) == (0, sorted(sums("Unisono", 10, times=2) + by_mpi)), errors


def test_without_pmix_every_rank_says_how_to_call_srun(slurm, programs):
    status, lines, errors = said_by(slurm.srun(programs["plain"], "alone"))
    assert lines == [] and errors.count("srun --mpi=pmix") == 4, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_srun_is_killed(slurm, programs, number):
    process = slurm.srun("--mpi=pmix", programs["plain"], "waits", 0)
    begun(process, programs["plain"])
    os.kill(process.pid, number)
    nothing_is_left_of(programs["plain"])


def test_nothing_is_left_when_what_started_the_ranks_of_a_machine_is_killed(slurm, programs):
    """A rank on the other machine that is in a call hears of the deaths; Slurm itself would leave it alone."""
    process = slurm.srun("--mpi=pmix", programs["plain"], "waits", 0)
    begun(process, programs["plain"])
    for pid in slurm.step_daemons(0):
        os.kill(pid, signal.SIGKILL)
    nothing_is_left_of(programs["plain"])
