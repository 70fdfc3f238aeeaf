"""Nothing accumulates in the backend: see growth.py in the folder above."""
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from oracle import spread

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from growth import CALLS, grown  # noqa: E402


def nothing_grows(kind):
    found = grown(kind, CALLS // 2, bytes_a_call=64, patience_s=20)  # torch's own memory comes and goes
    assert found == {}, found


def tensor(make, size=64):
    return make.watched(torch.ones(size))


def case_synchronous(world):
    def calls(make):
        dist.all_reduce(tensor(make))
        dist.all_gather([tensor(make) for _ in world.ranks], tensor(make))
        dist.all_reduce(make.watched(spread(torch.ones(64))))
        dist.barrier()

    nothing_grows(calls)


def case_asynchronous(world):
    def calls(make):
        work = dist.all_reduce(tensor(make), async_op=True)
        work.wait()
        assert work.result()[0][0] == world.size
        dist.all_reduce(make.watched(spread(torch.ones(64))), async_op=True).get_future().wait()
        dist.all_gather([tensor(make) for _ in world.ranks], tensor(make), async_op=True).wait()

    nothing_grows(calls)


def case_dropped_and_with_callbacks(world):
    def calls(make):
        dist.all_reduce(tensor(make), async_op=True)
        held = tensor(make)
        then = dist.all_reduce(held, async_op=True).get_future().then(lambda future: future.value()[0] + held)
        assert then.wait()[0] == 2 * world.size

    nothing_grows(calls)


def case_coalesced(world):
    def calls(make):
        with dist._coalescing_manager(async_ops=True) as batch:
            dist.all_reduce(tensor(make))
            dist.all_reduce(tensor(make))
        batch.wait()
        dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor(make), (world.rank + 1) % world.size),
                                dist.P2POp(dist.irecv, tensor(make), (world.rank - 1) % world.size)])[0].wait()

    nothing_grows(calls)


def case_errors(world):
    def calls(make):
        with pytest.raises((ValueError, TypeError, dist.DistBackendError)):
            dist.all_reduce(tensor(make, 64 + world.rank))
        work = dist.all_reduce(tensor(make, 64 + world.rank), async_op=True)
        with pytest.raises(dist.DistBackendError):
            work.wait()
        with pytest.raises(dist.DistBackendError):
            dist.all_reduce(tensor(make, 64 + world.rank), async_op=True).get_future().wait()

    nothing_grows(calls)


def case_groups(world):
    def calls(make):
        group = dist.new_group(world.ranks)
        dist.all_reduce(tensor(make), group=group)
        dist.all_reduce(tensor(make), group=group, async_op=True).wait()
        dist.destroy_process_group(group)

    of_torch = {"objects", "blocks", "bytes of Python", "bytes of C"}  # which keeps something of every group, also of Gloo's
    found = {name: growth for name, growth in grown(calls, CALLS // 5, patience_s=20).items() if name not in of_torch}
    assert found == {}, found
