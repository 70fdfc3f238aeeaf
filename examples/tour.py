"""Five collectives in both dialects, on NumPy arrays: unisono run -n 4 python3 examples/tour.py"""
import numpy
from unisono import comm_func
from unisono import distributed as dist

dist.init_process_group()
rank, ranks = dist.get_rank(), dist.get_world_size()


def show(title, gave, filled, returned):
    """Rank 0 prints what every rank gave and got."""
    lines = [None] * ranks
    dist.all_gather_object(lines, f"{rank:<5} {gave!s:<26} {filled!s:<30} {returned}")
    if rank == 0:
        print(f"\n{title}\nrank  {'gives':<26} {'distributed':<30} comm_func")
        print("\n".join(lines), flush=True)


def parts(array):
    return list(array.reshape(ranks, -1))


mine = 10 * rank + numpy.arange(2)            # [0 1] on rank 0, [10 11] on rank 1, …
whole = 10 * rank + numpy.arange(2 * ranks)   # two numbers for every rank

tensor = mine.copy()
dist.all_reduce(tensor)                                        # in place
output, handle = comm_func.all_reduce(mine)                    # a new array, and a handle that is None unless async_op
show("all_reduce: everybody gets the sum", mine, tensor, output)

tensors = [numpy.zeros_like(mine) for _ in range(ranks)]
dist.all_gather(tensors, mine)                                 # fills a list of arrays
output, handle = comm_func.all_gather_into_tensor(mine)        # returns one, N times as long
show("all_gather: everybody gets everything", mine, " ".join(map(str, tensors)), output)

tensor = numpy.zeros_like(mine)
dist.reduce_scatter(tensor, parts(whole))                      # takes a list
output, handle = comm_func.reduce_scatter_tensor(whole)        # cuts one array along dim 0
show("reduce_scatter: rank i gets the sum of everybody's part i", whole, tensor, output)

tensor = mine.copy()
dist.reduce(tensor, dst=0)                                     # leaves the others' arrays alone
output = comm_func.reduce(mine, 0)                             # returns zeros there, and never a handle
show("reduce: rank 0 gets the sum", mine, tensor, output)

tensor = numpy.zeros_like(mine)
dist.scatter(tensor, parts(whole) if rank == 0 else None, src=0)  # a list, on rank 0 only
output = comm_func.scatter_tensor(whole, 0)                    # one array, which every rank passes
show("scatter: rank i gets rank 0's part i", whole if rank == 0 else "(not looked at)", tensor, output)

dist.destroy_process_group()
