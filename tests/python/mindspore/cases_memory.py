"""Where the bytes are: contiguous memory is not copied, results live as long as somebody holds them."""
import gc

import mindspore
import numpy
from mindspore import Tensor, mint
from tensors import equal, values

import unisono._arrays

copies = []
_copy = unisono._arrays._mindspore_copy
unisono._arrays._mindspore_copy = lambda tensor: copies.append(tensor) or _copy(tensor)

from unisono import comm_func  # noqa: E402
from unisono import distributed as dist  # noqa: E402


def case_contiguous_memory_is_not_copied():
    copies.clear()
    whole = Tensor(numpy.arange(12, dtype="float32").reshape(4, 3))
    for given in (whole, whole + 1, whole[1:3], whole[2], mint.ones((3, 3), dtype=mindspore.bfloat16), Tensor(1.0)):
        comm_func.all_reduce(given)
        dist.broadcast(given, 0)
    assert copies == []
    comm_func.all_reduce(mint.transpose(whole, 0, 1))
    assert len(copies) == 1


def case_results_are_kept_by_their_tensors():
    kept = []
    for index in range(200):
        output, handle = comm_func.all_reduce(Tensor(numpy.full(4096, index, "float32")), async_op=index % 2 == 1)
        if handle:
            handle.wait()
        kept.append(output)
        del output, handle
        gc.collect(0)
    for index, output in enumerate(kept):
        assert values(output).min() == values(output).max() == 2 * index


def case_a_result_is_written_where_the_tensor_reads():
    output, handle = comm_func.all_reduce(mint.ones((3,)), async_op=True)
    handle.wait()
    equal(output, [2, 2, 2])
    dist.all_reduce(output)
    equal(output, [4, 4, 4])
    equal(output + 1, [5, 5, 5])
