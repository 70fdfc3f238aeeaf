"""A matrix product that two processes share, in the shape of MindSpore's comm_func, on NumPy arrays.

    unisono run -n 2 python3 examples/tensor_parallel_comm_func.py

The first layer is cut by columns and the second by rows, so that the ranks speak once for both: relu(x @ A) @ B is the sum of
relu(x @ A_r) @ B_r over the ranks r. With MindSpore tensors in place of NumPy arrays it reads the same.
"""
import numpy
from unisono.communication import comm_func, get_group_size, get_rank, init, release

init()
rank, ranks = get_rank(), get_group_size()
samples, width, hidden = 4, 256, 1024

random = numpy.random.default_rng(0)  # the same on every rank, so that the result can be checked
x = random.standard_normal((samples, width))
first = random.standard_normal((width, hidden)) / width**0.5
second = random.standard_normal((hidden, width)) / hidden**0.5

# Rank 0 has the weights; every rank gets its part of them. Parts are cut along dim 0, so the columns are turned to rows.
zeros_first, zeros_second = numpy.zeros((hidden, width)), numpy.zeros((hidden, width))
my_columns = comm_func.scatter_tensor(numpy.ascontiguousarray(first.T) if rank == 0 else zeros_first, 0).T
my_rows = comm_func.scatter_tensor(second if rank == 0 else zeros_second, 0)

partial = numpy.maximum(x @ my_columns, 0) @ my_rows
y, _ = comm_func.all_reduce(partial)                        # everybody has the whole result
my_samples, _ = comm_func.reduce_scatter_tensor(partial)    # or everybody has its samples
again, _ = comm_func.all_gather_into_tensor(my_samples)     # and all of them together are the same again

expected = numpy.maximum(x @ first, 0) @ second
error = comm_func.reduce(numpy.abs(y - expected).max(), 0, "max")
print(f"rank {rank}: {my_columns.shape[1]} of {hidden} columns, {my_samples.shape[0]} of {samples} samples, "
      f"gathered again: {'the same' if numpy.allclose(again, y) else 'different'}")
if rank == 0:
    print(f"largest error on any rank: {error:.1e} ({'right' if error < 1e-12 else 'WRONG'})")
release()
