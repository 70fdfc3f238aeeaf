"""What is rare about joining."""
import contextlib
import importlib.util
import os
import sys
from pathlib import Path

from unisono._errors import InitError


def point_out_ucx():
    """Where PyPI's libucx-cu12 (or -cu13) has put UCX, if it may be wanted and nobody has said where it lies."""
    if os.environ.get("UNISONO_FABRIC") != "trusted" or "UNISONO_UCX_LIBRARY" in os.environ:
        return
    package = importlib.util.find_spec("libucx")
    for folder in package.submodule_search_locations or () if package else ():
        if (library := Path(folder, "lib", "libucp.so.0")).exists():
            os.environ["UNISONO_UCX_LIBRARY"] = str(library)


@contextlib.contextmanager
def joining():
    """Around joining: ends msrun's scheduler there.

    msrun starts the program once more for its scheduler, which is no rank. MindSpore's own init() never returns in it: it
    ends the process, with status 0, when the job is over. Nothing after init() is meant for the scheduler, so ours ends it too.
    """
    point_out_ucx()
    try:
        yield
    except InitError as error:
        if os.environ.get("MS_ROLE") != "MS_SCHED" or "scheduler" not in str(error):
            raise
        print("unisono: this process is msrun's scheduler, which is no rank: it ends here. A program that also uses "
              "mindspore.communication calls its init() first.", file=sys.stderr, flush=True)
        raise SystemExit(0) from None
