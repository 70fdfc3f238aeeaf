"""Groups: which ranks, in which order, made and destroyed, meshes."""
import datetime

import torch
import torch.distributed as dist
from oracle import same
from torch.distributed.device_mesh import init_device_mesh


def sum_in(group, value):
    tensor = torch.tensor([float(value)])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


def case_the_order_of_members_is_the_one_given(world):
    group = dist.new_group(world.ranks[::-1])
    parts = [torch.zeros(1) for _ in world.ranks]
    dist.all_gather(parts, torch.tensor([float(world.rank)]), group=group)
    expected = [float(rank) for rank in dist.get_process_group_ranks(group)]
    assert [part.item() for part in parts] == expected
    assert expected[dist.get_rank(group)] == world.rank
    tensor = torch.tensor([float(world.rank)])
    dist.broadcast(tensor, world.size - 1, group=group)
    assert tensor.item() == world.size - 1


def case_those_outside_get_nothing(world):
    group = dist.new_group([0])
    assert (world.rank == 0) == (group is not dist.GroupMember.NON_GROUP_MEMBER)
    tensor = torch.ones(2)
    assert dist.all_reduce(tensor, group=group, async_op=True) is None or world.rank == 0
    same(tensor, torch.ones(2))


def case_a_group_of_one(world):
    group = dist.new_group([world.rank], use_local_synchronization=True)
    assert sum_in(group, 7) == 7
    parts = [torch.zeros(2)]
    dist.all_gather(parts, torch.ones(2), group=group)
    same(parts[0], torch.ones(2))
    output = torch.zeros(2)
    dist.reduce_scatter_tensor(output, torch.ones(2), group=group)
    dist.all_to_all_single(output, torch.full((2,), 5.0), group=group)
    same(output, torch.full((2,), 5.0))
    dist.barrier(group=group)
    dist.destroy_process_group(group)


def case_members_only_in_any_order(world):
    """Pairs that overlap, each made by its two members alone."""
    if world.size < 3:
        return
    pairs = [[rank, (rank + 1) % world.size] for rank in world.ranks]
    mine = [pair for pair in pairs if world.rank in pair]
    groups = [dist.new_group(sorted(pair), use_local_synchronization=True) for pair in sorted(mine, key=min)]
    assert [sum_in(group, 1) for group in groups] == [2.0, 2.0]


def case_many_groups_at_once_and_destroyed(world):
    for _ in range(3):
        groups = [dist.new_group(world.ranks) for _ in range(10)]
        works = []
        tensors = [torch.full((2000,), float(index)) for index in range(10)]
        for group, tensor in zip(groups, tensors):
            works.append(dist.all_reduce(tensor, group=group, async_op=True))
        for work in works[::-1]:
            work.wait()
        for index, tensor in enumerate(tensors):
            assert tensor[0] == index * world.size
        for group in groups:
            dist.destroy_process_group(group)


def case_a_destroyed_group_says_so(world):
    group = dist.new_group(world.ranks)
    dist.all_reduce(torch.ones(1), group=group)
    dist.destroy_process_group(group)
    try:
        group.allreduce([torch.ones(1)]).wait()
    except dist.DistBackendError as error:
        assert str(error).startswith("StateError"), error
    else:
        raise AssertionError("the group was destroyed")


def case_splitting(world):
    """By ranks of the parent, whose order here is not the world's."""
    parent = dist.new_group(world.ranks[::-1], sort_ranks=False)
    half = world.size // 2
    part = dist.split_group(parent, [world.ranks[:half], world.ranks[half:]], group_desc="half")
    mine = world.ranks[::-1][:half] if dist.get_rank(parent) < half else world.ranks[::-1][half:]
    assert dist.get_process_group_ranks(part) == mine and dist.get_rank(part) == mine.index(world.rank)
    assert part.group_desc == "half" and dist.get_backend(part) == "unisono"
    assert sum_in(part, world.rank) == sum(mine)
    dist.destroy_process_group(part)

    first = dist.split_group(split_ranks=[[0]])
    assert (first is None) == (world.rank != 0)
    for wrong in (None, [], [[]], [[0], [0, 1]], [[world.size]], [[-1]]):
        try:
            dist.split_group(split_ranks=wrong)
        except ValueError:
            continue
        raise AssertionError(f"{wrong} was taken")


def case_splitting_by_the_groups_own_function(world):
    half = world.size // 2
    mine = world.ranks[:half] if world.rank < half else world.ranks[half:]
    part = dist.group.WORLD.split_group(mine, group_name=f"half {mine}")
    assert part.size() == half and part.rank() == world.rank % half
    tensor = torch.tensor([float(world.rank)])
    part.allreduce([tensor]).wait()
    assert tensor.item() == sum(mine)
    part.shutdown()


def case_what_torch_reserves_stays_its_own_for_other_backends(world):
    dist.monitored_barrier(world.gloo, datetime.timedelta(seconds=60))
    try:
        dist.split_group(world.gloo, [world.ranks])
    except RuntimeError as error:
        assert "device" in str(error), error
    else:
        raise AssertionError("torch splits groups of Gloo now")


def case_subgroups(world):
    half = world.size // 2
    mine, _ = dist.new_subgroups(half)
    assert sum_in(mine, 1) == half
    odd_and_even = [world.ranks[::2], world.ranks[1::2]]
    mine, _ = dist.new_subgroups_by_enumeration(odd_and_even)
    assert sum_in(mine, world.rank) == sum(odd_and_even[world.rank % 2])


def case_meshes(world):
    mesh = init_device_mesh("cpu", (2, world.size // 2), mesh_dim_names=("rows", "columns"))
    row, column = mesh.get_coordinate()
    assert sum_in(mesh.get_group("rows"), world.rank) == sum(column + step * (world.size // 2) for step in range(2))
    assert sum_in(mesh.get_group("columns"), 1) == world.size // 2
    assert mesh["rows"].size() == 2 and row in (0, 1)


def case_timeouts_can_be_changed(world):
    group = dist.new_group(world.ranks)
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=7), group)
    assert group._get_backend(torch.device("cpu")).options._timeout.total_seconds() == 7
    dist.destroy_process_group(group)


def case_monitored_barriers(world):
    dist.monitored_barrier()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=30), wait_all_ranks=True)
    group = dist.new_group(world.ranks)
    if world.rank == 0:
        try:
            dist.monitored_barrier(group, 0.2)
        except dist.DistBackendError as error:
            assert str(error).startswith("TimeoutError: "), error
            assert "monitored_barrier gave up after a timeout of 0.2 s" in str(error), error
            assert all(f"rank {rank} has not entered" in str(error) for rank in world.ranks[1:]), error
        else:
            raise AssertionError("nobody else has come")
    dist.barrier()
    alone = dist.new_group([0])
    dist.monitored_barrier(alone)  # nothing happens elsewhere


def case_timeouts_and_names_of_a_backend(world):
    ours = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert ours.name() == "unisono"
    assert ours.options._timeout.total_seconds() == 60
    assert ours.supports_splitting and not ours.supports_coalescing  # which is about batch_isend_irecv() alone
    assert dist.get_backend() == "unisono"
