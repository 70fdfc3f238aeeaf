"""What collectives have to give, computed by every rank alone: rank r's input follows from r and a seed."""
import numpy as np
import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
SMALL_FLOATS = [torch.float8_e4m3fn, torch.float8_e5m2]
MOVING_ONLY = [torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu]
INTEGERS = SIGNED + UNSIGNED
ADDING = FLOATS + COMPLEX + INTEGERS + SMALL_FLOATS + [torch.bool]
ALL_DTYPES = ADDING + MOVING_ONLY

ORDERED = ("MIN", "MAX")
BITWISE = ("BAND", "BOR", "BXOR")


def ops_for(dtype):
    """The reductions that mean something for a dtype."""
    if dtype in COMPLEX:
        return ["SUM", "AVG"]  # torch itself refuses the product
    ops = ["SUM", "PRODUCT", *ORDERED]
    if dtype in INTEGERS or dtype == torch.bool:
        ops += BITWISE
    if dtype != torch.bool:
        ops += ["AVG"]
    return ops


def given(rank, shape, dtype, seed=0):
    """Small whole numbers, so that every sum and product is exact in every dtype."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    numbers = torch.randint(0, 2 if dtype in SMALL_FLOATS or dtype == torch.bool else 3, shape, generator=generator)
    if dtype in COMPLEX:
        return torch.complex(numbers.to(torch.float32), numbers.flip(0).to(torch.float32) if numbers.dim() else numbers.float()).to(dtype)
    return numbers.to(torch.float32).to(dtype)


def as_numpy(tensor):
    if tensor.dtype in SMALL_FLOATS or tensor.dtype == torch.bfloat16:
        return tensor.to(torch.float32).numpy().astype(np.float64)
    return tensor.numpy()


def reduced(tensors, op):
    """The reduction of one tensor a rank."""
    dtype = tensors[0].dtype
    arrays = np.stack([as_numpy(tensor) for tensor in tensors])
    if dtype == torch.bool:
        result = {"SUM": np.any, "MAX": np.any, "PRODUCT": np.all, "MIN": np.all,
                  "BAND": np.all, "BOR": np.any, "BXOR": np.logical_xor.reduce}[op](arrays, axis=0)
        return torch.from_numpy(np.asarray(result))
    if op == "AVG":
        total = np.add.reduce(arrays, axis=0, dtype=arrays.dtype)
        result = np.fix(total.astype(np.float64) / len(tensors)) if dtype in INTEGERS else total / len(tensors)
        return torch.from_numpy(np.asarray(result)).to(dtype)
    function = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum,
                "BAND": np.bitwise_and, "BOR": np.bitwise_or, "BXOR": np.bitwise_xor}[op]
    result = function.reduce(arrays, axis=0, dtype=arrays.dtype)
    return torch.from_numpy(np.asarray(result)).to(dtype)


def spread(tensor):
    """The same numbers in a tensor whose elements do not lie together."""
    wide = torch.empty((*tensor.shape, 2), dtype=tensor.dtype)
    view = wide[..., 1]
    view.copy_(tensor)
    return view


def layouts(tensor):
    """The tensor, and the same as a view with gaps."""
    return [tensor.clone(), spread(tensor)]


def bits(tensor):
    plain = torch.empty((*tensor.shape, 1), dtype=tensor.dtype)  # contiguous, whatever the strides of no or one element are
    plain[..., 0].copy_(tensor)
    return plain.view(torch.uint8)


def same(one, other, what=""):
    assert one.dtype == other.dtype, f"{what}: {one.dtype} and {other.dtype}"
    assert one.shape == other.shape, f"{what}: {one.shape} and {other.shape}"
    assert torch.equal(bits(one), bits(other)), f"{what}: {one} and not {other}"


def near(one, other, what=""):
    """Equal but for the last bit, where an average was divided or multiplied."""
    if one.dtype in SMALL_FLOATS:
        one, other = one.float(), other.float()
    torch.testing.assert_close(one, other, msg=lambda text: f"{what}: {text}")
