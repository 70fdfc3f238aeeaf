"""MindSpore tensors and what they hold, for the cases."""
import mindspore
import numpy
from mindspore import Tensor

NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64",
           "complex64", "complex128")
SMALL_FLOATS = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def tensor(values, dtype="float32"):
    """A MindSpore tensor with these values."""
    return Tensor(numpy.array(values), getattr(mindspore, dtype))


def values(given):
    """What is in a tensor, as NumPy's numbers."""
    assert type(given) is Tensor, type(given)
    if repr(given.dtype) == "mindspore.bfloat16":
        given = given.astype(mindspore.float32)
    return given.asnumpy()


def bits(given):
    """The bytes of a tensor of whatever dtype."""
    name = repr(given.dtype).rsplit(".", 1)[-1]
    if name in SMALL_FLOATS:
        given = given.view(getattr(mindspore, SMALL_FLOATS[name]))
    return given.asnumpy().tobytes()


def equal(given, expected, shape=None):
    """Asserts that a tensor holds exactly this."""
    expected = numpy.asarray(expected)
    found = values(given)
    assert found.shape == (expected.shape if shape is None else shape), (found.shape, expected.shape)
    assert numpy.array_equal(found.reshape(-1), expected.reshape(-1)), (found, expected)
