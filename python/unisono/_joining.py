"""What is rare about joining."""
import contextlib
import os
import sys

from unisono._errors import InitError


@contextlib.contextmanager
def joining():
    """Around joining: ends msrun's scheduler there.

    msrun starts the program once more for its scheduler, which is no rank. MindSpore's own init() never returns in it: it
    ends the process, with status 0, when the job is over. Nothing after init() is meant for the scheduler, so ours ends it too.
    """
    try:
        yield
    except InitError as error:
        if os.environ.get("MS_ROLE") != "MS_SCHED" or "scheduler" not in str(error):
            raise
        print("unisono: this process is msrun's scheduler, which is no rank: it ends here. A program that also uses "
              "mindspore.communication calls its init() first.", file=sys.stderr, flush=True)
        raise SystemExit(0) from None
