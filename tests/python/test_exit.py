"""A program's own clean-up at exit finds the world still there, also where it was registered before the library was imported."""
import subprocess
import sys

import pytest

import programs

REGISTER = "import atexit; atexit.register(lambda: (dist.barrier(), dist.destroy_process_group(), print('cleaned up')))\n"


@pytest.mark.parametrize("with_torch", [False, True])
def test_clean_up_comes_before_the_library_leaves(with_torch, tmp_path):
    program = REGISTER + "import unisono.distributed as dist; dist.init_process_group(rank=0, world_size=1)"
    if with_torch:
        pytest.importorskip("unisono.torch", exc_type=ImportError)
        program = REGISTER + "import torch.distributed as dist; import unisono.torch\n" \
                             f"dist.init_process_group('unisono', init_method='file://{tmp_path}/meeting', rank=0, world_size=1)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "cleaned up\n"), done.stderr


def test_without_any_the_world_is_left_all_the_same():
    source = """
join()
if rank == 0:
    try:
        dist.barrier()
    except unisono.PeerLostError as error:
        say("told" if "rank 1" in str(error) and "left" in str(error) else error)
"""
    assert programs.run(source, 2) == [(0, ["told"], ""), (0, [], "")]


def test_an_exception_that_nobody_caught_is_told_to_those_who_wait():
    source = """
join()
if rank == 1:
    raise ValueError("a bad batch\\nof many lines")
try:
    dist.barrier()
except unisono.PeerLostError as error:
    say("told" if "rank 1" in str(error) and " after ValueError: a bad batch;" in str(error) else error)
"""
    told, failed = programs.run(source, 2)
    assert told == (0, ["told"], "")
    assert failed[0] == 1 and "ValueError" in failed[2]
