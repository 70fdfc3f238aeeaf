"""Groups: which are the same, who is in them, how they are made and ended, and what a forked child has of them."""
import os
import sys

import numpy
import pytest

import jobs
import unisono
import unisono.comm_func as func
import unisono.communication as communication
import unisono.distributed as dist
from rank_pool import has_torch

RANKS = 3


def total(group=None):
    """The sum of everybody's rank + 1."""
    data = numpy.array([dist.get_rank() + 1.0])
    dist.all_reduce(data, group=group)
    return data[0]


def identity():
    rank = dist.get_rank()
    world = dist.group.WORLD
    assert world is dist.group.WORLD and world is dist.GroupMember.WORLD and hash(world) == hash(dist.group.WORLD)
    first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
    if rank == 2:
        assert first is second is dist.GroupMember.NON_GROUP_MEMBER and first != world
    else:
        assert first == first and first != second and first != world and first != "x" and first is not None
        assert {first: 1, second: 2, world: 3}[first] == 1
    mine, everyone = dist.new_subgroups(1)
    assert mine is everyone[rank] and everyone.count(mine) == 1 and len({*everyone, world}) == 3
    dist.barrier()
    return [repr(each) for each in (world, first, mine, dist.GroupMember.NON_GROUP_MEMBER)]


def test_identity(pool):
    for rank, (world, first, mine, outside) in enumerate(pool.run(identity, RANKS)):
        assert world == f'<unisono.ProcessGroup "unisono_world_group": rank {rank} of 3>'
        assert first == (f'<unisono.ProcessGroup "ranks 0,1 #1": rank {rank} of 2>' if rank < 2 else outside)
        assert mine == f'<unisono.ProcessGroup "ranks {rank} #1": rank 0 of 1>'
        assert outside == "<unisono.ProcessGroup that this rank is not in>"


def test_a_group_outlives_its_world():
    dist.init_process_group(rank=0, world_size=1)
    world, group = dist.group.WORLD, dist.new_group([0])
    dist.destroy_process_group()
    assert repr(world) == "<unisono.ProcessGroup of all ranks, which was not joined>"
    assert repr(group) == '<unisono.ProcessGroup "ranks 0 #1": rank 0 of 1>' and group == group != world


def splitting():
    rank = dist.get_rank()
    part = dist.split_group(None, [[0, 2], [1]])
    assert dist.get_process_group_ranks(part) == ([1] if rank == 1 else [0, 2])
    assert total(part) == (2 if rank == 1 else 4)
    part = dist.split_group(split_ranks=[[2, 1]], timeout=60)
    assert part is None if rank == 0 else total(part) == 5
    dist.barrier()


def subgroups():
    rank = dist.get_rank()
    mine, everyone = dist.new_subgroups(1)
    assert [each.size() for each in everyone] == [1 if index == rank else -1 for index in range(3)] and total(mine) == rank + 1
    mine, everyone = dist.new_subgroups()
    assert len(everyone) == 1 and total(mine) == 6
    mine, everyone = dist.new_subgroups_by_enumeration([[0, 2], [1]])
    assert dist.get_process_group_ranks(mine) == ([1] if rank == 1 else [0, 2]) and total(mine) == (2 if rank == 1 else 4)
    assert mine is everyone[rank % 2] and everyone[1 - rank % 2] is dist.GroupMember.NON_GROUP_MEMBER
    mine, everyone = dist.new_subgroups_by_enumeration([[1, 2]], timeout=60)
    assert mine is None if rank == 0 else total(mine) == 5
    dist.barrier()


def shrinking():
    if dist.get_rank() != 1:
        smaller = dist.shrink_group([1])
        assert dist.get_process_group_ranks(smaller) == [0, 2] and total(smaller) == 4
    assert total() == 6  # the group itself goes on


def agreeing():
    rank = dist.get_rank()
    assert dist.agree(True) is True and dist.agree(rank != 1) is False and dist.agree(numpy.bool_(True), timeout=60) is True
    group = dist.new_group([0, 2])
    if rank != 1:
        assert dist.agree(rank == 0, group) is False and dist.agree(True, group) is True


def aborting():
    group = dist.new_group()
    if dist.get_rank() == 0:
        dist.abort(group, "the sums are wrong")
    with pytest.raises(unisono.RevokedError, match="the sums are wrong"):
        while True:
            total(group)
    assert dist.agree(True, group) is True and total(dist.shrink_group([], group)) == 6  # what a broken group is still good for
    assert total() == 6


def by_name():
    rank = communication.get_rank()
    if rank:
        communication.create_group("pair", [2, 1])
        assert (communication.get_rank("pair"), communication.get_group_size("pair")) == (2 - rank, 2)
        assert communication.get_process_group_ranks("pair") == [2, 1]
        assert communication.get_world_rank_from_group_rank("pair", 0) == 2
        assert communication.get_group_rank_from_world_rank(1, "pair") == 1
        assert communication.get_local_rank("pair") == 2 - rank and communication.get_local_rank_size("pair") == 2
        gathered, _ = func.all_gather_into_tensor(numpy.array([rank]), group="pair")
        assert gathered.tolist() == [2, 1]
        communication.destroy_group("pair")
    with pytest.raises(unisono.ArgumentError, match='not in a group "pair"'):
        communication.get_rank("pair")
    assert func.all_reduce(numpy.ones(1))[0] == 3


def shared_arrays():
    kinds = ["numpy"] + ["torch"] * has_torch()
    for kind in kinds:
        for make in (unisono.zeros_shared, unisono.empty_shared):
            for dtype in ("float64", "int8", "bool"):
                array = make((2, 3), dtype, kind)
                assert tuple(array.shape) == (2, 3) and str(array.dtype).split(".")[-1] == dtype and not array.any()
                if dtype == "bool":
                    continue
                array += dist.get_rank() + 1
                dist.all_reduce(array)
                assert array.tolist() == [[6] * 3] * 2
    assert unisono.zeros_shared(()).shape == () and unisono.zeros_shared(0).shape == (0,)


@pytest.mark.parametrize("case", [splitting, subgroups, shrinking, agreeing, aborting, by_name, shared_arrays])
def test_groups(pool, case):
    pool.run(case, RANKS)


FORKS = """
import os, sys, unisono, unisono.distributed as dist
dist.init_process_group(rank=0, world_size=1)
child = os.fork()
if child == 0:
    assert not dist.is_initialized() and dist.group.WORLD is None and not unisono.communication.GlobalComm.INITED
    try:
        dist.get_rank()
    except unisono.StateError as error:
        assert "forked child" in str(error)
        dist.init_process_group(rank=0, world_size=1)  # a world of its own
        assert dist.is_initialized() and dist.get_rank() == 0
        dist.destroy_process_group()
        sys.exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert dist.is_initialized() and dist.get_rank() == 0
sys.exit(status)
"""


def test_a_forked_child_is_no_rank():
    done = jobs.run(sys.executable, "-c", FORKS)
    assert done.returncode == 7, jobs.explain(done)


WORKERS = """
import unisono.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return index + (dist.get_rank() if dist.is_initialized() else 0)

if __name__ == "__main__":
    dist.init_process_group(rank=0, world_size=1)
    print([int(number) for number in DataLoader(Numbers(), num_workers=1, multiprocessing_context="fork")])
"""


@pytest.mark.skipif(not has_torch(), reason="torch is not installed here")
def test_workers_of_a_data_loader(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(WORKERS)
    done = jobs.run(sys.executable, program, env=jobs.environment(PYTHONPATH=os.pathsep.join(sys.path)))
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2, 3]\n"), jobs.explain(done)
