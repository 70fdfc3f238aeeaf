"""Where NumPy is not installed: buffers and objects work, and whatever would give back an array says what is missing."""
import jobs

PROGRAM = """
import sys
sys.modules["numpy"] = None  # from here on, `import numpy` is what it is where there is none
import array
import unisono
import unisono.distributed as dist
from unisono import comm_func

dist.init_process_group()
rank, ranks = dist.get_rank(), dist.get_world_size()

data, numbers = bytearray([1, 2, 3]), array.array("d", [rank + 0.5])
dist.all_reduce(data)
dist.all_reduce(memoryview(numbers))
assert (data, numbers[0]) == (bytearray([2, 4, 6]), 2.0)

objects = [None] * ranks
dist.all_gather_object(objects, {"rank": rank, "text": "é" * rank})
assert objects == [{"rank": 0, "text": ""}, {"rank": 1, "text": "é"}]
dist.gather_object(rank, objects if rank == 1 else None, dst=1)
assert rank == 0 or objects == [0, 1]
mine = [None]
dist.scatter_object_list(mine, [b"zero", b"one"] if rank == 0 else None, src=0)
assert mine == [[b"zero", b"one"][rank]]
dist.broadcast_object_list(mine, src=1)
assert mine == [b"one"]
if rank == 0:
    dist.send_object_list([1, "two"], dst=1)
else:
    received = [None, None]
    assert dist.recv_object_list(received, src=0) == 0 and received == [1, "two"]

for call in (lambda: comm_func.all_reduce(data), lambda: unisono.zeros_shared(3),
             lambda: dist.all_reduce(memoryview(bytearray(6))[::2])):
    try:
        call()
    except (ImportError, unisono.Error) as error:
        assert "NumPy is not installed" in str(error), error
    else:
        raise AssertionError("an array was made of nothing")
dist.barrier()
print("all is well")
"""


def test_buffers_and_objects(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    done = jobs.unisono_run(2, tmp_path / "program.py")
    assert done.returncode == 0, jobs.explain(done)
    assert sorted(done.stdout.splitlines()) == ["[0] all is well", "[1] all is well"], jobs.explain(done)
