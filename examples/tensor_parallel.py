"""A matrix product that two processes share, with torch tensors and the shape of torch.distributed.

    unisono run -n 2 python3 examples/tensor_parallel.py

A linear layer cut by columns, relu, and one cut by rows, as in Megatron: forward one all_reduce, backward one more, for the
gradient of the input. Change the import to torch.distributed and it runs there.
"""
import torch
import unisono.distributed as dist


class Copy(torch.autograd.Function):
    """Into the parallel part: the input goes on as it is; backward adds up everybody's gradient of it."""

    @staticmethod
    def forward(context, x):
        return x

    @staticmethod
    def backward(context, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Sum(torch.autograd.Function):
    """Out of the parallel part: forward adds up everybody's part; the gradient goes back as it is."""

    @staticmethod
    def forward(context, part):
        total = part.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(context, gradient):
        return gradient


def run(x, first, second, into=lambda x: x, out=lambda y: y):
    y = out(torch.relu(into(x) @ first) @ second)
    y.square().sum().backward()
    return y.detach(), x.grad, first.grad


dist.init_process_group()
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)  # the same on every rank, so that the result can be checked
x, first, second = torch.randn(8, 64).double(), torch.randn(64, 512).double(), torch.randn(512, 64).double()

expected = run(x.clone().requires_grad_(), first.clone().requires_grad_(), second)
columns = first.chunk(ranks, dim=1)[rank].clone().requires_grad_()
y, x_grad, columns_grad = run(x.clone().requires_grad_(), columns, second.chunk(ranks)[rank], Copy.apply, Sum.apply)

right = [torch.allclose(y, expected[0]), torch.allclose(x_grad, expected[1]),
         torch.allclose(columns_grad, expected[2].chunk(ranks, dim=1)[rank])]
print(f"rank {rank}: {columns.shape[1]} of {first.shape[1]} columns; result, gradient of the input, of the weights: "
      f"{['WRONG', 'right'][right[0]]}, {['WRONG', 'right'][right[1]]}, {['WRONG', 'right'][right[2]]}")
dist.destroy_process_group()
