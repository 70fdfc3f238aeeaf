"""Tasks of Dask as ranks: each joins where its worker runs, as docs/clusters.md has it."""
import os
import socket
import subprocess

from test_ray import PACKAGES, PYTHON
import pytest

JOB = """
import sys, numpy
from distributed import Client, LocalCluster

def rank_of_a_job(rank, size, place):
    import unisono.distributed as dist
    dist.init_process_group(init_method=place, rank=rank, world_size=size)
    data = numpy.full(3, 10.0 ** rank)
    dist.all_reduce(data)
    dist.destroy_process_group()
    return float(data[0])

if __name__ == "__main__":
    with LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster, Client(cluster) as client:
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        for _ in range(2):  # the workers stay, and are ranks again
            ranks = [client.submit(rank_of_a_job, rank, 3, sys.argv[1], workers=[worker], pure=False) for rank, worker in enumerate(workers)]
            print(*client.gather(ranks))
"""


def test_a_job_in_three_workers(tmp_path):
    if not PACKAGES.joinpath("unisono").exists():
        pytest.skip("needs the package in .venv: make python")
    script = tmp_path / "job.py"
    script.write_text(JOB)
    with socket.socket() as held:  # by SO_REUSEADDR rank 0 may listen there, and the kernel gives the port to nobody else
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        done = subprocess.run([str(PYTHON), str(script), f"tcp://127.0.0.1:{held.getsockname()[1]}"], capture_output=True, text=True, timeout=120, cwd=tmp_path,
                              env={**os.environ, "PYTHONPATH": str(PACKAGES)})
    assert (done.returncode, done.stdout) == (0, "111.0 111.0 111.0\n" * 2), done.stderr[-4000:]
