"""What is rare about arrays, in Python: other memory orders, and making arrays of each framework.

Frameworks are imported only when an array of theirs is at hand.
"""
import sys


def numpy_module():
    """NumPy, or an error that says what it would be needed for."""
    try:
        import numpy
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "NumPy is not installed, and new arrays are NumPy's where no tensor was given; pip install numpy. Without it, "
            "unisono.distributed works in bytearray, array.array and other contiguous buffers.", name="numpy") from None
    return numpy


def _kind(array):
    for base in type(array).__mro__:
        if base.__name__ == "Tensor" and base.__module__ == "torch":
            return "torch"
        if base.__name__ == "Tensor" and base.__module__.startswith("mindspore."):
            return "mindspore"
    return "numpy"


def contiguous(array):
    """A copy of the array in row order."""
    if _kind(array) == "torch":
        made = array.detach().resolve_conj().resolve_neg().contiguous()
        return made.clone() if made.data_ptr() == array.data_ptr() else made
    if _kind(array) == "mindspore":
        return _mindspore_copy(array)
    return numpy_module().array(array, order="C", copy=True)


def copy_into(array, copy):
    """What was computed in a copy, back into the array that it was made of."""
    if _kind(array) == "torch":
        import torch
        with torch.inference_mode() if array.is_inference() else torch.no_grad():
            array.copy_(copy)
        return
    import numpy
    if _kind(array) == "mindspore":  # whose own copy_() loses what is written to a part of a tensor on the CPU
        numpy.copyto(_mindspore_memory(array), _mindspore_memory(copy))
        return
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
    return numpy_module().asarray(_Strided(keeper, pointer, element_bytes, shape, strides))


def torch_parts():
    """(what dense tensors have as layout, a function that lets autograd know that the tensors of a tuple are written, so that
    backward() does not take them for what they were)."""
    import torch
    return torch.strided, getattr(torch._C, "_increment_version", None) or torch.autograd.graph.increment_version


def mindspore_records():
    """Whether MindSpore is recording operations for a gradient just now. Not in the backward pass, nor in a _Function's forward."""
    from mindspore.graph.api import _pynative_executor
    return _pynative_executor.requires_grad()


def numpy_dtype(name):
    """NumPy's dtype of that name; ml_dtypes has the small floats."""
    numpy = numpy_module()
    try:
        return numpy.dtype(name)
    except TypeError:
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, name))


def from_memory(kind, memory, dtype, shape):
    """A new array of a framework, in memory that the library made."""
    if kind == "torch":
        return _torch_tensor(memory, dtype, shape)
    if kind == "mindspore":
        return _mindspore_tensor(memory, dtype, shape)
    return numpy_module().ndarray(shape, numpy_dtype(dtype), memory)


def _torch_tensor(memory, dtype, shape):
    import torch
    element = getattr(torch, dtype)
    if 0 in shape:
        return torch.empty(shape, dtype=element)
    return torch.frombuffer(memory, dtype=element).reshape(shape)


def _mindspore_tensor(memory, dtype, shape):
    import numpy
    mindspore = sys.modules["mindspore"]
    bits = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}.get(dtype)  # NumPy has none of these
    tensor = mindspore.Tensor.from_numpy(numpy.ndarray(shape, bits or dtype, memory))  # in this memory, which it keeps
    return tensor.view(getattr(mindspore, dtype)) if bits else tensor


def _mindspore_memory(tensor):
    """The elements of a MindSpore tensor on the CPU where they lie, as bytes without a meaning: for copying only."""
    import ctypes
    import numpy
    size = tensor.itemsize
    strides = [stride * size for stride in tensor.stride()]
    span = size + sum((count - 1) * stride for count, stride in zip(tensor.shape, strides))
    memory = (ctypes.c_char * (0 if 0 in tensor.shape else span)).from_address(tensor.data_ptr())
    return numpy.ndarray(tensor.shape, f"V{size}", memory, strides=strides)


def _mindspore_copy(tensor):
    import numpy
    memory = bytearray(tensor.itemsize * tensor.size)
    numpy.copyto(numpy.ndarray(tensor.shape, f"V{tensor.itemsize}", memory), _mindspore_memory(tensor))
    return _mindspore_tensor(memory, repr(tensor.dtype).rsplit(".", 1)[-1], tensor.shape)
