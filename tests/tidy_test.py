#!/usr/bin/env python3
"""Holds the project to its own style: the include walls, the numbers, the habits, the links.

Run by ctest as `tidy`, or by hand: python3 tests/tidy_test.py. What each check must find and must leave alone is in
tests/tidy/samples.py, and TheChecks below tries them, so that no check is one that cannot fail.
"""
import json
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests"))

from tidy import builds, checks, documents, functions, walls  # noqa: E402
from tidy.samples import SAMPLES  # noqa: E402
from tidy.source import Tree  # noqa: E402

TREE = Tree(ROOT)
BUILD_DIRECTORY = Path(os.environ.get("UNISONO_BUILD_DIRECTORY") or ROOT / "build" / "release")


class TheProject(unittest.TestCase):
    """Each check on the real files."""

    def holds(self, check, *arguments):
        faults = list(check(TREE, *arguments))
        report = "\n".join(f"  {path}:{line}: {text}" for path, line, text in faults)
        self.assertFalse(faults, f"\n{check.__doc__.strip()}\n{report}")

    def build(self):
        if "UNISONO_BUILD_DIRECTORY" not in os.environ and not (BUILD_DIRECTORY / "compile_commands.json").exists():
            self.skipTest(f"no build in {BUILD_DIRECTORY}; try make build")
        return builds.Build(TREE, BUILD_DIRECTORY)

    def test_includes_keep_to_the_layers(self):
        self.holds(walls.check_include_walls)

    def test_files_are_short(self):
        self.holds(checks.check_file_length)

    def test_functions_fit_a_screen(self):
        self.holds(checks.check_function_length)

    def test_parameters_are_few(self):
        self.holds(checks.check_parameter_count)

    def test_macros_are_three(self):
        self.holds(checks.check_macros)

    def test_nothing_jumps(self):
        self.holds(checks.check_goto)

    def test_raw_pointers_own_nothing(self):
        self.holds(checks.check_owning_pointers)

    def test_the_groups_protocol_knows_no_shared_memory(self):
        self.holds(walls.check_protocol)

    def test_steps_over_links_touch_no_lane(self):
        self.holds(walls.check_link_steps)

    def test_the_environment_is_read_in_one_file(self):
        self.holds(checks.check_environment)

    def test_only_kernels_switch_on_the_dtype(self):
        self.holds(checks.check_dtype_switches)

    def test_globals_are_constant(self):
        self.holds(checks.check_globals)

    def test_tests_do_not_sleep(self):
        self.holds(checks.check_sleeps)

    def test_atomics_are_argued(self):
        self.holds(checks.check_atomics_are_argued)

    def test_nothing_is_marked_unfinished(self):
        self.holds(checks.check_unfinished_marks)

    def test_links_lead_somewhere(self):
        self.holds(documents.check_links)

    def test_readme_snippets_can_be_run(self):
        self.holds(documents.check_readme_snippets)

    def test_functions_have_rows(self):
        self.holds(functions.check_functions_have_rows)

    def test_every_source_is_built(self):
        self.holds(builds.check_sources_are_built, self.build())

    def test_headers_stand_alone(self):
        self.holds(builds.check_headers_stand_alone, self.build())


class TheChecks(unittest.TestCase):
    """Each check on its samples: it finds exactly the marked lines."""

    def test_each_check_has_samples_and_a_test_of_its_own(self):
        tests = Path(__file__).read_text()
        for module in (walls, checks, documents, functions, builds):
            for name, check in vars(module).items():
                if name.startswith("check_"):
                    self.assertIn(check, SAMPLES, f"{name} has no samples")
                    self.assertIn(f"self.holds({module.__name__.split('.')[1]}.{name}", tests)

    def test_checks_find_what_is_marked_and_nothing_else(self):
        for check, sample in SAMPLES.items():
            with self.subTest(check=check.__name__), tempfile.TemporaryDirectory() as directory:
                marked = write_sample(Path(directory), sample)
                self.assertTrue(marked, "a sample without a fault proves nothing")
                tree = Tree(directory)
                arguments = [builds.Build(tree, directory)] if check.__module__ == "tidy.builds" else []
                found = {(path, line) for path, line, _ in check(tree, *arguments)}
                self.assertEqual(found, marked)


def write_sample(root, sample):
    """Writes the files without their marks; returns the marked (path, line) pairs."""
    marked = set()
    for path, text in sample.items():
        lines = text.split("\n")
        marked |= {(path, number) for number, line in enumerate(lines, 1) if line.endswith("//!")}
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("\n".join(re.sub(r"\s*//!$", "", line) for line in lines))
    built = {"file": str(root / "src/base/built.cpp"), "directory": str(root), "command": "c++ -c built.cpp"}
    (root / "compile_commands.json").write_text(json.dumps([built]))
    return marked


if __name__ == "__main__":
    unittest.main()
