"""Every function of both dialects against the oracle. A case makes one call and yields what came out beside what should have."""
import numpy

import numpy_oracle as oracle
import unisono.comm_func as func
import unisono.distributed as dist

ROWS, COLUMNS = 4, 3


class Kit:
    """One cell of the matrix: a dtype, a kind of array, waiting or not, and for reductions an operation."""

    def __init__(self, dtype, kind, async_op, op="sum"):
        self.dtype, self.kind, self.async_op, self.op = dtype, kind, async_op, op
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.everyone = range(self.ranks)

    def values(self, rank, *shape, salt=0):
        return oracle.values(self.dtype, rank, shape, self.op, salt)

    def give(self, array):
        if self.kind == "numpy":
            return array.copy()
        import torch
        if not array.size:
            return torch.empty(array.shape, dtype=getattr(torch, self.dtype))
        bits = numpy.ascontiguousarray(array).view(numpy.uint8).reshape(-1)
        return torch.from_numpy(bits.copy()).view(getattr(torch, self.dtype)).reshape(array.shape)

    def mine(self, *shape, salt=0):
        return self.give(self.values(self.rank, *shape, salt=salt))

    def room(self, *shape):
        return self.give(numpy.zeros(shape, oracle.dtype_named(self.dtype)))

    def wait(self, work):
        if self.async_op:
            assert work.wait() is True
        else:
            assert work is None

    def taken(self, pair):
        output, handle = pair
        assert (handle is not None) == self.async_op and (handle is None or handle.wait() is None)
        return output

    def reduced(self, *shape, ranks=None):
        return oracle.reduced([self.values(rank, *shape) for rank in (ranks or self.everyone)], self.op)

    def the_op(self):
        return dist.ReduceOp.PREMUL_SUM(oracle.factor_for(self.dtype)) if self.op == "premul_sum" else self.op

    def same(self, got, expected):
        """Same kind, dtype, shape and bits."""
        if self.kind == "torch":
            import torch
            assert isinstance(got, torch.Tensor) and got.dtype == getattr(torch, self.dtype), (type(got), got.dtype)
            bits = got.contiguous().reshape(-1).view(torch.uint8).numpy() if got.numel() else numpy.empty(0, "uint8")
            got = bits.view(oracle.dtype_named(self.dtype)).reshape(tuple(got.shape))
        assert type(got) is numpy.ndarray and got.dtype == expected.dtype and got.shape == expected.shape, (got, expected)
        assert got.tobytes() == numpy.ascontiguousarray(expected).tobytes(), (got, expected)


# Reductions, in place.

def all_reduce(kit):
    kit.wait(dist.all_reduce(tensor := kit.mine(ROWS, COLUMNS), kit.the_op(), async_op=kit.async_op))
    yield tensor, kit.reduced(ROWS, COLUMNS)


def all_reduce_coalesced(kit):
    tensors = [kit.mine(ROWS), kit.mine(COLUMNS, 2), kit.mine(0)]
    kit.wait(dist.all_reduce_coalesced(tensors, kit.the_op(), async_op=kit.async_op))
    yield from zip(tensors, [kit.reduced(ROWS), kit.reduced(COLUMNS, 2), kit.reduced(0)])


def scan(kit):
    kit.wait(dist.scan(tensor := kit.mine(ROWS), kit.the_op(), async_op=kit.async_op))
    yield tensor, kit.reduced(ROWS, ranks=range(kit.rank + 1))


def exscan(kit):
    kit.wait(dist.exscan(tensor := kit.mine(ROWS), kit.the_op(), async_op=kit.async_op))
    yield tensor, kit.reduced(ROWS, ranks=range(kit.rank)) if kit.rank else kit.values(0, ROWS)


def reduce(kit):
    for root in kit.everyone:
        kit.wait(dist.reduce(tensor := kit.mine(ROWS), root, kit.the_op(), async_op=kit.async_op))
        yield tensor, kit.reduced(ROWS) if kit.rank == root else kit.values(kit.rank, ROWS)


def reduce_scatter(kit):
    inputs = [kit.mine(ROWS, salt=part) for part in kit.everyone]
    kit.wait(dist.reduce_scatter(output := kit.room(ROWS), inputs, kit.the_op(), async_op=kit.async_op))
    yield output, oracle.reduced([kit.values(rank, ROWS, salt=kit.rank) for rank in kit.everyone], kit.op)


def reduce_scatter_tensor(kit):
    for function in (dist.reduce_scatter_tensor, dist.reduce_scatter_single):
        kit.wait(function(output := kit.room(2, COLUMNS), kit.mine(kit.ranks * 2, COLUMNS), kit.the_op(), async_op=kit.async_op))
        expected = kit.reduced(kit.ranks * 2, COLUMNS).reshape(kit.ranks, 2, COLUMNS)[kit.rank]
        yield output, expected
    stacked = kit.mine(kit.ranks * 2, COLUMNS).reshape(kit.ranks, 2, COLUMNS)
    kit.wait(dist.reduce_scatter_tensor_coalesced([output := kit.room(2, COLUMNS)], [stacked], kit.the_op(),
                                                  async_op=kit.async_op))
    yield output, expected


# Reductions, functional.

def func_all_reduce(kit):
    yield kit.taken(func.all_reduce(kit.mine(ROWS, COLUMNS), kit.the_op(), async_op=kit.async_op)), kit.reduced(ROWS, COLUMNS)


def func_scan(kit):
    yield kit.taken(func.scan(kit.mine(ROWS), kit.the_op(), async_op=kit.async_op)), kit.reduced(ROWS, ranks=range(kit.rank + 1))
    output = kit.taken(func.exscan(kit.mine(ROWS), kit.the_op(), async_op=kit.async_op))
    yield output, kit.reduced(ROWS, ranks=range(kit.rank)) if kit.rank else numpy.zeros_like(kit.values(0, ROWS))


def func_reduce_scatter_tensor(kit):
    output = kit.taken(func.reduce_scatter_tensor(kit.mine(kit.ranks * 2, COLUMNS), kit.the_op(), async_op=kit.async_op))
    yield output, kit.reduced(kit.ranks * 2, COLUMNS)[2 * kit.rank:2 * kit.rank + 2]


def func_reduce(kit):
    for root in kit.everyone:
        output = func.reduce(kit.mine(ROWS), root, kit.the_op())
        yield output, kit.reduced(ROWS) if kit.rank == root else numpy.zeros_like(kit.values(0, ROWS))


REDUCTIONS = [all_reduce, all_reduce_coalesced, reduce, reduce_scatter, reduce_scatter_tensor, func_all_reduce,
              func_reduce_scatter_tensor, func_reduce]
SCANS = [scan, exscan, func_scan]  # they have no avg
