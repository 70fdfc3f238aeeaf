"""A job that knows nothing of msrun: Unisono on MindSpore tensors, with no other change than the import."""
import mindspore

from unisono.communication import comm_func, get_group_size, get_rank, init, release

init()
output, _ = comm_func.all_reduce(mindspore.Tensor([1.0 + get_rank()]))
print(f"rank {get_rank()} of {get_group_size()}: {output.asnumpy().tolist()}", flush=True)
release()
