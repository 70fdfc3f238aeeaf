"""Extension modules export the function that the interpreter looks for, and nothing that another package could meet."""
import importlib
import shutil
import subprocess
import sys

import pytest

needs_nm = pytest.mark.skipif(not shutil.which("nm"), reason="nm comes with a compiler")


@needs_nm
@pytest.mark.parametrize("name", ["unisono._core", "unisono.torch._backend"])
def test_a_module_exports_its_init_function_only(name):
    pytest.importorskip(name.rpartition(".")[0], exc_type=ImportError)
    file = importlib.import_module(name).__file__
    lines = subprocess.run(["nm", "--dynamic", "--defined-only", file], check=True, capture_output=True, text=True).stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["PyInit_" + name.rpartition(".")[2]]


@pytest.mark.parametrize("order", ["unisono, torch", "torch, unisono"])
def test_torch_is_imported_before_or_after(order):
    pytest.importorskip("torch.distributed")  # "torch" alone would be the folder of tests beside this file
    done = subprocess.run([sys.executable, "-c", f"import {order}; torch.ones(3).sum()"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# Each brings an OpenSSL of its own, and all of them are used.
@pytest.mark.parametrize("order", ["ssl, unisono.distributed", "unisono.distributed, ssl"])
def test_the_ssl_of_python_works_beside_ours(order):
    program = f"""
import {order}
store = unisono.distributed.TCPStore("127.0.0.1", 0, is_master=True)
left, right = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = ssl.create_default_context().wrap_bio(left, right, server_hostname="localhost")
try:
    tls.do_handshake()
except ssl.SSLWantReadError:
    pass
unisono.distributed.TCPStore("127.0.0.1", store.port).set("a", "1")
assert store.get("a") == b"1" and right.pending > 100
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
