"""Starts ranks and has them go through cases together.

A case is a function `case_…(world)` of a module `cases_….py`; all ranks of a set run all cases of a module one after the other,
since starting a process with torch in it takes seconds. Run as a program, this file loads torch once and forks itself into ranks.
"""
import datetime
import faulthandler
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
CALLS_MAY_TAKE = datetime.timedelta(seconds=60)
ALL_MAY_TAKE_S = 300


class World:
    """What a case knows of the ranks it runs on."""

    def __init__(self, rank, size, folder):
        self.rank, self.size, self.folder = rank, size, folder
        self.ranks = list(range(size))
        self._gloo = None

    def join(self, backend="unisono", name="meeting", **options):
        import torch.distributed as dist

        options.setdefault("timeout", CALLS_MAY_TAKE)
        dist.init_process_group(backend, init_method=f"file://{self.folder}/{name}", rank=self.rank, world_size=self.size, **options)

    @property
    def gloo(self):
        """A group of all ranks for Gloo, made when first asked for, by all of them."""
        import torch.distributed as dist

        if self._gloo is None:
            self._gloo = dist.new_group(self.ranks, backend="gloo", timeout=CALLS_MAY_TAKE)
        return self._gloo


def cases_of(module):
    return [name for name in vars(module) if name.startswith("case_")]


def be_a_rank(module, rank, size, folder):
    import torch

    faulthandler.dump_traceback_later(ALL_MAY_TAKE_S - 30, exit=True)
    torch.set_num_threads(1)
    world = World(rank, size, folder)
    outcomes = {}
    if not getattr(module, "JOIN_THEMSELVES", False):
        world.join()
    for name in cases_of(module):
        try:
            getattr(module, name)(world)
            outcomes[name] = ""
        except Exception:
            outcomes[name] = f"rank {rank} of {size}\n{traceback.format_exc()}"
        Path(folder, f"outcomes-{rank}.json").write_text(json.dumps(outcomes))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def fork_ranks(size, folder):
    """The rank that this process is from here on; the first process stays, notes how each of them ends, and ends, too."""
    pids = []
    for rank in range(size):
        if pid := os.fork():
            pids.append(pid)
            continue
        log = os.open(f"{folder}/log-{rank}", os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        return rank
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    Path(folder, "statuses.json").write_text(json.dumps(statuses))
    os._exit(0)


def run(module_name, size, hosts=""):
    """What every case said on all ranks together, which may be on pretended hosts: nothing where all went well."""
    with tempfile.TemporaryDirectory(prefix="unisono-torch-") as folder:
        command = [sys.executable, __file__, module_name, str(size), folder]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore", **({"UNISONO_PRETEND_HOSTS": hosts} if hosts else {})}
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            errors = process.communicate(timeout=ALL_MAY_TAKE_S)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # it and its ranks
            errors = process.communicate()[1]
        said = {}
        path = Path(folder, "statuses.json")
        statuses = json.loads(path.read_text()) if path.exists() else ["killed"] * size
        for rank, status in enumerate(statuses):
            path = Path(folder, f"outcomes-{rank}.json")
            outcomes = json.loads(path.read_text()) if path.exists() else {}
            for name, text in outcomes.items():
                said[name] = said.get(name, "") + text
            if status != 0:
                log = Path(folder, f"log-{rank}")
                words = log.read_text()[-4000:] if log.exists() else errors[-4000:]
                said["the end"] = said.get("the end", "") + f"rank {rank} ended with status {status}:\n{words}\n"
        return said


def main(module_name, size, folder):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and a shell's & ignore it; what cases start inherits this
    sys.path.insert(0, str(HERE))
    module = importlib.import_module(module_name)
    import unisono.torch  # noqa: F401

    be_a_rank(module, fork_ranks(int(size), folder), int(size), folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
