"""Whole Python programs as ranks, for what only a process of its own can show: how it ends, forks, and hears signals.

Each gets the names below; what it says() are lines that the test reads.
"""
import os
import queue
import subprocess
import sys
import tempfile
import threading

DEADLINE_S = 60.0

PREAMBLE = """
import os, signal, sys, threading, time
import numpy, unisono
import unisono.distributed as dist
rank, ranks, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts with & ignores it, and so do all below

def join(timeout=60):
    dist.init_process_group(rank=rank, world_size=ranks, init_method=meeting, timeout=timeout)

def say(*words):
    print(*words, flush=True)

def interrupt_in(name):
    '''As Ctrl-C would, once the main thread has come to the function of this name and stays in it.'''
    def watch():
        seen, give_up = 0, time.monotonic() + 50
        while seen < 5:
            if time.monotonic() > give_up:
                print(name, "was never called", file=sys.stderr, flush=True)
                os._exit(9)
            frame = sys._current_frames()[threading.main_thread().ident]
            seen = seen + 1 if frame.f_code.co_name == name else 0
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=watch, daemon=True).start()
"""


class Program:
    def __init__(self, source, rank, ranks, meeting, environment):
        self.process = subprocess.Popen([sys.executable, "-c", PREAMBLE + source, str(rank), str(ranks), meeting], text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        self.lines = queue.Queue()
        self.errors = []
        self.readers = [threading.Thread(target=self._read, daemon=True),
                        threading.Thread(target=lambda: self.errors.append(self.process.stderr.read()), daemon=True)]
        for reader in self.readers:
            reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def line(self):
        """The next line that it says; None when it has ended."""
        return self.lines.get(timeout=DEADLINE_S)

    def end(self):
        """(exit status, the lines that were not read yet, what it wrote to standard error), once it is over."""
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self.readers:
            reader.join(DEADLINE_S)
        self.process.stdout.close()
        self.process.stderr.close()
        rest = list(iter(self.lines.get, None))
        return self.process.returncode, rest, self.errors[0] if self.errors else ""


def start(source, ranks, **settings):
    """Starts the program on so many ranks; `settings` go into its environment."""
    meeting = "file://" + tempfile.mktemp(prefix="unisono-programs-")
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")} | settings
    return [Program(source, rank, ranks, meeting, environment) for rank in range(ranks)]


def run(source, ranks, **settings):
    """[(status, lines, errors)] of all ranks."""
    return [program.end() for program in start(source, ranks, **settings)]
