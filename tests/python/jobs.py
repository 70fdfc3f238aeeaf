"""Starts jobs of several processes, with this interpreter, and returns what they said."""
import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAY_TAKE_S = 300
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_", "TORCHELASTIC_", "MS_", "OMPI_", "PMI",
             "SLURM_", "UNISONO_JOB")


def has(module):
    """Whether it can be imported. Folders of tests that are named like a framework are no modules."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return False
    return found is not None and found.origin is not None


def command():
    """The command `unisono`: the one that UNISONO_COMMAND names, or the one beside the interpreter."""
    named = os.environ.get("UNISONO_COMMAND")
    return named or shutil.which("unisono", path=str(Path(sys.executable).parent)) or shutil.which("unisono")


def environment(**added):
    """Ours without what a launcher may have left there, with this interpreter's folder first in PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, "PATH": path, "OMP_NUM_THREADS": "1", **added}


def run(*line, **options):
    """Runs a command line to its end: status, stdout and stderr as texts. Whoever takes too long is ended with its children."""
    environment_given = options.pop("env", None) or environment()
    process = subprocess.Popen([str(word) for word in line], env=environment_given, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options)
    try:
        stdout, stderr = process.communicate(timeout=MAY_TAKE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        stdout, stderr = process.communicate()
        stderr += f"\n(ended after {MAY_TAKE_S} s)"
    return subprocess.CompletedProcess(line, process.returncode, stdout, stderr)


@contextlib.contextmanager
def held_port():
    """A port that the kernel gives to nobody else meanwhile. Whoever sets SO_REUSEADDR, as servers do, may listen there."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield str(holder.getsockname()[1])


def unisono_run(ranks, script, *arguments, hosts="", keep_going=False):
    """`unisono run -n ranks python script arguments`, perhaps on pretended hosts: every line has the rank in front."""
    options = [*(("--pretend-hosts", hosts) if hosts else ()), *(["--keep-going"] if keep_going else [])]
    return run(command(), "run", "-n", ranks, *options, sys.executable, script, *arguments)


def explain(done):
    """What to print of a job that failed."""
    return f"status {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
