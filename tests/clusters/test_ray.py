"""Actors of Ray as ranks, by the backend that unisono.ray registers: on one machine, where Ray starts all of its own."""
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-clusters" / "bin" / "python"
PACKAGES = ROOT / ".venv" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"  # unisono, NumPy and torch
MAY_TAKE_S = 240

PROLOGUE = """
import os, numpy, ray, ray.util.collective as collective, torch
import unisono, unisono.ray
from ray.util.collective.types import ReduceOp

@ray.remote(num_cpus=0)
class Actor:
    def __init__(self):
        import unisono.ray  # registers the backend in this process, too
    def do(self, deed, *arguments):
        return deed(*arguments)

def start(count):
    return [Actor.remote() for _ in range(count)]
def all_of(actors, deed, *arguments):
    return ray.get([actor.do.remote(deed, rank, len(actors), *arguments) for rank, actor in enumerate(actors)])
def join(rank, size, name):
    collective.init_collective_group(size, rank, backend="unisono", group_name=name)
def leave(rank, size, name):
    collective.destroy_collective_group(name)

ray.init(num_cpus=2, namespace="unisono", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
"""


@pytest.fixture
def run():
    """Runs a driver to its end; whatever Ray has started ends with it."""
    if not PACKAGES.joinpath("unisono").exists():
        pytest.skip("needs the package in .venv: make python")

    def run(source):
        environment = {**{name: value for name, value in os.environ.items() if not name.startswith("UNISONO_TEST")}, "PYTHONPATH": str(PACKAGES), "RAY_USAGE_STATS_ENABLED": "0"}
        driver = subprocess.Popen([str(PYTHON), "-c", PROLOGUE + source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment)
        try:
            output, errors = driver.communicate(timeout=MAY_TAKE_S)
        finally:
            try:
                os.killpg(driver.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        assert driver.returncode == 0, errors[-6000:]
        return [line for line in output.splitlines() if "(raylet)" not in line]

    return run


def test_every_function(run):
    assert run("""
def calls(rank, size, name):
    said = []
    data = numpy.full(3, 10.0 ** rank)
    collective.allreduce(data, name)
    said.append(data[0])
    for op in (ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX):
        data = torch.full((3,), rank + 2.0)
        collective.allreduce(data, name, op)
        said.append(data[0].item())
    data = numpy.full(3, 10.0 ** rank)
    collective.reduce(data, 1, name)
    said.append(data[0])
    data = numpy.full(3, float(rank))
    collective.broadcast(data, 2, name)
    said.append(data[0])
    gathered = [numpy.zeros(2) for _ in range(size)]
    collective.allgather(gathered, numpy.full(2, float(rank)), name)
    said += [one[0] for one in gathered]
    part = numpy.zeros(2)
    collective.reducescatter(part, [numpy.full(2, float(10 * index + rank)) for index in range(size)], name)
    said.append(part[0])
    data = numpy.full(2, float(rank))
    if rank == 0: collective.send(data, 2, name)
    if rank == 2: collective.recv(data, 0, name)
    said.append(data[0])
    collective.barrier(name)
    return [float(one) for one in said]
actors = start(3)
order = [2, 0, 1]
collective.create_collective_group(actors, 3, order, backend="unisono", group_name="all")
print(*[said for _, said in sorted(zip(order, ray.get([actor.do.remote(calls, rank, 3, "all") for actor, rank in zip(actors, order)])))], sep="\\n")
""") == [f"[111.0, 24.0, 2.0, 4.0, {one}, 2.0, 0.0, 1.0, 2.0, {part}, {got}]" for one, part, got in ((1.0, 3.0, 0.0), (111.0, 33.0, 1.0), (100.0, 63.0, 0.0))]


def test_several_groups_and_groups_made_again(run):
    assert run("""
def total(rank, size, name):
    data = numpy.full(1, 10.0 ** rank)
    collective.allreduce(data, name)
    return data[0]
actors = start(3)
for _ in range(2):
    all_of(actors, join, "all")
    two = [actors[2], actors[0]]  # in another order
    for _ in range(2):
        all_of(two, join, "two")
        print(*all_of(two, total, "two"), *all_of(actors, total, "all"))
        all_of(two, leave, "two")
    all_of(actors, leave, "all")
""") == ["11.0 11.0 111.0 111.0 111.0"] * 4


def test_an_actor_that_dies_is_named(run):
    assert run("""
def call(rank, size, name):
    data = numpy.zeros(100000)
    try:
        while True: collective.allreduce(data, name)
    except unisono.PeerLostError as error:
        return "rank 1" in str(error)
def die(rank, size, name):
    for _ in range(100): collective.allreduce(numpy.zeros(100000), name)
    os._exit(9)
actors = start(3)
all_of(actors, join, "all")
waiting = [actors[rank].do.remote(call, rank, 3, "all") for rank in (0, 2)]
actors[1].do.remote(die, 1, 3, "all")
print(*ray.get(waiting, timeout=60))
""") == ["True True"]


def test_groups_of_different_worlds_are_told_what_to_do(run):
    (said,) = run("""
def fails(rank, size, name):
    try: join(rank, size, name)
    except unisono.Error as error: return str(error)
actors = start(4)
all_of(actors[:2], join, "left"), all_of(actors[2:], join, "right")
print(all_of([actors[1], actors[2]], fails, "across")[0])
""")
    assert "'across' are in different worlds" in said and "begin with one that has all of them" in said


def test_members_without_a_world_are_told_so_at_once(run):
    (said,) = run("""
def fails(rank, size, name):
    try: join(rank, size, name)
    except unisono.Error as error: return str(error)
actors = start(3)
all_of(actors[:2], join, "two")
print(all_of([actors[1], actors[2]], fails, "across")[1])
""")
    assert "in different worlds, or some in none" in said
