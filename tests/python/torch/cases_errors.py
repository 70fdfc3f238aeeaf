"""What goes wrong arrives as torch's types, with ours named first; and how groups end while calls are under way."""
import datetime
import threading
import time

import torch
import torch.distributed as dist
from oracle import same


def expect(kind, words, call):
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), f"{error}\nshould say {word}"
        assert str(error).startswith(words[0]), error
    else:
        raise AssertionError(f"nothing was raised; expected {words}")


def still_works(world):
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    same(tensor, torch.full((2,), float(world.size)))


def case_calls_that_differ(world):
    other = world.rank == 1
    mismatches = [
        lambda: dist.all_reduce(torch.ones(3 + other)),
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.int32 if other else torch.float32)),
        lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.MAX if other else dist.ReduceOp.SUM),
        lambda: dist.broadcast(torch.ones(3), 1 if other else 0),
        lambda: dist.barrier() if other else dist.all_reduce(torch.ones(3)),
        lambda: dist.reduce_scatter_tensor(torch.ones(2 + other), torch.ones(world.size * (2 + other))),
    ]
    for call in mismatches:
        expect(dist.DistBackendError, ["MismatchError: ", "rank 1"], call)  # and one of those who differ from it
        still_works(world)


def case_an_argument_of_ones_own(world):
    expect(ValueError, ["ArgumentError: "], lambda: dist.all_gather_into_tensor(torch.ones(world.size * 2 + 1), torch.ones(2)))
    still_works(world)
    expect(ValueError, ["ArgumentError: "], lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3), [1] * world.size, [2] * world.size))
    still_works(world)
    expect(ValueError, ["ArgumentError: "], lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND))
    still_works(world)
    expect(ValueError, ["ArgumentError: "], lambda: dist.all_reduce(torch.ones(3).to(torch.float8_e8m0fnu)))
    still_works(world)


def case_an_argument_of_somebody_else(world):
    """Rank 0 alone is wrong, and nobody waits for it."""
    tensor = torch.ones(2)
    output = torch.ones(world.size * 2 + (world.rank == 0))
    if world.rank == 0:
        expect(ValueError, ["ArgumentError: "], lambda: dist.all_gather_into_tensor(output, tensor))
    else:
        expect(dist.DistBackendError, ["PeerArgumentError: ", "rank 0"], lambda: dist.all_gather_into_tensor(output, tensor))
    still_works(world)


def case_tensors_that_the_library_has_no_words_for(world):
    """On rank 0 alone: the backend itself refuses them, and the others hear of that too."""
    group = dist.group.WORLD
    strange = torch.ones(2, dtype=torch.complex32) if world.rank == 0 else torch.ones(2)
    unfit = torch.sparse_coo_tensor([[0]], [1.0], (2,)) if world.rank == 0 else torch.ones(2)
    calls = [
        (TypeError, "ArgumentTypeError: ", lambda: group.allreduce([strange]).wait()),
        (TypeError, "ArgumentTypeError: ", lambda: group.broadcast(strange, 0).wait()),
        (TypeError, "ArgumentTypeError: ", lambda: group.reduce_scatter(torch.ones(2), [strange] * world.size).wait()),
        (ValueError, "ArgumentError: ", lambda: group._get_backend(torch.device("cpu")).broadcast(unfit, 0).wait()),
    ]
    for kind, name, call in calls:
        if world.rank == 0:
            expect(kind, [name], call)
        else:
            expect(dist.DistBackendError, ["PeerArgumentError: ", "rank 0"], call)
        still_works(world)


def case_what_torch_refuses_is_told_to_the_others(world):
    """No memory for the copy of a tensor with gaps, say. The error is torch's own here."""
    endless = torch.ones(1).expand(1 << 46)
    ones = torch.sparse_coo_tensor([[0]], [1.0], (3,))
    endless_entries = torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=torch.int64).expand(1, 1 << 46), endless, (3,), check_invariants=False)
    calls = [
        lambda: dist.all_gather_into_tensor(torch.zeros(4 * world.size), endless if world.rank == 0 else torch.ones(4)),
        lambda: dist.all_reduce(endless_entries if world.rank == 0 else ones.clone()),
    ]
    for call in calls:
        if world.rank == 0:
            expect(RuntimeError, ["["], call)
        else:
            expect(dist.DistBackendError, ["PeerArgumentError: ", "rank 0", "memory"], call)
        still_works(world)


def case_a_tensor_that_shares_memory_with_itself(world):
    """Nothing can be written into it, which is found out before anything is done."""
    tensor = torch.ones(1).expand(3) if world.rank == 0 else torch.ones(3)
    if world.rank == 0:
        expect(ValueError, ["ArgumentError: ", "share memory"], lambda: dist.all_reduce(tensor))
    else:
        expect(dist.DistBackendError, ["PeerArgumentError: ", "rank 0"], lambda: dist.all_reduce(tensor))
        same(tensor, torch.ones(3))
    still_works(world)


def case_inputs_that_lie_in_outputs(world):
    size, rank = world.size, world.rank
    tensor = torch.arange(size) + 10 * rank
    dist.all_to_all_single(tensor, tensor)
    same(tensor, 10 * torch.arange(size) + rank)
    tensors = list((torch.arange(size) + 10 * rank).unsqueeze(1).unbind())
    dist.all_to_all(tensors, tensors[::-1])
    same(torch.cat(tensors), 10 * torch.arange(size) + size - 1 - rank)
    tensors = [torch.full((3,), rank) for _ in range(size)]
    dist.all_gather(tensors, tensors[0])
    same(torch.stack(tensors), torch.arange(size).unsqueeze(1).expand(size, 3))
    whole = torch.full((3 * size,), rank)
    dist.all_gather_into_tensor(whole, whole[1:4])
    same(whole, torch.arange(size).repeat_interleave(3))
    for at in (0, 1, 3 * rank):
        whole = torch.arange(3 * size)
        dist.reduce_scatter_tensor(whole[at : at + 3], whole)
        same(whole[at : at + 3], size * torch.arange(3 * rank, 3 * rank + 3))
    tensors = [torch.full((2,), index) for index in range(size)]
    dist.reduce_scatter(tensors[0], tensors)
    same(tensors[0], torch.full((2,), size * rank))
    tensors = [torch.full((2,), rank) for index in range(size)]
    dist.gather(tensors[-1], tensors if rank == 0 else None, 0)
    if rank == 0:
        same(torch.cat(tensors), torch.arange(size).repeat_interleave(2))
    tensors = [torch.full((2,), index) for index in range(size)]
    dist.scatter(tensors[-1], tensors if rank == 0 else None, 0)
    same(tensors[-1], torch.full((2,), rank))


def case_groups_know_what_broke_them(world):
    group = dist.new_group(world.ranks)
    ours = group._get_backend(torch.device("cpu"))
    assert "SUCCESS" in str(ours.get_error())
    ours._set_default_timeout(datetime.timedelta(milliseconds=200))
    if world.rank == 0:
        expect(dist.DistBackendError, ["TimeoutError: "], lambda: dist.all_reduce(torch.ones(3), group=group))
        assert "TIMEOUT" in str(ours.get_error()), ours.get_error()
    dist.barrier(group=world.gloo)


def case_a_wrong_list_of_one_rank_holds_nobody_up(world):
    parts = [torch.ones(2) for _ in range(world.size + 1)] if world.rank == 0 else None
    kind, name = (ValueError, "ArgumentError: ") if world.rank == 0 else (dist.DistBackendError, "PeerArgumentError: ")
    expect(kind, [name], lambda: dist.scatter(torch.zeros(2), parts, 0))
    still_works(world)


def case_sparse_tensors_of_different_shapes(world):
    tensor = torch.sparse_coo_tensor([[0]], [1.0], (3 + (world.rank == 1),))
    expect(dist.DistBackendError, ["MismatchError: ", "shape"], lambda: dist.all_reduce(tensor))
    still_works(world)
    expect(ValueError, ["ArgumentError: "], lambda: dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (3,)), dist.ReduceOp.MAX))
    still_works(world)


def case_letters_of_different_sizes(world):
    group = dist.new_group([0, 1])
    if world.rank == 0:
        dist.isend(torch.ones(3), 1, group=group).wait()
    elif world.rank == 1:
        expect(dist.DistBackendError, ["MismatchError: "], lambda: dist.recv(torch.ones(4), 0, group=group))
    dist.barrier()


def case_aborting_what_is_aborted_is_quiet(world):
    group = dist.new_group(world.ranks)
    ours = group._get_backend(torch.device("cpu"))
    for _ in range(2):
        group.abort()
        dist.barrier(group=world.gloo)
    assert "REMOTE_ERROR" in str(ours.get_error()), ours.get_error()
    dist.destroy_process_group(group)


def case_destroying_waits_for_calls_under_way(world):
    """Of posted ones, and of one that another thread is inside of."""
    for blocking in (False, True):
        group = dist.new_group(world.ranks)
        tensor = torch.ones(100_000)
        if world.rank == 0:
            work = None
            if blocking:
                inside = threading.Thread(target=lambda: (began.set(), dist.all_reduce(tensor, group=group)))
                began = threading.Event()
                inside.start()
                began.wait()
                while not group._get_backend(torch.device("cpu"))._get_sequence_number_for_group():
                    time.sleep(0.001)
            else:
                work = dist.all_reduce(tensor, group=group, async_op=True)
            for rank in range(1, world.size):
                dist.send(torch.ones(1), rank)
            dist.destroy_process_group(group)
            inside.join() if blocking else work.wait()
        else:
            dist.recv(torch.ones(1), 0)
            dist.all_reduce(tensor, group=group)
            dist.destroy_process_group(group)
        same(tensor, torch.full((100_000,), float(world.size)))


def case_destroying_waits_no_longer_than_there_is_hope(world):
    """Rank 0 has a call under way; the others leave without having made it, or abort, or a thread of its own does."""
    for how in ("leave", "abort", "thread"):
        group = dist.new_group(world.ranks)
        work = dist.all_reduce(torch.ones(3), group=group, async_op=True) if world.rank == 0 else None
        dist.barrier(group=world.gloo)
        if world.rank == 0:
            aborting = threading.Thread(target=group.abort)
            if how == "thread":
                aborting.start()
            dist.destroy_process_group(group)
            try:
                work.wait()
            except dist.DistBackendError as error:
                assert "Error: " in str(error), error
            else:
                raise AssertionError("nobody else has called")
            if how == "thread":
                aborting.join()
            dist.barrier(group=world.gloo)
            continue
        if how == "abort":
            group.abort()
        if how == "thread":  # it is rank 0 that ends it
            dist.barrier(group=world.gloo)
        dist.destroy_process_group(group)
        if how != "thread":
            dist.barrier(group=world.gloo)


def case_a_receive_that_nobody_answers_does_not_keep_a_group(world):
    group = dist.new_group(world.ranks)
    if world.rank == 0:
        dist.irecv(torch.ones(3), 1, group=group)
    dist.destroy_process_group(group)
