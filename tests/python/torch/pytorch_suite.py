#!/usr/bin/env python3
"""PyTorch's own tests of torch.distributed, with the backend unisono.

    python tests/python/torch/pytorch_suite.py                     # the slice for every run, 2 ranks
    python tests/python/torch/pytorch_suite.py --all --ranks 4     # all but those in pytorch_excluded.txt
    python tests/python/torch/pytorch_suite.py test_ddp_grad_div_uneven_inputs

The suite asks for Gloo or MPI by name where it means "a backend of the CPU that can do this". The name that it is given here
is "unisono" to torch and equal to "gloo" and "mpi" when compared with them, so those tests run too. What needs Gloo itself, or
a GPU, is skipped by the suite or is in the list of exclusions, with the reason.

Each test starts its ranks anew, as forks of this process. The suite itself would spawn them, as processes that import this file, so
all of this is at module level.
"""
import argparse
import functools
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent


class AnyOfTheCpu(str):
    """A backend's name that passes where the suite asks for one of the CPU."""

    def __eq__(self, other):
        return str.__eq__(self, other) or other in ("gloo", "mpi")

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash("gloo")  # so that it is found in sets, too


os.environ.setdefault("BACKEND", "unisono")
os.environ.setdefault("WORLD_SIZE", "2")
if "TEMP_DIR" not in os.environ:  # the suite sets it anew for each test
    os.environ["TEMP_DIR"] = tempfile.mkdtemp(prefix="unisono-suite-")
first_folder = os.environ["TEMP_DIR"]
Path(os.environ["TEMP_DIR"], "barrier").mkdir(exist_ok=True)

import torch.multiprocessing  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

import unisono.torch  # noqa: E402, F401


def skip_below_three_ranks(function):
    """Instead of the suite's own, which skips groups of some of the ranks below eight for the sake of its GPUs."""

    @functools.wraps(function)
    def run_or_skip(*arguments, **options):
        if int(os.environ["WORLD_SIZE"]) < 3:
            sys.exit(common_distributed.TEST_SKIPS["small_worldsize"].exit_code)
        return function(*arguments, **options)

    return run_or_skip


common_distributed.skip_if_small_worldsize = skip_below_three_ranks
for feature in ("ddp", "subgroup", "plugin"):
    common_distributed.DistTestCases.backend_feature[feature].add("unisono")


class Environment(dict):
    def __getitem__(self, name):
        value = dict.__getitem__(self, name)
        return AnyOfTheCpu(value) if name == "BACKEND" else value


_environ, os.environ = os.environ, Environment(os.environ)  # the suite reads its backend's name when it is imported
from torch.testing._internal.distributed import distributed_test  # noqa: E402

os.environ = _environ


class TestUnisono(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def _spawn_processes(self):
        """Forks instead: this process has torch loaded and has done nothing with it, and loading it anew takes seconds a rank."""
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    def setUp(self):
        super().setUp()
        self._spawn_processes()


del distributed_test.TestDistBackend  # only ours is to be found


def entries(name):
    """The lines of a list: a test's name and what comes after it."""
    lines = (HERE / name).read_text().splitlines()
    return dict(line.split(maxsplit=1) if " " in line else (line, "") for line in lines if line and not line.startswith("#"))


def chosen(options):
    known = [name for name in unittest.TestLoader().getTestCaseNames(TestUnisono)]
    excluded = entries("pytorch_excluded.txt")
    for name in [*excluded, *entries("pytorch_slice.txt"), *options.tests]:
        if name not in known:
            sys.exit(f"{name} is no test of this torch's suite")
    if options.tests:
        return options.tests
    if options.all:
        names = [name for name in known if name not in excluded]
        return names[options.part::options.parts]
    return list(entries("pytorch_slice.txt"))


class Line(unittest.TextTestResult):
    """A line for each test, with how long it took."""

    def startTest(self, test):
        unittest.TestResult.startTest(self, test)
        self.began = time.monotonic()

    def say(self, test, outcome):
        print(f"{time.monotonic() - self.began:6.1f} s  {outcome:4}  {test._testMethodName}", flush=True)

    def addSuccess(self, test):
        unittest.TestResult.addSuccess(self, test)
        self.say(test, "ok")

    def addError(self, test, error):
        unittest.TestResult.addError(self, test, error)
        self.say(test, "FAIL")
        print(self.errors[-1][1], flush=True)

    def addFailure(self, test, error):
        unittest.TestResult.addFailure(self, test, error)
        self.say(test, "FAIL")
        print(self.failures[-1][1], flush=True)

    def addSkip(self, test, reason):
        unittest.TestResult.addSkip(self, test, reason)
        self.say(test, f"skip ({reason})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--all", action="store_true", help="every test but the excluded ones")
    parser.add_argument("--ranks", default=2, type=int)
    parser.add_argument("--parts", default=1, type=int, help="run one of so many equal parts")
    parser.add_argument("--part", default=0, type=int, help="which of them")
    options = parser.parse_args()
    if os.environ["WORLD_SIZE"] != str(options.ranks):  # the suite looks at it when it is imported
        os.environ["WORLD_SIZE"] = str(options.ranks)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    names = chosen(options)
    suite = unittest.TestSuite(TestUnisono(name) for name in names)
    result = unittest.TextTestRunner(resultclass=Line, verbosity=0).run(suite)
    shutil.rmtree(first_folder, ignore_errors=True)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed - len(result.skipped)} passed, {failed} failed, {len(result.skipped)} skipped by the suite")
    sys.exit(1 if failed or result.testsRun != len(names) else 0)


if __name__ == "__main__":
    main()
