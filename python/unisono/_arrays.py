"""What is rare about arrays, in Python: other memory orders, and making arrays of each framework.

Frameworks are imported only when an array of theirs is at hand.
"""
import sys


def _kind(array):
    for base in type(array).__mro__:
        if base.__name__ == "Tensor" and base.__module__ == "torch":
            return "torch"
    return "numpy"


def contiguous(array):
    """A copy of the array in row order."""
    if _kind(array) == "torch":
        return array.detach().resolve_conj().resolve_neg().contiguous().clone()
    import numpy
    return numpy.array(numpy.from_dlpack(array) if not hasattr(array, "__array__") else array, order="C", copy=True)


def copy_into(array, copy):
    """What was computed in a copy, back into the array that it was made of."""
    if _kind(array) == "torch":
        import torch
        with torch.no_grad():
            array.copy_(copy)
        return
    import numpy
    target = array if isinstance(array, numpy.ndarray) or not hasattr(array, "__dlpack__") else numpy.from_dlpack(array)
    numpy.copyto(numpy.asarray(target), numpy.asarray(copy))


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
