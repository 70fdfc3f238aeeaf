"""The codec of objects: what it writes it reads, and whatever bytes it reads it gives an object or ProtocolError."""
import inspect
import math
import random
import sys
import tracemalloc

import ml_dtypes
import numpy
import pytest

import unisono
from unisono import _codec

SEED = 20260101
LEAVES = [
    lambda r: None, lambda r: r.random() < 0.5, lambda r: r.randint(-10, 10), lambda r: r.randint(-2**200, 2**200),
    lambda r: r.uniform(-1e9, 1e9), lambda r: r.choice([math.inf, -math.inf, -0.0, 5e-324]),
    lambda r: complex(r.random(), -r.random()),
    lambda r: "".join(chr(r.randint(0, 0x10FFFF)) for _ in range(r.randint(0, 8))), lambda r: r.randbytes(r.randint(0, 30)),
    lambda r: bytearray(r.randbytes(4)),
    lambda r: numpy.array(r.randbytes(24), dtype="S24"),
    lambda r: numpy.frombuffer(r.randbytes(24), r.choice(["i4", ">i2", "u8", "?"])),
    lambda r: numpy.zeros(r.choice([(), (0,), (2, 0, 3), (2, 3)]), r.choice(["f4", "f8", "c16", ml_dtypes.bfloat16, "U3"])),
    lambda r: numpy.float32(r.randint(0, 99)), lambda r: numpy.int8(3), lambda r: ml_dtypes.bfloat16(r.randint(0, 9)),
]
KEYS = LEAVES[:9]


def random_object(r, depth=0):
    kind = r.randint(0, 9) if depth < 5 else 9
    size = r.randint(0, 4)
    if kind == 0:
        return [random_object(r, depth + 1) for _ in range(size)]
    if kind == 1:
        return tuple(random_object(r, depth + 1) for _ in range(size))
    if kind == 2:
        return {r.choice(KEYS)(r): random_object(r, depth + 1) for _ in range(size)}
    if kind == 3:
        return r.choice([set, frozenset])(r.choice(KEYS)(r) for _ in range(size))
    return r.choice(LEAVES)(r)


def same(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, numpy.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return one == other and (not isinstance(one, float) or math.copysign(1, one) == math.copysign(1, other))


def test_random_objects_come_back():
    r = random.Random(SEED)
    for _ in range(3000):
        value = random_object(r)
        assert same(_codec.decode(_codec.encode(value)), value)


def test_results_are_the_receivers_own():
    array = _codec.decode(_codec.encode(numpy.arange(3)))
    array += 1
    assert array.tolist() == [1, 2, 3]
    fortran = numpy.asfortranarray(numpy.arange(6).reshape(2, 3))
    assert same(_codec.decode(_codec.encode(fortran)), numpy.ascontiguousarray(fortran))


def read(data):
    """An object or ProtocolError, and nothing else; with little more memory than the bytes themselves."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        _codec.decode(data)
    except unisono.ProtocolError:
        pass
    peak = tracemalloc.get_traced_memory()[1] - before
    assert peak < 20_000 + 100 * len(data), (peak, data)


@pytest.fixture
def traced():
    _codec.decode(_codec.encode([numpy.ones(1), numpy.ones(1, ml_dtypes.bfloat16)]))  # imports what it needs
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_random_bytes(traced):
    read(b"")
    r = random.Random(SEED + 1)
    letters = b"NTFifcsbyltezmag"
    for _ in range(4000):
        read(b"\x01" + r.randbytes(r.randint(0, 40)))
        read(bytes([r.choice([0, *range(3, 256)])]) + r.randbytes(r.randint(0, 40)))
        read(b"\x01" + bytes([r.choice(letters)]) + r.randbytes(r.randint(0, 40)))
        read(b"\x01" + bytes([r.choice(letters)]) + r.randint(0, 40).to_bytes(8, "little") + r.randbytes(r.randint(0, 40)))


def test_mutated_bytes(traced):
    r = random.Random(SEED + 2)
    for _ in range(3000):
        data = bytearray(_codec.encode(random_object(r)))
        for _ in range(r.randint(1, 4)):
            change, at = r.randint(0, 3), r.randrange(len(data))
            if change == 0:
                data[at] = r.randrange(256)
            elif change == 1:
                del data[at:at + r.randint(1, 9)]
            elif change == 2:
                data[at:at] = r.choice([r.randbytes(3), (2**r.randint(0, 64) - 1).to_bytes(8, "little")])
            else:
                data[at] ^= 1 << r.randrange(8)
            data = data or bytearray(b"\x01")
        data[:1] = b"\x01"
        read(bytes(data))


def size_of(count):
    return count.to_bytes(8, "little")


def array_bytes(name, shape, data, letter=b"a"):
    """An array as encode() would write it, whatever its parts are."""
    return b"".join([b"\x01", letter, b"n", size_of(len(name)), name, bytes([len(shape)]), *map(size_of, shape), b"d",
                     size_of(len(data)), data])


ODD_NAMES = [b"S0", b"|S0", b"S", b"<U0", b"U", b"V0", b"|V8", b"|S1", b"|S3", b"<U1", b">U2", b"|b1", b"|i1", b"<f4", b">c16",
             b"<f16", b"<i3", b"|S2147483647", b"<U536870911", b"<U4294967295", b"|S99999999999", b"<M8[s]", b"bfloat16", b"O",
             b"(3,)f4", b"f4", b"=f4", b"(" * 60, b"<f4" + b" " * 80, b"\xff"]
ODD_SIZES = [0, 1, 2, 3, 10**10, 2**31, 2**40, 2**50, 2**60, 2**62, 2**63, 2**64 - 1]


def test_arrays_that_cannot_be(traced):
    r = random.Random(SEED + 3)
    for name in ODD_NAMES * 40:
        shape = [r.choice(ODD_SIZES if r.random() < 0.5 else ODD_SIZES[:4]) for _ in range(r.choice([0, 1, 1, 2, 3, 70]))]
        try:
            wanted = math.prod(shape) * numpy.dtype(name.decode()).itemsize
        except (TypeError, ValueError, SyntaxError):
            wanted = 8
        length = wanted if wanted < 1000 and r.random() < 0.8 else r.randint(0, 40)
        data = r.choice([r.randbytes(length), b"\xff" * length, bytes(length)])
        read(array_bytes(name, shape, data, r.choice([b"a", b"g"])))


@pytest.mark.parametrize("name, shape, data", [(b"|S0", (10**10,), b""), (b"|S0", (2**50,), b""), (b"<U0", (2**60,), b""),
                                               (b"<U1", (), b"\xff" * 4), (b">U1", (1,), b"\xff" * 4),
                                               (b"<U2", (1,), b"\0" * 6 + b"\x11\0")])
def test_arrays_of_nothing_and_of_no_characters(traced, name, shape, data):
    for letter in (b"a", b"g"):
        text = array_bytes(name, shape, data, letter)
        read(text)
        with pytest.raises(unisono.ProtocolError):
            _codec.decode(text)


def test_texts_of_no_characters_are_not_written():
    with pytest.raises(unisono.ArgumentError, match="characters"):
        _codec.encode(numpy.frombuffer(b"\xff" * 4, "<U1"))


def integers(numbers):
    return b"".join(bytes(_codec.encode(number)[1:]) for number in numbers)


def test_elements_that_are_made_to_be_compared():
    """Python's hash of an int is no secret: a set of those with equal hashes would be built in quadratic time."""
    alike = [index * sys.hash_info.modulus for index in range(1, 2001)]
    for letter, between in ((b"e", b""), (b"z", b""), (b"m", b"N")):
        pairs = b"".join(integers([number]) + between for number in alike)
        with pytest.raises(unisono.ProtocolError, match="hash"):
            _codec.decode(b"\x01" + letter + size_of(len(alike)) + pairs)
    for value in (set(alike[:100]), frozenset(alike[:100]), dict.fromkeys(alike[:100])):
        with pytest.raises(unisono.ArgumentError, match="hash"):
            _codec.encode(value)
    for value in (set(alike[:60]), dict.fromkeys(range(-5000, 5000)), {math.nan, -math.nan, *range(100)}):
        assert len(_codec.decode(_codec.encode(value))) == len(value)


def test_sets_have_no_element_twice():
    for data in (b"e" + size_of(2) + b"NN", b"z" + size_of(2) + b"TT", b"m" + size_of(2) + b"NTNF"):
        with pytest.raises(unisono.ProtocolError, match="equal"):
            _codec.decode(b"\x01" + data)


def at_depth(frames, function):
    return at_depth(frames - 1, function) if frames else function()


def test_what_python_has_not_is_no_other_error(monkeypatch):
    data = _codec.encode(deep(90))
    frames = sys.getrecursionlimit() - len(inspect.stack()) - 60
    with pytest.raises(unisono.ProtocolError, match="RecursionError"):
        at_depth(frames, lambda: _codec.decode(data))
    data = _codec.encode(numpy.ones(3))

    def no_memory(*_):
        raise MemoryError("no room")
    monkeypatch.setattr(numpy, "frombuffer", no_memory)
    with pytest.raises(unisono.ProtocolError, match="MemoryError: no room"):
        _codec.decode(data)


@pytest.mark.parametrize("value", [numpy.zeros(1 << 22), bytes(1 << 22), bytearray(1 << 22)], ids=["array", "bytes", "bytearray"])
def test_one_copy_each_way(traced, value):
    """What is written is in memory once more, and so is what is read."""
    size = getattr(value, "nbytes", None) or len(value)
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    data = _codec.encode(value)
    assert tracemalloc.get_traced_memory()[1] - before < 1.2 * size
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    copy = _codec.decode(memoryview(data))
    assert tracemalloc.get_traced_memory()[1] - before < 1.2 * size
    assert same(copy, value)
    data[:] = bytes(len(data))
    assert same(copy, value)  # it has no part of the bytes in it


def deep(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [object(), lambda: 0, range(3), {"x": {1: object()}}, numpy.array([object()]), ValueError("x"),
                                   numpy.zeros(2, dtype=[("a", "i4")]), numpy.datetime64("2020-01-01"), type, print])
def test_what_is_not_encoded(value):
    with pytest.raises(unisono.ArgumentTypeError, match="allow_pickle=True"):
        _codec.encode(value)


def test_nesting_has_an_end():
    assert same(_codec.decode(_codec.encode(deep(90))), deep(90))
    with pytest.raises(unisono.ArgumentError, match="nested"):
        _codec.encode(deep(150))
    one = b"l" + (1).to_bytes(8, "little")
    with pytest.raises(unisono.ProtocolError, match="nested"):
        _codec.decode(b"\x01" + one * 100_000 + b"N")


def test_pickles_only_where_asked_for():
    data = _codec.encode(ValueError("x"), allow_pickle=True)
    assert isinstance(_codec.decode(data, allow_pickle=True), ValueError)
    with pytest.raises(unisono.ArgumentError, match="allow_pickle"):
        _codec.decode(data)
    for no_flag in ("False", 1, None):
        with pytest.raises(unisono.ArgumentError, match="allow_pickle"):
            _codec.decode(data, allow_pickle=no_flag)
    assert _codec.decode(_codec.encode([1]), allow_pickle=True) == [1]


@pytest.mark.parametrize("name",
                         [b"O", b"|O8", b"i4,i4", b"(9999999,)f8", b"M8[ns]", b"finfo", b"nonsense", b"{'a': 1}", b"V8",
                          b"f4\xff", b"8f4", b"f4", b"<f", b"<f\xd9\xa4", b""])
def test_dtypes_that_no_rank_writes(name):
    for data in (b"", b"\0" * 8):
        with pytest.raises(unisono.ProtocolError):
            _codec.decode(array_bytes(name, (1,), data))
