"""A job for the tests of launchers: joins as it was started, adds up, and says what it is.

With a folder as its argument it fails once, the first time that it is run there: a restart then has to succeed.
"""
import os
import sys
from pathlib import Path

import numpy

import unisono.distributed as dist

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
data = numpy.full(3, 10.0 ** rank)
dist.all_reduce(data)
if len(sys.argv) > 1:
    first = not Path(sys.argv[1], f"rank-{rank}").exists()
    Path(sys.argv[1], f"rank-{rank}").touch()
    dist.barrier()  # so that every rank has been here before one fails
    if first and rank == size - 1:
        sys.exit(7)
    if first:
        dist.barrier()  # for which the last one does not come
restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "none")
sys.stdout.write(f"rank {rank} of {size}, restart {restart}: {data[0]:.0f}\n")  # at once: ranks share stdout
dist.destroy_process_group()
