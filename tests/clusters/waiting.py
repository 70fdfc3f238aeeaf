"""Waiting for what nobody announces."""
import time


def wait_until(is_so, seconds):
    """Whether it is so by then. Nobody announces what is looked at here, so it is looked at twenty times a second."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
