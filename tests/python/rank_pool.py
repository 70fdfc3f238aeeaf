"""Ranks for tests: processes that stay, since starting Python and importing torch costs seconds, and each run joins a new world.

    def gives_its_rank(base):            # in a test's module, at its top level
        return base + dist.get_rank()

    assert pool.run(gives_its_rank, 3, 10) == [10, 11, 12]

A rank that raises leaves the world, so that the others end too; the failure shows everybody's traceback. A run that is not over
at its deadline shows where each rank is, and the next run gets new processes.
"""
import contextlib
import faulthandler
import importlib.util
import os
import pathlib
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback

DEADLINE_S = 100.0
JOIN_TIMEOUT_S = 60.0


def has_torch():
    """Whether torch is installed. The folder tests/python/torch would answer to that name alone."""
    try:
        return importlib.util.find_spec("torch.distributed") is not None
    except ModuleNotFoundError:
        return False


class Pool:
    def __init__(self):
        self.workers = []
        self.folder = tempfile.TemporaryDirectory(prefix="unisono-ranks-")
        self.runs = 0

    def run(self, function, ranks, *arguments, **settings):
        """What the function returns, rank by rank; it is called on so many ranks of a world of their own, which has these settings."""
        while len(self.workers) < ranks:
            self.workers.append(Worker(pathlib.Path(self.folder.name) / f"errors-{self.runs}-{len(self.workers)}"))
        self.runs += 1
        meeting = f"file://{self.folder.name}/world-{self.runs}"
        workers = self.workers[:ranks]
        for rank, worker in enumerate(workers):
            worker.ask((function.__code__.co_filename, function.__name__, rank, ranks, meeting, settings, arguments))
        answers = self._collect(workers)
        if not all(good for good, _ in answers):
            raise AssertionError("\n".join(f"--- rank {rank}: {answer}" for rank, (_, answer) in enumerate(answers)))
        return [answer for _, answer in answers]

    def _collect(self, workers):
        deadline = time.monotonic() + DEADLINE_S
        with selectors.DefaultSelector() as selector:
            for index, worker in enumerate(workers):
                selector.register(worker.answers, selectors.EVENT_READ, index)
            answers = [None] * len(workers)
            while None in answers:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    self._give_up(workers, answers)
                for key, _ in ready:
                    answers[key.data] = workers[key.data].answer()
                    selector.unregister(key.fileobj)
        self.workers = [worker for worker in self.workers if worker.process.poll() is None]
        return answers

    def _give_up(self, workers, answers):
        for worker in workers:
            worker.process.send_signal(signal.SIGUSR1)  # faulthandler writes down where every thread is, and it ends
        for worker in workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(10)
        texts = [worker.errors.read_text(errors="replace")[-4000:] for worker in workers]
        self.close()
        raise AssertionError(f"after {DEADLINE_S} s there are only {answers}\n" +
                             "\n".join(f"--- rank {rank}:\n{text}" for rank, text in enumerate(texts)))

    def close(self):
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
        self.workers = []


class Worker:
    def __init__(self, errors):
        self.errors = errors
        theirs_in, self.questions = os.pipe()
        self.answers, theirs_out = os.pipe()
        with open(errors, "wb") as stream:
            self.process = subprocess.Popen([sys.executable, __file__, str(theirs_in), str(theirs_out)],
                                            pass_fds=(theirs_in, theirs_out), stderr=stream, stdin=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)

    def ask(self, question):
        _write(self.questions, pickle.dumps(question))

    def answer(self):
        data = _read(self.answers)
        if data is None:
            status = self.process.wait()
            return False, f"the process ended with status {status}\n" + self.errors.read_text(errors="replace")[-4000:]
        return pickle.loads(data)


def _write(descriptor, data):
    data = len(data).to_bytes(8, "little") + data
    while data:
        data = data[os.write(descriptor, data):]


def _read(descriptor):
    def exactly(count):
        parts = []
        while count and (part := os.read(descriptor, count)):
            parts.append(part)
            count -= len(part)
        return None if count else b"".join(parts)

    head = exactly(8)
    return None if head is None else exactly(int.from_bytes(head, "little"))


def _module(path):
    name = "ranks_of_" + pathlib.Path(path).stem
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _perform(question):
    path, name, rank, ranks, meeting, settings, arguments = question
    import unisono.distributed as dist
    os.environ.update(settings)
    try:
        function = getattr(_module(path), name)
        dist.init_process_group(rank=rank, world_size=ranks, init_method=meeting, timeout=JOIN_TIMEOUT_S)
        return True, function(*arguments)
    except BaseException:
        return False, traceback.format_exc()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        for setting in settings:
            del os.environ[setting]


def _serve(questions, answers):
    faulthandler.register(signal.SIGUSR1, chain=True)
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    while (data := _read(questions)) is not None:
        try:
            answer = pickle.dumps(_perform(pickle.loads(data)))
        except Exception:
            answer = pickle.dumps((False, traceback.format_exc()))
        _write(answers, answer)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
