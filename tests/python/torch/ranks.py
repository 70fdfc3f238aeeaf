"""Starts ranks and has them go through cases together.

A case is a function `case_…(world)` of a module `cases_….py`; all ranks of a set run all cases of a module one after the other,
since starting a process with torch in it takes seconds. Run as a program, this file is one rank.
"""
import datetime
import faulthandler
import importlib
import json
import os
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


def be_a_rank(module_name, rank, size, folder):
    faulthandler.dump_traceback_later(ALL_MAY_TAKE_S - 30, exit=True)
    sys.path.insert(0, str(HERE))
    module = importlib.import_module(module_name)
    import torch

    import unisono.torch  # noqa: F401

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


def run(module_name, size):
    """What every case said on all ranks together: nothing where all went well."""
    with tempfile.TemporaryDirectory(prefix="unisono-torch-") as folder:
        processes = []
        for rank in range(size):
            log = open(f"{folder}/log-{rank}", "w")
            command = [sys.executable, __file__, module_name, str(rank), str(size), folder]
            processes.append(subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYTHONWARNINGS": "ignore"}))
        statuses = []
        for process in processes:
            try:
                statuses.append(process.wait(ALL_MAY_TAKE_S))
            except subprocess.TimeoutExpired:
                process.kill()
                statuses.append("killed")
        said = {}
        for rank, status in enumerate(statuses):
            path = Path(folder, f"outcomes-{rank}.json")
            outcomes = json.loads(path.read_text()) if path.exists() else {}
            for name, text in outcomes.items():
                said[name] = said.get(name, "") + text
            if status != 0:
                log = Path(folder, f"log-{rank}").read_text()[-4000:]
                said["the end"] = said.get("the end", "") + f"rank {rank} ended with status {status}:\n{log}\n"
        return said


if __name__ == "__main__":
    be_a_rank(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
