"""Has the ranks of one job go through the cases of a module: functions `case_…()` of `cases_….py`, in the order of the file.

One job for all of them, since importing MindSpore takes seconds. Run as a program, this file is one rank.
"""
import importlib
import json
import re
import sys
import tempfile
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import jobs  # noqa: E402


def names(module):
    """Of the cases, read from the file, so that MindSpore need not be imported."""
    return re.findall(r"^def (case_\w+)", (HERE / f"{module}.py").read_text(), re.MULTILINE)


def outcomes(module, ranks):
    """What each case said, all ranks together: nothing where it went well."""
    with tempfile.TemporaryDirectory(prefix="unisono-mindspore-") as folder:
        done = jobs.unisono_run(ranks, __file__, module, folder)
        found = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("rank-*.json"))]
        said = {name: "".join(each.get(name, "this case was not reached\n") for each in found) for name in names(module)}
        said["the end"] = "" if done.returncode == 0 and len(found) == ranks else jobs.explain(done)
        return said


def be_a_rank(module_name, folder):
    import unisono

    module = importlib.import_module(module_name)
    unisono.communication.init()
    rank, said = unisono.communication.get_rank(), {}
    for name in names(module_name):
        try:
            getattr(module, name)()
            said[name] = ""
        except Exception:
            said[name] = f"rank {rank}\n{traceback.format_exc()}"
        Path(folder, f"rank-{rank}.json").write_text(json.dumps(said))
    unisono.communication.release()


if __name__ == "__main__":
    be_a_rank(*sys.argv[1:])
