"""Stores in Python: every method, torch's own stores and objects of the user's as store=, and what goes wrong with them."""
import datetime
import math
import threading

import numpy
import pytest

import programs
import unisono
import unisono.distributed as dist


class DictionaryStore:
    """The least that joining takes, over a dictionary; `calls` counts."""

    def __init__(self):
        self.values, self.lock, self.calls = {}, threading.Lock(), 0

    def set(self, key, value):
        with self.lock:
            self.values[key] = value

    def get(self, key):
        return self.values[key]

    def check(self, keys):
        self.calls += 1
        return all(key in self.values for key in keys)

    def add(self, key, amount):
        with self.lock:
            self.values[key] = str(int(self.values.get(key, "0")) + amount)
            return int(self.values[key])

    def compare_set(self, key, expected, desired):
        with self.lock:
            if self.values.get(key, "") == expected:
                self.values[key] = desired
            return self.values.get(key, expected)

    def delete_key(self, key):
        return self.values.pop(key, None) is not None


@pytest.fixture(params=["hash", "file", "tcp", "prefix", "prefix of a dictionary"])
def store(request, tmp_path):
    return {"hash": dist.HashStore, "file": lambda: dist.FileStore(str(tmp_path / "store")),
            "tcp": lambda: dist.TCPStore("127.0.0.1", 0, is_master=True),
            "prefix": lambda: dist.PrefixStore("part", dist.HashStore()),
            "prefix of a dictionary": lambda: dist.PrefixStore("part", DictionaryStore())}[request.param]()


def test_methods(store, request):
    store.set("text", "value")
    store.set("bytes", b"\0\1\xff" if "dictionary" not in request.node.name else b"bytes")
    assert store.get("text") == b"value" and store.get("bytes") in (b"\0\1\xff", b"bytes")
    assert [store.add("count", amount) for amount in (1, 2, -4)] == [1, 3, -1]
    assert store.compare_set("word", "", "first") == b"first" and store.compare_set("word", "other", "second") == b"first"
    assert store.check(["text", "word"]) and not store.check(["text", "absent"])
    assert store.wait(["text"]) is None and store.wait(["text"], datetime.timedelta(seconds=5)) is None
    assert store.multi_get(["text", "word"]) == [b"value", b"first"]
    store.multi_set(["one", "two"], ["1", b"2"])
    assert store.get("two") == b"2"
    assert store.delete_key("two") is True and store.delete_key("two") is False
    assert store.has_extended_api() and store.clone().get("one") == b"1"
    with pytest.raises(unisono.TimeoutError, match="absent"):
        store.wait(["text", "absent"], 0.01)
    if "dictionary" not in request.node.name:
        store.append("text", "s")
        assert store.get("text") == b"values" and store.num_keys() == 5
    store.set_timeout(datetime.timedelta(milliseconds=10))
    assert store.timeout == datetime.timedelta(milliseconds=10)
    for longest in (datetime.timedelta.max, math.inf, 1e300):
        (other := dist.HashStore()).set_timeout(longest)
        assert other.timeout == datetime.timedelta.max
    with pytest.raises(TimeoutError):
        store.get("absent")


def test_waiting_lets_other_threads_run(store):
    thread = threading.Thread(target=lambda: store.set("key", "value"))
    got = []
    waiting = threading.Thread(target=lambda: got.append(store.get("key")))
    waiting.start()
    thread.start()
    waiting.join()
    thread.join()
    assert got == [b"value"]


def test_tcp_store_of_several_users():
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=datetime.timedelta(seconds=60))
    assert master.host == "127.0.0.1" and master.port > 0 and master.timeout == datetime.timedelta(seconds=60)
    user = dist.TCPStore(host_name="127.0.0.1", port=master.port, world_size=2, timeout=30)
    user.set("key", "value")
    assert master.get("key") == b"value"
    with pytest.raises(unisono.InitError, match="Address already in use"):
        dist.TCPStore("127.0.0.1", master.port, is_master=True)
    port = master.port
    del master
    with pytest.raises(unisono.StoreLostError, match="is gone"):
        user.get("key")
    with pytest.raises(TimeoutError, match="Connection refused"):
        dist.TCPStore("127.0.0.1", port, timeout=0.05)


def test_a_tcp_master_waits_for_its_workers():
    """In a thread: the interpreter goes on meanwhile."""
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = []
    thread = threading.Thread(target=lambda: made.append(dist.TCPStore("127.0.0.1", port, 2, True, 60)))
    thread.start()
    user = dist.TCPStore("127.0.0.1", port, 2)
    thread.join()
    user.set("key", "value")
    assert made[0].get("key") == b"value"


def test_a_tcp_store_needs_a_secret_between_machines():
    with pytest.raises(unisono.AuthError, match="unisono secret new.*UNISONO_SECRET_FILE"):
        dist.TCPStore("192.0.2.1", 9)


JOINING = """
path = meeting[7:]
for store in {stores}:
    dist.init_process_group(store=store, rank=rank, world_size=ranks, timeout=60)
    dist.all_reduce(data := numpy.ones(1))
    dist.barrier()
    dist.destroy_process_group()
    say(data[0])
"""
OURS = ("[dist.FileStore(path), dist.FileStore(path), dist.PrefixStore('part', dist.FileStore(path)), "
        "*[dist.TCPStore('127.0.0.1', int(os.environ['FREE_PORT']), ranks, rank == 0)] * 2]")
THEIRS = ("[store for store in [torch.FileStore(path + 'torch', ranks), "
          "torch.TCPStore('127.0.0.1', int(os.environ['FREE_PORT']), ranks, rank == 0)] "
          "for store in (store, store, torch.PrefixStore('part', store), dist.PrefixStore('ours', store))]")


@pytest.mark.parametrize("stores, count", [(OURS, 5), (THEIRS, 8)], ids=["ours", "torch's"])
def test_joining_by_a_store(stores, count):
    """Each use of the same store makes a world of its own."""
    import socket
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    source = JOINING.format(stores=stores)
    if stores is THEIRS:
        pytest.importorskip("torch.distributed")
        source = "import torch.distributed as torch\n" + source
    assert programs.run(source, 2, FREE_PORT=port) == [(0, ["2.0"] * count, "")] * 2


def test_joining_alone_by_any_object():
    store = DictionaryStore()
    for _ in range(3):
        dist.init_process_group(store=store, rank=0, world_size=1)
        dist.all_reduce(numpy.ones(1))
        dist.destroy_process_group()
    torch = pytest.importorskip("torch.distributed")
    dist.init_process_group(store=torch.HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()


class BrokenStore(DictionaryStore):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def add(self, key, amount):
        raise self.error


@pytest.mark.parametrize("error, expected", [(OSError("the disk is gone"), unisono.InitError),
                                             (KeyboardInterrupt(), KeyboardInterrupt), (SystemExit(3), SystemExit)])
def test_a_store_that_raises(error, expected):
    with pytest.raises(expected, match="the disk is gone" if isinstance(error, OSError) else None):
        dist.init_process_group(store=BrokenStore(error), rank=0, world_size=1)
    assert not dist.is_initialized()


class LyingStore(DictionaryStore):
    """One method of it answers what it was told to; the store has every key then."""

    def __init__(self, method, answer):
        super().__init__()
        self.check = lambda keys: True
        setattr(self, method, lambda *arguments: answer)


@pytest.mark.parametrize("method, answers", [
    ("compare_set", [3, None]), ("get", [3, None, ["x"]]), ("check", ["yes", None, 2]), ("add", ["many", None, 1.5]),
    ("delete_key", ["yes", None]), ("num_keys", ["many", None])])
def test_a_store_that_answers_nonsense(method, answers):
    calls = {"compare_set": lambda store: store.compare_set("key", "a", "b"), "get": lambda store: store.get("key"),
             "check": lambda store: store.check(["key"]), "add": lambda store: store.add("key", 1),
             "delete_key": lambda store: store.delete_key("key"), "num_keys": lambda store: store.num_keys()}
    for answer in answers:
        with pytest.raises(unisono.Error, match=rf"{method}\(\) returned"):
            calls[method](dist.PrefixStore("part", LyingStore(method, answer)))


@pytest.mark.parametrize("method, answer, rank, ranks", [("compare_set", 3, 0, 1), ("check", "yes", 1, 2), ("add", None, 0, 1)])
def test_joining_by_a_store_that_answers_nonsense(method, answer, rank, ranks):
    with pytest.raises(unisono.Error, match=rf"{method}\(\) returned"):
        dist.init_process_group(store=LyingStore(method, answer), rank=rank, world_size=ranks)
    assert not dist.is_initialized()


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no text")


@pytest.mark.parametrize("error", [Unspeakable(), OSError("caf\udce9")], ids=["no text", "no UTF-8"])
def test_an_error_that_cannot_be_shown(error):
    with pytest.raises(unisono.InitError, match=type(error).__name__):
        dist.init_process_group(store=BrokenStore(error), rank=0, world_size=1)


def test_a_rank_that_does_not_come_is_named():
    store = DictionaryStore()
    with pytest.raises(unisono.InitError, match="rank 0"):
        dist.init_process_group(store=store, rank=1, world_size=2, timeout=0.1)
    assert store.calls > 1


class PatientStore(DictionaryStore):
    """Has a wait() of its own, which raises what nobody knows when a key does not come."""

    def __init__(self):
        super().__init__()
        self.changed, self.waits = threading.Condition(self.lock), 0

    def set(self, key, value):
        with self.changed:
            self.values[key] = value
            self.changed.notify_all()

    def wait(self, keys, timeout):
        with self.changed:
            self.waits += 1
            if not self.changed.wait_for(lambda: all(key in self.values for key in keys), timeout.total_seconds()):
                raise LookupError(keys)


@pytest.mark.parametrize("kind, seconds, most", [(PatientStore, 2.5, 8), (DictionaryStore, 2.5, 48)])
def test_waiting_does_not_poll(kind, seconds, most):
    """Many keys are one question, by the store's own wait() where it has one, otherwise after rests that grow."""
    theirs = kind()
    with pytest.raises(unisono.TimeoutError):
        dist.PrefixStore("part", theirs).wait([f"key {number}" for number in range(50)], seconds)
    assert theirs.calls + getattr(theirs, "waits", 0) <= most
    theirs.calls = 0
    threading.Timer(0.5, lambda: theirs.set("part/key", "value")).start()
    dist.PrefixStore("part", theirs).wait(["key"], 30)
    assert theirs.calls + getattr(theirs, "waits", 0) <= most + 12


def test_waiting_for_other_ranks_asks_seldom():
    """Rank 0 of two is alone for three seconds, by a store that other machines could reach."""
    theirs = PatientStore()
    with pytest.raises(unisono.InitError, match="missing: 1"):
        dist.init_process_group(store=theirs, rank=0, world_size=2, timeout=3)
    assert theirs.calls + theirs.waits < 80  # the first second takes the most; then the machine gives a sign, and looks for those of others, once a second
