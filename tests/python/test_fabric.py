"""What a user is told about UCX between hosts: `unisono doctor --fabric`, and programs where it cannot be had."""
import json
from pathlib import Path

import jobs

JOB = Path(__file__).resolve().parent / "job_sum.py"
ASKED_FOR = {"UNISONO_TRANSPORT": "ucx", "UNISONO_FABRIC": "trusted"}


def run_job(**variables):
    return jobs.run(jobs.command(), "run", "-n", 2, "--pretend-hosts", "1,1", jobs.sys.executable, JOB, env=jobs.environment(**variables))


def test_a_library_that_is_not_there_is_done_without():
    done = run_job(**ASKED_FOR, UNISONO_UCX_LIBRARY="/nowhere/libucp.so.0")
    assert done.returncode == 0 and done.stdout.count(": 11") == 2, jobs.explain(done)
    for part in ("/nowhere/libucp.so.0", "libucx0", "pip install libucx-cu12", "TCP carries what goes to other hosts"):
        assert done.stderr.count(part) >= 2, jobs.explain(done)


def test_the_library_of_a_package_is_found(tmp_path):
    """PyPI's libucx-cu12 has it in its folder lib."""
    folder = tmp_path / "libucx" / "lib"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "libucp.so.0").write_text("no library")
    done = run_job(**ASKED_FOR, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0 and f"{folder}/libucp.so.0: file too short" in done.stderr, jobs.explain(done)


def test_nothing_is_said_where_nobody_asked():
    done = run_job(UNISONO_FABRIC="trusted", UNISONO_UCX_LIBRARY="/nowhere/libucp.so.0")
    assert done.returncode == 0 and "UCX" not in done.stderr, jobs.explain(done)


def test_a_fabric_that_is_not_trusted_is_an_error():
    done = run_job(UNISONO_TRANSPORT="ucx")
    assert done.returncode != 0 and "UNISONO_FABRIC=trusted" in done.stderr, jobs.explain(done)


def test_a_listener_for_anybody_is_an_error():
    done = run_job(**ASKED_FOR, UCX_TLS="tcp,self")
    assert done.returncode != 0 and "UCX_TLS=tcp,self names UCX's tcp" in done.stderr, jobs.explain(done)


def test_the_doctor_shows_what_there_is_and_how_to_measure():
    done = jobs.run(jobs.command(), "doctor", "--fabric", env=jobs.environment(**ASKED_FOR))
    assert done.returncode == 0 and "fabric" in done.stdout and "To measure it" in done.stdout, jobs.explain(done)
    done = jobs.run(jobs.command(), "doctor", "--fabric", "--json")
    assert [row["name"] for row in json.loads(done.stdout)["hosts"][0]["checks"]] == ["settings", "locked_memory", "engines", "fabric"]
