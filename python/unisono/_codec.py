"""Objects as bytes and back, for a closed set of types: no byte string can make the reader run code.

None, bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, and NumPy arrays of numbers and texts. Every
length is checked against what is left before anything is made of it, so reading takes time and memory in proportion to the
bytes. The first byte says which form the rest has: this codec's, or a pickle, which is read only where the reader asked for it
by name.
"""
import math
import re
import struct

from unisono import _errors
from unisono._arrays import numpy_dtype, numpy_module

_CODEC, _PICKLE = b"\x01", b"\x02"
_DEEPEST = 100  # so that reading takes less than half of the frames that Python allows
# Elements of a set, or keys of a dict, whose hashes are equal: each is compared with all of the others, and hashes of numbers are
# no secret. What is not made for it has two or three. Hashes that differ part after a few probes, for Python uses all their bits.
_MOST_ALIKE = 64


def encode(value, allow_pickle=False):
    """The bytes of an object; ArgumentTypeError for what the codec does not know, unless pickle is allowed."""
    if allow_pickle is True:
        import pickle
        return bytearray().join((_PICKLE, pickle.dumps(value)))
    parts = [_CODEC]
    _write(value, parts, 0)
    return bytearray().join(parts)


def decode(data, allow_pickle=False):
    """The object, which has no part of `data` in it; ProtocolError for bytes that no encode() made."""
    data = memoryview(data)
    form = data[:1]
    if form == _PICKLE:
        if allow_pickle is not True:
            raise _errors.ArgumentError("another rank sent a pickle, whose reading runs code that the sender chose; pass "
                                        "allow_pickle=True here if you trust all ranks")
        import pickle
        return pickle.loads(data[1:])
    if form != _CODEC:
        raise _errors.ProtocolError("these bytes are no object that a rank has encoded")
    reader = _Reader(data)
    try:
        value = reader.value(0)
    except _errors.Error:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise _errors.ProtocolError(f"bytes that are no object, or one that cannot be made here: {why}") from None
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
        if kind in _HASHED and _are_alike(value):
            raise _errors.ArgumentError(f"a {kind.__name__} has more than {_MOST_ALIKE} elements of equal hash in it")
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
    return dtype.subdtype is None and dtype.itemsize > 0 and (dtype.kind in _PLAIN or dtype.name in _SMALL_FLOATS)


def _dtype_named(name):
    """The dtype that _write_array() named so. NumPy is not asked about other names: it would hand them to Python's parser."""
    if name in _SMALL_FLOATS:
        return numpy_dtype(name)
    if not re.fullmatch(f"[<>|][{_PLAIN}][1-9][0-9]{{0,9}}", name):  # as dtype.str has it; NumPy would read much more
        raise _errors.ProtocolError(f"an array of dtype {name!r}")
    return numpy_module().dtype(name)


def _are_alike(hashables):
    """Whether a set of these would have to compare too many with each other."""
    if len(hashables) <= _MOST_ALIKE:
        return False
    counts = {}
    for element in hashables:
        number = hash(element)
        counts[number] = counts.get(number, 0) + 1
    return max(counts.values()) > _MOST_ALIKE


def _are_texts(data, dtype):
    """False for bytes of an array of str with a number in it that is no character's: NumPy would make a str of them."""
    return dtype.kind != "U" or not len(data) or numpy_module().frombuffer(data, dtype.str[0] + "u4").max() <= 0x10FFFF


def _write_array(value, parts):
    import numpy
    array = numpy.asarray(value, order="C")
    if not _is_known(array.dtype):
        raise _errors.ArgumentTypeError(f"NumPy arrays of dtype {array.dtype} are not encoded: numbers are, or allow_pickle=True")
    data = array.reshape(-1).view("uint8")
    if not _are_texts(data, array.dtype):
        raise _errors.ArgumentError("a NumPy array of texts has characters in it that are none")
    name = (array.dtype.str if array.dtype.kind in _PLAIN else array.dtype.name).encode()
    parts.append(b"a" if isinstance(value, numpy.ndarray) else b"g")
    _write_bytes(b"n", name, parts)
    parts.append(struct.pack("<B", array.ndim) + b"".join(map(_length, array.shape)))
    _write_bytes(b"d", data, parts)


_SIMPLE = {
    type(None): lambda value, parts: parts.append(b"N"),
    bool: lambda value, parts: parts.append(b"T" if value else b"F"),
    int: _write_int,
    float: lambda value, parts: parts.append(b"f" + struct.pack("<d", value)),
    complex: lambda value, parts: parts.append(b"c" + struct.pack("<dd", value.real, value.imag)),
    str: lambda value, parts: _write_bytes(b"s", value.encode("utf-8", "surrogatepass"), parts),
    bytes: lambda value, parts: _write_bytes(b"b", value, parts),
    bytearray: lambda value, parts: _write_bytes(b"y", value, parts),
}
_CONTAINERS = {list: b"l", tuple: b"t", dict: b"m", set: b"e", frozenset: b"z"}
_HASHED = (dict, set, frozenset)


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
        letter = bytes(self.take(1))
        read = self._READERS.get(letter)
        if read is None:
            raise _errors.ProtocolError(f"no object begins with {letter!r}")
        return read(self, depth)

    def count(self, what):
        count = self.length()
        if count > len(self.data) - self.at:  # each takes a byte at least
            raise _errors.ProtocolError(f"{count} {what} should follow in {len(self.data) - self.at} bytes")
        return count

    def elements(self, depth):
        return [self.value(depth + 1) for _ in range(self.count("elements"))]

    def hashed(self, kind, depth):
        elements = self.elements(depth)
        return self.unlike(kind(elements) if not _are_alike(elements) else (), len(elements))

    def pairs(self, depth):
        keys, values = [], []
        for _ in range(self.count("pairs")):
            keys.append(self.value(depth + 1))
            values.append(self.value(depth + 1))
        return self.unlike(dict(zip(keys, values)) if not _are_alike(keys) else (), len(keys))

    def unlike(self, made, count):
        if len(made) != count:
            raise _errors.ProtocolError("a set or a dict with equal elements, or with too many of equal hash")
        return made

    def array(self):
        numpy = numpy_module()
        self.expect(b"n")
        dtype = _dtype_named(str(self.bytes()[:64], "ascii"))
        shape = tuple(self.length() for _ in range(self.take(1)[0]))
        self.expect(b"d")
        data = self.bytes()
        if math.prod(shape) * dtype.itemsize != len(data):
            raise _errors.ProtocolError(f"an array of shape {shape} and dtype {dtype} in {len(data)} bytes")
        if not data:
            return numpy.empty(shape, dtype)
        if not _are_texts(data, dtype):
            raise _errors.ProtocolError("an array of texts with characters that are none")
        return numpy.frombuffer(data, dtype).reshape(shape).copy()

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
        b"s": lambda self, depth: str(self.bytes(), "utf-8", "surrogatepass"),
        b"b": lambda self, depth: bytes(self.bytes()),
        b"y": lambda self, depth: bytearray(self.bytes()),
        b"l": lambda self, depth: self.elements(depth),
        b"t": lambda self, depth: tuple(self.elements(depth)),
        b"e": lambda self, depth: self.hashed(set, depth),
        b"z": lambda self, depth: self.hashed(frozenset, depth),
        b"m": lambda self, depth: self.pairs(depth),
        b"a": lambda self, depth: self.array(),
        b"g": lambda self, depth: self.scalar(),
    }
