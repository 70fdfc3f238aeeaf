"""`unisono run --hosts` over a real sshd on two machines."""
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, NOTHING_LEFT_WITHIN_S, said_by
from openssh import PROGRAMS, SSHD
from waiting import wait_until

missing = [name for name in PROGRAMS if not shutil.which(name)] + ([] if os.path.exists(SSHD) else ["sshd"])
pytestmark = pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed (Debian: openssh-server)")
# Ranks that say that they are there, and then do nothing for a time that no other process here waits for.
WAITS = "echo there; exec sleep 4711.5"
STUBBORN = 'trap "" TERM INT; echo there; while :; do sleep 4711.5; done'


def sleepers():
    return subprocess.run(["pgrep", "-f", "^sleep 4711.5|^[^ ]*unisono run --agent"], capture_output=True, text=True).stdout.split()


def all_there(process, ranks=4):
    for _ in range(ranks):
        assert process.stdout.readline().endswith("there\n")


def nothing_is_left():
    assert wait_until(lambda: not sleepers(), NOTHING_LEFT_WITHIN_S), sleepers()


def test_a_program_meets_itself_on_two_hosts(run, programs):
    status, lines, errors = said_by(run("--hosts", "one:2,two:2", "--", programs["plain"], "twice"))
    assert (status, lines) == (0, sorted(f"[{rank}] rank {rank} of 4: 10 by Unisono" for rank in range(4) for _ in range(2))), errors


def test_a_hostfile_is_as_good(run, programs, tmp_path):
    (tmp_path / "hosts").write_text("# the two\none slots=3\n\ntwo   # with one\n")
    status, lines, errors = said_by(run("--hostfile", tmp_path / "hosts", "--", programs["plain"], "alone"))
    assert (status, len(lines)) == (0, 4), errors


def test_folder_environment_and_input_go_along(run, tmp_path):
    process = run("--hosts", "one:1,two:1", "--env", "GREETING=good day", "--", "sh", "-c", 'echo "$RANK $LOCAL_RANK $(hostname) $PWD $GREETING $OTHER"; cat', input=subprocess.PIPE, OTHER="two words")
    stdout, errors = process.communicate("line\n" * 50_000, timeout=60)
    lines = sorted(set(stdout.splitlines()))
    assert process.returncode == 0, errors
    assert lines == ["[0] 0 0 one " + os.getcwd() + " good day two words", "[0] line", "[1] 1 0 two " + os.getcwd() + " good day two words"]
    assert stdout.count("[0] line") == 50_000


def test_ranks_have_a_secret_that_is_nowhere_else(run, machines):
    check = f"cat /proc/$$/environ /proc/$PPID/environ | tr '\\0' '\\n' | grep -c '^UNISONO_SECRET='; {BUILD}/unisono secret check"
    status, lines, errors = said_by(run("--hosts", "one:1,two:1", "--", "sh", "-c", check))
    assert status == 0, errors
    assert [line for line in lines if "0" == line[-1]] == ["[0] 0", "[1] 0"] and sum("descriptor" in line for line in lines) == 2, lines


def test_the_rank_that_fails_is_named_and_ends_the_rest(run):
    status, lines, errors = said_by(run("--hosts", "one:2,two:2", "--", "sh", "-c", f'[ $RANK = 3 ] && {{ echo bad; exit 7; }}; {WAITS}'))
    assert status == 7 and "on host two) exited with status 7" in errors and "its last lines:\n    bad" in errors, errors
    assert errors.count("unisono run:") == 1, errors
    nothing_is_left()


def test_a_rank_killed_by_a_signal_gives_the_status_of_a_shell(run):
    status, lines, errors = said_by(run("--hosts", "one:1,two:1", "--", "sh", "-c", f"[ $RANK = 0 ] && kill -9 $$; {WAITS}"))
    assert status == 137 and "SIGKILL" in errors, errors


def test_restarts_say_who_failed_and_how_often(run):
    status, lines, errors = said_by(run("--hosts", "one:1,two:1", "--restarts", "2", "--", "sh", "-c", f"[ $RANK = 1 ] && exit 5; {WAITS}"))
    assert status == 5 and errors.count("exited with status 5") == 3, errors
    for words in ("rank 1 failed; starting the job anew, 1 of 2", "rank 1 failed, 2 times now; starting the job anew, 2 of 2", "the job was started 3 times"):
        assert words in errors, errors


def test_a_job_that_comes_right_after_a_restart_succeeds(run, programs, tmp_path):
    once = tmp_path / "once"
    status, lines, errors = said_by(run("--hosts", "one:2,two:2", "--restarts", "3", "--", "sh", "-c", f'[ $RANK != 2 ] || mkdir {once} || exec {programs["plain"]} alone; [ $RANK = 2 ] && exit 9; exec {programs["plain"]} alone'))
    assert status == 0, errors
    assert sum("10 by Unisono" in line for line in lines) == 4, lines


@pytest.mark.parametrize("line, expected, words", [
    (["--hosts", "one:1,one:2"], 2, "is there twice"),
    (["--hosts", "one:0"], 2, "at least one"),
    (["--hosts", "one:2", "-n", "0"], 2, "at least one rank"),
    (["--hosts", "one:2", "-n", "3"], 2, "have 2 ranks in all"),
    (["--hosts", "-oProxyCommand=false:1"], 2, "names no host"),
    (["--hosts", "one,"], 2, "names no host"),
    (["--hostfile", "/nonexistent"], 2, "No such file"),
    (["--hosts", "one", "--restarts", "-1"], 2, "cannot be negative"),
    (["--hosts", "one:1,nowhere:1"], 255, "host nowhere cannot be used"),
    (["--hosts", "one:1,stranger:1"], 255, "Permission denied"),
])
def test_what_cannot_be_is_said_before_anything_starts(run, line, expected, words):
    status, lines, errors = said_by(run(*line, "--", "sh", "-c", WAITS))
    assert status == expected and words in errors and lines == [], errors
    nothing_is_left()


def test_a_program_that_is_not_there_is_named(run):
    status, lines, errors = said_by(run("--hosts", "one:1,two:1", "--", "/nonexistent/program"))
    assert status == 127 and "cannot start /nonexistent/program: there is no such file (on host " in errors, errors
    nothing_is_left()


def test_a_host_without_unisono_says_so(sshd, machines, tmp_path):
    here = tmp_path / "unisono"
    shutil.copy(BUILD / "unisono", here)
    subprocess.run(machines.on(1, "mount", "--bind", "/dev/null", here), check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UNISONO_")}
    line = machines.on(0, here, "run", "--ssh", " ".join(sshd.client()), "--hosts", "one:1,two:1", "--", "sh", "-c", WAITS)
    done = subprocess.run(line, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 127 and "unisono: not found" in done.stderr and "host two cannot be used" in done.stderr, done.stderr
    nothing_is_left()


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_reach_all_ranks(run, number, status):
    process = run("--hosts", "one:2,two:2", "--", "sh", "-c", WAITS)
    all_there(process)
    process.send_signal(number)
    assert process.wait(timeout=30) == status
    nothing_is_left()


def test_a_second_interrupt_kills(run):
    process = run("--hosts", "one:1,two:1", "--", "sh", "-c", 'trap "echo heard" INT; echo there; while :; do sleep 4711.5 & wait; done')
    all_there(process, ranks=2)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline().endswith("heard\n")  # the first is not lost in the second
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=10) == 130
    nothing_is_left()


@pytest.mark.parametrize("program", [WAITS, STUBBORN])
def test_nothing_is_left_when_the_launcher_is_killed(run, program):
    process = run("--hosts", "one:2,two:2", "--", "sh", "-c", program)
    all_there(process)
    process.kill()
    nothing_is_left()


def child_of(process, words):
    return int(subprocess.run(["pgrep", "-P", str(process.pid), "-f", words], capture_output=True, text=True).stdout.split()[0])


def test_nothing_is_left_when_an_ssh_is_killed(run):
    process = run("--hosts", "one:2,two:2", "--", "sh", "-c", WAITS)
    all_there(process)
    os.kill(child_of(process, "two exec sh"), signal.SIGKILL)
    status, lines, errors = said_by(process)
    assert status == 137 and "host two (ranks 2 to 3) is lost: ssh was killed by signal 9 (SIGKILL)" in errors, errors
    nothing_is_left()


def test_nothing_is_left_when_the_launcher_of_a_host_is_killed(run):
    process = run("--hosts", "one:2,two:2", "--", "sh", "-c", WAITS)
    all_there(process)
    listed = subprocess.run(["pgrep", "-f", "^[^ ]*unisono run --agent"], capture_output=True, text=True).stdout.split()
    agents = [int(pid) for pid in listed if Path(f"/proc/{pid}/comm").read_text() == "unisono\n"]  # and not what they have forked
    os.kill(agents[-1], signal.SIGKILL)
    status, lines, errors = said_by(process)
    assert status != 0 and "is lost" in errors, errors
    nothing_is_left()


def test_a_host_that_falls_silent_is_lost(run, machines):
    """Its own ranks cannot be reached: they go on until their sshd or the library notices, and are ended here by hand."""
    process = run("--hosts", "one:1,two:1", "--", "sh", "-c", WAITS)
    all_there(process, ranks=2)
    subprocess.run(machines.on(1, "ip", "link", "set", "wire", "down"), check=True)
    status, lines, errors = said_by(process)
    for pid in sleepers():
        os.kill(int(pid), signal.SIGKILL)
    assert status == 255 and "host two (rank 1) is lost" in errors, errors


def test_inside_slurm_it_says_the_line_for_srun(run):
    status, lines, errors = said_by(run("--hosts", "ada@one:2,two:2", "--env", "GREETING=good day", "--", "./program", "$x", SLURM_JOB_ID="17"))
    assert status == 2 and "srun --mpi=pmix --nodelist=one,two --nodes=2 --ntasks=4 --ntasks-per-node=2 env 'GREETING=good day' ./program '$x'" in errors, errors


def test_input_that_nobody_reads_holds_up_nothing(run):
    feeder = subprocess.Popen([sys.executable, "-c", "import sys\ntry:\n  while True: sys.stdout.write('x' * 65536)\nexcept OSError: pass"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process = run("--hosts", "one:1,two:1", "--", "sh", "-c", WAITS, input=feeder.stdout)
    all_there(process, ranks=2)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    feeder.kill()
    feeder.communicate()
    nothing_is_left()
