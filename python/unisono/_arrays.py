"""What is rare about arrays, in Python: other memory orders, and making arrays of each framework.

Frameworks are imported only when an array of theirs is at hand.
"""
import sys


def _kind(array):
    for base in type(array).__mro__:
        if base.__name__ == "Tensor" and base.__module__ == "torch":
            return "torch"
    return "numpy"


def contiguous(array, writes):
    """A copy of the array in row order. ValueError for one that is going to be written and whose elements share memory."""
    if _kind(array) == "torch":
        if writes and any(size > 1 and stride == 0 for size, stride in zip(array.shape, array.stride())):
            raise ValueError("some of its elements are the same memory, as expand() makes it; give a clone() of it")
        return array.detach().resolve_conj().resolve_neg().contiguous().clone()
    import numpy
    return numpy.array(array, order="C", copy=True)


def copy_into(array, copy):
    """What was computed in a copy, back into the array that it was made of."""
    if _kind(array) == "torch":
        import torch
        with torch.inference_mode() if array.is_inference() else torch.no_grad():
            array.copy_(copy)
        return
    import numpy
    numpy.copyto(numpy.asarray(array), numpy.asarray(copy))


class _Strided:
    """Memory that somebody else keeps, as NumPy wants it described. NumPy's own from_dlpack() gives what cannot be written."""

    def __init__(self, keeper, pointer, element_bytes, shape, strides):
        self.keeper = keeper
        letter = "u" if element_bytes < 16 else "c"
        self.__array_interface__ = {"version": 3, "data": (pointer, False), "typestr": f"<{letter}{element_bytes}",
                                    "shape": shape,
                                    "strides": tuple(stride * element_bytes for stride in strides)}


def strided(keeper, pointer, element_bytes, shape, strides):
    """A NumPy array over the bits of such memory, whatever they stand for."""
    import numpy
    return numpy.asarray(_Strided(keeper, pointer, element_bytes, shape, strides))


def torch_parts():
    """(what dense tensors have as layout, a function that lets autograd know that the tensors of a tuple are written, so that
    backward() does not take them for what they were)."""
    import torch
    return torch.strided, getattr(torch._C, "_increment_version", None) or torch.autograd.graph.increment_version


def numpy_dtype(name):
    """NumPy's dtype of that name; ml_dtypes has the small floats."""
    import numpy
    try:
        return numpy.dtype(name)
    except TypeError:
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, name))


def from_memory(kind, memory, dtype, shape):
    """A new array of a framework, in memory that the library made."""
    if kind == "torch":
        return _torch_tensor(memory, dtype, shape)
    import numpy
    array = numpy.ndarray(shape, numpy_dtype(dtype), memory)
    if kind == "mindspore":
        mindspore = sys.modules["mindspore"]
        return mindspore.Tensor.from_numpy(array)
    return array


def _torch_tensor(memory, dtype, shape):
    import torch
    element = getattr(torch, dtype)
    if 0 in shape:
        return torch.empty(shape, dtype=element)
    return torch.frombuffer(memory, dtype=element).reshape(shape)


def mindspore_as_numpy(tensor):
    """A NumPy array over the memory of a MindSpore tensor on the CPU."""
    return tensor.asnumpy()
