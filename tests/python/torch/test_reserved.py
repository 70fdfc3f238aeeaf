"""What torch reserves for its own backends serves ours also where torch puts a wrapper around each, which it decides when loaded."""
import os
import subprocess
import sys

import pytest

pytest.importorskip("unisono.torch", exc_type=ImportError)

PROGRAM = """
import datetime, torch, torch.distributed as dist, unisono.torch
dist.init_process_group("unisono", store=dist.HashStore(), rank=0, world_size=1)
backend = dist.group.WORLD._get_backend(torch.device("cpu"))
dist.monitored_barrier(timeout=datetime.timedelta(seconds=30))
assert dist.get_world_size(dist.split_group(split_ranks=[[0]])) == 1
dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=7))
assert getattr(backend, "wrapped_pg", backend).options._timeout.total_seconds() == 7
print("wrapped" if hasattr(backend, "wrapped_pg") else "plain")
dist.destroy_process_group()
"""


@pytest.mark.parametrize("level, kind", [("OFF", "plain"), ("DETAIL", "wrapped")])
def test_at_each_level_of_debugging(level, kind):
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "TORCH_DISTRIBUTED_DEBUG": level})
    assert (done.returncode, done.stdout.strip()) == (0, kind), done.stdout + done.stderr
