"""The whole rough tier: every ctest of the release build that is labelled `live`, in every mode."""
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
from typing import NamedTuple

from rough import excluded, modes

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run")
SKIPPED = 77


class Test(NamedTuple):
    command: list
    environment: dict
    folder: str
    seconds: float


def run():
    """(failed, total) of all modes together. What a machine cannot provide is named and counts as neither."""
    tests = live_tests()
    failed, total = 0, 0
    for name in os.environ.get("UNISONO_TEST_MODES", "").split() or modes.MODES:
        one_failed, one_total = run_mode(modes.MODES[name], tests)
        failed, total = failed + one_failed, total + one_total
    return (failed, total)


def live_tests():
    """name → its command, environment, folder and seconds"""
    listed = subprocess.run(["ctest", "--preset", "release", "-L", "^live$", "--show-only=json-v1"], capture_output=True, text=True, check=True)
    tests = {}
    for test in json.loads(listed.stdout)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test["properties"]}
        environment = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
        tests[test["name"]] = Test(test["command"], environment, properties["WORKING_DIRECTORY"], float(properties.get("TIMEOUT", 120)))
    return tests


def run_mode(mode, tests):
    print(f"\n--- rough {mode.name}: {mode.sentence}", flush=True)
    if reason := mode.cannot():
        print(f"Skipped: {reason}", flush=True)
        return (0, 0)
    left_out = {row.test: row for row in excluded.ROWS if row.modes.search(mode.name)}
    unknown = set(left_out) - set(tests)
    if unknown:
        print(f"tests/rough/excluded.py names tests that there are not: {', '.join(sorted(unknown))}", flush=True)
        return (1, 1)
    results = {}
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("CTEST_PARALLEL_LEVEL") or os.cpu_count())) as pool:
        started = {pool.submit(run_test, mode, tests[name], left_out.get(name)): name
                   for name in tests if not is_whole(left_out.get(name))}
        for future in concurrent.futures.as_completed(started):
            status, output = future.result()
            results[started[future]] = status
            if status:
                print(f"*** {started[future]}, mode {mode.name}: exit status {status}\n{output[-8000:]}", flush=True)
    for row in left_out.values():
        print(f"left out: {row.test}{'' if is_whole(row) else ' ' + row.only}: {row.reason}")
    failed = sum(status not in (0, SKIPPED) for status in results.values())
    total = len(results)
    print(f"rough {mode.name}: {total - failed} of {total}\n"
          f"{100 * (total - failed) // max(total, 1)}% tests passed, {failed} tests failed out of {total}", flush=True)
    for name, status in sorted(results.items()):
        if status:
            print(f"    {name} ({'skipped' if status == SKIPPED else 'failed'})", flush=True)
    return (failed, total)


def is_whole(row):
    return row is not None and not row.only


def run_test(mode, test, row):
    """(exit status, output). The matrices are the ordinary ones: it is the surroundings that vary here."""
    seconds = 2 * test.seconds
    filters = [f"--gtest_filter=-{row.only}"] if row else []
    kept = {name: value for name, value in os.environ.items() if name != "UNISONO_TEST_FULL"}
    process = subprocess.Popen([sys.executable, PROGRAM, mode.name, *test.command, *filters], env=kept | test.environment, cwd=test.folder,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        output = process.communicate(timeout=seconds)[0]
        return (process.returncode, output)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # a session of its own: the program and its ranks, nobody else
        return (1, process.communicate()[0] + f"\nnot finished after {seconds:.0f} s")
