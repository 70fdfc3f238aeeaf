"""A stranger writes noise into torch's store, where the ranks look for each other's notes: InitError in time, and no crash."""
import datetime
import os
import subprocess
import sys
import time

import pytest

import jobs

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

pytestmark = pytest.mark.skipif(not jobs.has("unisono.torch"), reason="the torch backend is not installed")

JOIN_S = 3
MAY_TAKE_S = 60
NAME, JOINED = "unisono/world/1/name", "unisono/worlds_joined/1"
NOISE = {"bytes": bytes(range(256)) * 8, "long": b"store " + b"x" * (1 << 20)}
if "UNISONO_TEST_FULL" in os.environ:  # every case starts two processes with torch in them, which takes seconds
    NOISE |= {"nothing": b"", "zeroes": b"\0" * 64, "format": b"%s%n{}{0}"}
RANK = """
import datetime, sys
import torch.distributed as dist
import unisono.torch
port, rank, seconds = map(int, sys.argv[1:])
store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=datetime.timedelta(seconds=seconds))
try:
    dist.init_process_group("unisono", store=store, rank=rank, world_size=2, timeout=datetime.timedelta(seconds=seconds))
    print("joined", flush=True)
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
"""


def start(store, rank):
    return subprocess.Popen([sys.executable, "-c", RANK, str(store.port), str(rank), str(JOIN_S)], env=jobs.environment(),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def key_of(store, ending):
    """The key that ends so, once there is one."""
    deadline = time.monotonic() + MAY_TAKE_S
    while time.monotonic() < deadline:
        for key in store.list_keys():
            key = key.decode() if isinstance(key, bytes) else key
            if key.endswith(ending):
                return key
    raise AssertionError(f"no key that ends with {ending}: {store.list_keys()}")


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("ending", (NAME, JOINED))
def test_noise_in_the_store_is_an_error_and_no_crash(ending, noise):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=MAY_TAKE_S))
    ranks = [start(store, 0)]
    try:
        name = key_of(store, NAME)
        store.set(name.removesuffix(NAME) + ending, NOISE[noise])
        ranks.append(start(store, 1))
        said = [rank.communicate(timeout=MAY_TAKE_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    for text in said:
        assert "Error" in text and "joined\n" not in text, said
    assert "InitError" in said[0], said
    assert "InitError" in said[1] or ending == JOINED, said  # there torch's own store may be the one that complains


def test_a_clean_store_lets_everybody_join():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=MAY_TAKE_S))
    ranks = [start(store, rank) for rank in range(2)]
    try:
        assert [rank.communicate(timeout=MAY_TAKE_S)[0] for rank in ranks] == ["joined\n", "joined\n"]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
