"""What goes wrong arrives as torch's types, with ours named first."""
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
