"""Programs on two machines, two ranks each, as on one: torchrun and its rendezvous, tcp://, env://, both dialects, the examples."""
import re

import jobs
import machines as namespaces
import pytest

pytestmark = pytest.mark.skipif(bool(namespaces.cannot_be_made()), reason=namespaces.cannot_be_made() or "can be made")
needs_backend = pytest.mark.skipif(not jobs.has("torch") or not jobs.has("unisono.torch"), reason="unisono.torch is not here")
EXAMPLES = jobs.ROOT / "examples"
HERE = jobs.ROOT / "tests" / "python"


@pytest.fixture
def two(tmp_path):
    made = namespaces.Machines(tmp_path)
    yield made
    made.close()


def losses(done):
    assert all(each.returncode == 0 for each in done), "\n".join(map(jobs.explain, done))
    return [float(line.split()[-1]) for each in done for line in each.stdout.splitlines() if re.search(r"step +\d+: loss", line)]


STATIC = ["--master-addr=10.77.0.1", "--master-port=29500"]
C10D = ["--rdzv-backend=c10d", "--rdzv-endpoint=10.77.0.1:29400", "--rdzv-id=7"]


@needs_backend
@pytest.mark.parametrize("program, rendezvous", [(EXAMPLES / "ddp.py", STATIC), (HERE / "job_sharded.py", C10D)], ids=["ddp, static", "fsdp2, c10d"])
def test_torchrun_trains_as_on_one_machine(two, program, rendezvous):
    """Nothing is set but the secret."""
    for machine, address in enumerate(namespaces.ADDRESSES[:2]):
        own = [f"--node-rank={machine}"] if rendezvous is STATIC else [f"--local-addr={address}", f"--rdzv-conf=is_host={machine == 0}"]
        two.python(machine, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2", *own, *rendezvous, program)
    there = losses(two.wait())
    here = losses([jobs.unisono_run(4, program)])
    assert len(here) >= 6 and there == pytest.approx(here, abs=2e-6)


def on_each_rank(two, *line, **variables):
    """Two ranks on each machine, with the variables of env://; what each said, by rank."""
    for rank in range(4):
        two.python(rank // 2, *line, RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="10.77.0.1", MASTER_PORT="29500", **variables)
    done = two.wait()
    assert all(each.returncode == 0 for each in done), "\n".join(map(jobs.explain, done))
    return [each.stdout for each in done]


@pytest.mark.parametrize("example", ["tour.py", "tensor_parallel_comm_func.py", pytest.param("tensor_parallel.py", marks=needs_backend)])
def test_examples_say_the_same_as_on_one_machine(two, example):
    there = on_each_rank(two, EXAMPLES / example)
    here = jobs.unisono_run(4, EXAMPLES / example)
    assert here.returncode == 0, jobs.explain(here)
    said = re.sub(r"^\[\d\] ?", "", here.stdout, flags=re.MULTILINE)
    assert sorted("".join(there).splitlines()) == sorted(said.splitlines())


def test_agents_of_torchrun_that_count_restarts_differently(two):
    """As where a rank of the second machine has died: the first one's agent ends its ranks for that, and counts no restart."""
    job = {"TORCHELASTIC_RUN_ID": "7", "GROUP_WORLD_SIZE": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500",
           "UNISONO_STORE": "10.77.0.1:29600", "UNISONO_JOIN_TIMEOUT": "20"}
    for rank in range(4):
        two.python(rank // 2, HERE / "job_sum.py", RANK=str(rank), TORCHELASTIC_RESTART_COUNT=str(rank // 2), **job)
    done = two.wait()
    assert [each.stdout for each in done] == [f"rank {rank} of 4, restart {rank // 2}: 1111\n" for rank in range(4)], "\n".join(map(jobs.explain, done))


MEETING = """
import os, numpy
import unisono.distributed as dist
rank = int(os.environ.pop("RANK"))
for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
    os.environ.pop(name)
store = dist.TCPStore("10.77.0.1", 29501, is_master=rank == 0, wait_for_workers=False)
for way in ({"init_method": "tcp://10.77.0.1:29502"}, {"store": store}, {"store": dist.PrefixStore("part", store)}):
    dist.init_process_group(rank=rank, world_size=4, timeout=60, **way)
    dist.all_reduce(data := numpy.full(1000, rank + 1.0))
    dist.barrier()
    dist.destroy_process_group()
    print(data[999])
store.set(f"done {rank}", "")
if rank == 0:
    store.wait([f"done {other}" for other in range(4)])
"""


def test_addresses_and_stores_in_the_program(two):
    assert on_each_rank(two, "-c", MEETING) == ["10.0\n" * 3] * 4


POISONED = """
import datetime, os, sys, time
import torch.distributed as torch
import unisono, unisono.distributed as dist
rank = int(os.environ["RANK"])
store = torch.TCPStore("10.77.0.1", 29501, is_master=rank == 0, wait_for_workers=False, timeout=datetime.timedelta(seconds=60))
if rank == 0:
    begun = time.monotonic()
    try:
        dist.init_process_group(store=store, rank=0, world_size=2, timeout=30)
    except unisono.Error as error:
        print(type(error).__name__, error)
    print(time.monotonic() - begun < 5)
    store.get("done")
elif rank == 1:
    store.wait(["unisono/world/1/name"])
    while not (seats := [key for key in map(lambda key: key.decode() if isinstance(key, bytes) else key, store.list_keys()) if key.endswith("seats/0")]):
        pass
    store.set(seats[0][:-1] + "1", b"\\xff" * (8 << 20))
    store.set("done", "")
"""


@needs_backend
def test_noise_in_torchs_store_is_an_error_in_time(two):
    """Written where the agent of the other machine would say who is there."""
    said = on_each_rank(two, "-c", POISONED)
    assert said[0].startswith("InitError") and "something else than what an agent says of rank 1" in said[0] and said[0].endswith("True\n"), said
