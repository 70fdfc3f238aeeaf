"""The name "unisono" is known to torch.distributed in every process that imports torch: nothing of ours is imported by the programs here."""
import importlib.metadata
import subprocess
import sys

import jobs
import pytest

pytestmark = [pytest.mark.skipif(not jobs.has("torch"), reason="torch is not installed here"),
              pytest.mark.skipif(not [one for one in importlib.metadata.entry_points(group="torch.backends") if one.name == "unisono"],
                                 reason="the package was not installed by pip, which makes entry points")]

JOB = """
import sys, torch, torch.distributed as dist
assert not any(name == "unisono" or name.startswith("unisono.") for name in sys.modules), "it is loaded when it is used"
dist.init_process_group("unisono")
data = torch.full((3,), 10.0 ** dist.get_rank())
dist.all_reduce(data)
sys.stdout.write(f"{dist.get_backend()} {data[0]:.0f}\\n")
dist.destroy_process_group()
"""


def run(source, **variables):
    return subprocess.run([sys.executable, "-c", source], env={**jobs.environment(), **variables}, capture_output=True, text=True, timeout=jobs.MAY_TAKE_S)


def test_a_job_names_it_and_imports_nothing(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(JOB)
    done = jobs.run(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script)
    assert done.returncode == 0 and done.stdout.splitlines() == ["unisono 11"] * 2, jobs.explain(done)


def test_spawned_processes_know_it():
    done = run("""
import os, torch, torch.distributed as dist, torch.multiprocessing as processes
def rank_of(rank, port):
    dist.init_process_group("cpu:unisono", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    data = torch.ones(1)
    dist.all_reduce(data)
    assert data.item() == 2
    dist.destroy_process_group()
if __name__ == "__main__":
    import socket
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        processes.start_processes(rank_of, (held.getsockname()[1],), 2, start_method="fork")
    print("done")
""")
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_gloo_stays_the_default():
    done = run("import torch.distributed as dist\nprint(dist.Backend.default_device_backend_map['cpu'])")
    assert (done.returncode, done.stdout) == (0, "gloo\n"), done.stderr


def test_a_backend_that_cannot_be_loaded_says_so_when_a_group_is_made(tmp_path):
    """And not when torch is imported, which would fail with it."""
    (tmp_path / "unisono").mkdir()
    (tmp_path / "unisono" / "__init__.py").write_text("raise ImportError('this package is broken')")
    done = run("import torch, torch.distributed as dist\nprint('imported', flush=True)\ndist.init_process_group('unisono', store=dist.HashStore(), rank=0, world_size=1)",
               PYTHONPATH=str(tmp_path))
    assert done.returncode != 0 and done.stdout == "imported\n" and "this package is broken" in done.stderr, done.stderr


def test_torchs_own_switch_leaves_it_out():
    done = run("import torch.distributed as dist\nprint(hasattr(dist.Backend, 'UNISONO'))", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
