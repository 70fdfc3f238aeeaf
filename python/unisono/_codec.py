"""Objects as bytes and back, for a closed set of types: no byte string can make the reader run code.

None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, and NumPy arrays of numbers. Every length is
checked against what is left before anything is made of it. The first byte says which form the rest has: this codec's, or a
pickle, which is read only where the reader asked for it by name.
"""
import math
import struct

from unisono import _errors
from unisono._arrays import numpy_dtype, numpy_module

_CODEC, _PICKLE = b"\x01", b"\x02"
_DEEPEST = 100  # so that reading takes less than half of the frames that Python allows


def encode(value, allow_pickle=False):
    """The bytes of an object; ArgumentTypeError for what the codec does not know, unless pickle is allowed."""
    if allow_pickle:
        import pickle
        return _PICKLE + pickle.dumps(value)
    parts = [_CODEC]
    _write(value, parts, 0)
    return b"".join(parts)


def decode(data, allow_pickle=False):
    """The object; ProtocolError for bytes that no encode() made."""
    form = data[:1]
    if form == _PICKLE:
        if not allow_pickle:
            raise _errors.ArgumentError("another rank sent a pickle, whose reading runs code that the sender chose; pass "
                                        "allow_pickle=True here if you trust all ranks")
        import pickle
        return pickle.loads(data[1:])
    if form != _CODEC:
        raise _errors.ProtocolError("these bytes are no object that a rank has encoded")
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise _errors.ProtocolError(f"{len(data) - reader.at} bytes follow the object")
    return value


def _length(count):
    return struct.pack("<Q", count)


def _write(value, parts, depth):
    if depth > _DEEPEST:
        raise _errors.ArgumentError(f"the object is nested more than {_DEEPEST} deep")
    kind = type(value)
    if kind in _SIMPLE:
        _SIMPLE[kind](value, parts)
    elif kind in _CONTAINERS:
        parts.append(_CONTAINERS[kind] + _length(len(value)))
        for element in value:
            _write(element, parts, depth + 1)
            if kind is dict:
                _write(value[element], parts, depth + 1)
    elif kind.__module__ in ("numpy", "ml_dtypes") and hasattr(value, "dtype"):
        _write_array(value, parts)
    else:
        raise _errors.ArgumentTypeError(f"objects of type {kind.__module__}.{kind.__qualname__} are not encoded: give numbers, "
                                        "strings, bytes, lists, tuples, dicts, sets or NumPy arrays, or allow_pickle=True")


def _write_int(value, parts):
    data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
    parts += (b"i", _length(len(data)), data)


def _write_bytes(letter, data, parts):
    parts += (letter, _length(len(data)), data)


_PLAIN = "biufcSU"  # kinds of NumPy's own dtypes; ml_dtypes has more, which go by name
_SMALL_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")


def _is_known(dtype):
    return dtype.subdtype is None and (dtype.kind in _PLAIN or dtype.name in _SMALL_FLOATS)


def _dtype_named(name):
    """The dtype that _write_array() named so. NumPy is not asked about other names: it would hand them to Python's parser."""
    is_plain = name[:1] in "<>|" and name[1:2] in _PLAIN and name[2:].isascii() and name[2:].isdigit()
    if not is_plain and name not in _SMALL_FLOATS:
        raise _errors.ProtocolError(f"an array of dtype {name!r}")
    return numpy_module().dtype(name) if is_plain else numpy_dtype(name)


def _write_array(value, parts):
    import numpy
    array = numpy.asarray(value, order="C")
    if not _is_known(array.dtype):
        raise _errors.ArgumentTypeError(f"NumPy arrays of dtype {array.dtype} are not encoded: numbers are, or allow_pickle=True")
    name = (array.dtype.str if array.dtype.kind in _PLAIN else array.dtype.name).encode()
    parts.append(b"a" if isinstance(value, numpy.ndarray) else b"g")
    _write_bytes(b"n", name, parts)
    parts.append(struct.pack("<B", array.ndim) + b"".join(map(_length, array.shape)))
    _write_bytes(b"d", array.tobytes(), parts)


_SIMPLE = {
    type(None): lambda value, parts: parts.append(b"N"),
    bool: lambda value, parts: parts.append(b"T" if value else b"F"),
    int: _write_int,
    float: lambda value, parts: parts.append(b"f" + struct.pack("<d", value)),
    complex: lambda value, parts: parts.append(b"c" + struct.pack("<dd", value.real, value.imag)),
    str: lambda value, parts: _write_bytes(b"s", value.encode("utf-8", "surrogatepass"), parts),
    bytes: lambda value, parts: _write_bytes(b"b", value, parts),
    bytearray: lambda value, parts: _write_bytes(b"y", bytes(value), parts),
}
_CONTAINERS = {list: b"l", tuple: b"t", dict: b"m", set: b"e", frozenset: b"z"}


class _Reader:
    def __init__(self, data):
        self.data, self.at = data, 1

    def take(self, count):
        if count > len(self.data) - self.at:
            raise _errors.ProtocolError(f"{count} bytes should follow and {len(self.data) - self.at} do")
        self.at += count
        return self.data[self.at - count:self.at]

    def length(self):
        return struct.unpack("<Q", self.take(8))[0]

    def bytes(self):
        return self.take(self.length())

    def value(self, depth):
        if depth > _DEEPEST:
            raise _errors.ProtocolError(f"an object that is nested more than {_DEEPEST} deep")
        letter = self.take(1)
        read = self._READERS.get(letter)
        if read is None:
            raise _errors.ProtocolError(f"no object begins with {letter!r}")
        try:
            return read(self, depth)
        except (ValueError, TypeError, OverflowError) as error:
            if isinstance(error, _errors.Error):
                raise
            raise _errors.ProtocolError(f"bytes that are no object: {error}") from None

    def elements(self, depth):
        count = self.length()
        if count > len(self.data) - self.at:  # each takes a byte at least
            raise _errors.ProtocolError(f"{count} elements should follow in {len(self.data) - self.at} bytes")
        return [self.value(depth + 1) for _ in range(count)]

    def pairs(self, depth):
        count = self.length()
        if count > len(self.data) - self.at:
            raise _errors.ProtocolError(f"{count} pairs should follow in {len(self.data) - self.at} bytes")
        return {self.value(depth + 1): self.value(depth + 1) for _ in range(count)}

    def array(self):
        numpy = numpy_module()
        self.expect(b"n")
        name = self.bytes()[:64].decode()
        dtype = _dtype_named(name)
        shape = tuple(self.length() for _ in range(self.take(1)[0]))
        self.expect(b"d")
        data = self.bytes()
        if math.prod(shape) * dtype.itemsize != len(data):
            raise _errors.ProtocolError(f"an array of shape {shape} and dtype {name} in {len(data)} bytes")
        return numpy.frombuffer(bytearray(data), dtype=dtype).reshape(shape) if data else numpy.empty(shape, dtype)

    def scalar(self):
        array = self.array()
        if array.ndim:
            raise _errors.ProtocolError(f"a scalar of shape {array.shape}")
        return array[()]

    def expect(self, letter):
        if self.take(1) != letter:
            raise _errors.ProtocolError("an array without its parts")

    _READERS = {
        b"N": lambda self, depth: None,
        b"T": lambda self, depth: True,
        b"F": lambda self, depth: False,
        b"i": lambda self, depth: int.from_bytes(self.bytes(), "little", signed=True),
        b"f": lambda self, depth: struct.unpack("<d", self.take(8))[0],
        b"c": lambda self, depth: complex(*struct.unpack("<dd", self.take(16))),
        b"s": lambda self, depth: self.bytes().decode("utf-8", "surrogatepass"),
        b"b": lambda self, depth: self.bytes(),
        b"y": lambda self, depth: bytearray(self.bytes()),
        b"l": lambda self, depth: self.elements(depth),
        b"t": lambda self, depth: tuple(self.elements(depth)),
        b"e": lambda self, depth: set(self.elements(depth)),
        b"z": lambda self, depth: frozenset(self.elements(depth)),
        b"m": lambda self, depth: self.pairs(depth),
        b"a": lambda self, depth: self.array(),
        b"g": lambda self, depth: self.scalar(),
    }
