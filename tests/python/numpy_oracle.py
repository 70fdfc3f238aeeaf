"""What every call should give, in NumPy: deterministic inputs of every rank, and their reductions."""
import functools

import ml_dtypes
import numpy

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SMALL_FLOATS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
FLOATS = SMALL_FLOATS + ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
MOVED_ONLY = ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
REDUCED = ["bool"] + INTEGERS + FLOATS + COMPLEX
ALL = REDUCED + MOVED_ONLY

OPS = ["sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum"]


def factor_for(name):
    return 2 if name in INTEGERS else 0.5


def dtype_named(name):
    return numpy.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else numpy.dtype(name)


def applies(op, name):
    """Whether the reduction means something for this dtype."""
    if op in ("band", "bor", "bxor"):
        return name == "bool" or name in INTEGERS
    if op in ("min", "max"):
        return name not in COMPLEX
    if op in ("avg", "premul_sum"):
        return name != "bool"
    return True


def values(name, rank, shape, op="sum", salt=0):
    """What this rank gives: small numbers whose sums and products are exact, and for integers some that wrap."""
    count = int(numpy.prod(shape))
    numbers = (numpy.arange(count) * 7 + rank * 5 + salt * 3) % 3
    if op == "product":
        numbers = 1 + numbers % 2
    elif name in INTEGERS and op != "avg":
        numbers = numbers * (numpy.iinfo(name).max // 2)
    else:
        numbers = numbers * 12  # so that the average of up to four is whole
    made = numbers.astype("float32") if name in MOVED_ONLY + SMALL_FLOATS else numbers
    if name in COMPLEX:
        made = made * (1 + 1j)
    return made.astype(dtype_named(name)).reshape(shape)


def reduced(parts, op):
    """The reduction of what the ranks give, in the order of their ranks."""
    name = parts[0].dtype.name
    if name == "bool":
        return _reduced_bool(parts, op)
    wide = parts if name in INTEGERS + COMPLEX + ["float64"] else [part.astype("float64") for part in parts]
    with numpy.errstate(over="ignore"):
        if op == "sum":
            result = functools.reduce(numpy.add, wide)
        elif op == "avg":
            result = _average(functools.reduce(numpy.add, wide), len(parts), name)
        elif op == "product":
            result = functools.reduce(numpy.multiply, wide)
        elif op == "premul_sum":
            result = functools.reduce(numpy.add, [part * part.dtype.type(factor_for(name)) for part in wide])
        else:
            functions = {"min": numpy.minimum, "max": numpy.maximum, "band": numpy.bitwise_and, "bor": numpy.bitwise_or,
                         "bxor": numpy.bitwise_xor}
            result = functools.reduce(functions[op], wide)
    if name in SMALL_FLOATS:
        result = result.astype("float32")
    return result.astype(parts[0].dtype)


def _average(total, count, name):
    if name not in INTEGERS:
        return total / count
    return numpy.trunc(total.astype("float64") / count).astype(total.dtype) if total.dtype.itemsize < 8 else total // count


def _reduced_bool(parts, op):
    functions = {"sum": numpy.logical_or, "max": numpy.logical_or, "product": numpy.logical_and,
                 "min": numpy.logical_and, "band": numpy.logical_and, "bor": numpy.logical_or, "bxor": numpy.logical_xor}
    return functools.reduce(functions.get(op, numpy.logical_or), parts)  # the rest is refused
