"""Checks that need a build directory: compile_commands.json says what is built and with which flags."""
import hashlib
import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


class Build:
    """What a build directory says of the tree's files."""

    def __init__(self, tree, directory):
        self.tree = tree
        self.directory = Path(directory)
        entries = json.loads((self.directory / "compile_commands.json").read_text())
        root = os.path.realpath(tree.root)
        self.commands = {os.path.relpath(os.path.realpath(entry["file"]), root): shlex.split(entry["command"])
                         for entry in entries}

    def flags_for(self, header):
        """Compiler and flags for a header: those of a source file beside it; of public ones, nothing but include/."""
        first = header.split("/")[0]
        like = [command for path, command in self.commands.items() if path.startswith(first + "/")]
        command = (like or list(self.commands.values()))[0]
        compiler = next(word for word in command if not word.endswith("ccache"))
        flags = ["-std=c++20", "-I", str(self.tree.root / "include")]
        if first != "include":
            flags += ["-I", str(self.tree.root / "src"), "-I", str(self.tree.root)]
            for word, following in zip(command, command[1:] + [""]):
                flags += [word, following] if word == "-isystem" else [word] if re.match(r"-[ID].", word) else []
        return [compiler] + flags


def check_sources_are_built(tree, build):
    """Every source file is part of the build."""
    for path in tree.cpp("src/", "tools/", "tests/"):
        if path.endswith(".cpp") and not path.startswith("tests/install/") and path not in build.commands:
            yield path, 1, f"not in {build.directory.name}/compile_commands.json: nothing builds it"


def check_headers_stand_alone(tree, build):
    """Every header compiles alone, and twice. What has compiled is remembered, so that a second run is quick."""
    memory = build.directory / "tidy_headers"
    memory.mkdir(exist_ok=True)
    headers = [path for path in tree.cpp("src/", "include/", "tools/", "tests/")  # bindings need what only their builds have
               if path.endswith((".hpp", ".h")) and not is_first_in_its_source(tree, build, path)]

    def fault_of(header):
        command = build.flags_for(header) + ["-fsyntax-only", "-x", "c++", "-"]
        mark = memory / fingerprint(tree, header, command)
        if mark.exists():
            return None
        place = header.removeprefix("src/").removeprefix("include/")
        result = subprocess.run(command, input=f'#include "{place}"\n' * 2, capture_output=True, text=True)
        if result.returncode == 0:
            mark.touch()
            return None
        errors = [line for line in result.stderr.split("\n") if "error:" in line]
        return header, 1, "does not compile alone: " + (errors or [result.stderr.strip()])[0]

    with ThreadPoolExecutor(int(os.environ.get("CTEST_PARALLEL_LEVEL") or os.cpu_count())) as workers:
        yield from filter(None, workers.map(fault_of, headers))


def is_first_in_its_source(tree, build, header):
    """Whether the build itself has compiled this header alone, because x.cpp begins by including x.hpp."""
    source = header.removesuffix(".hpp") + ".cpp"
    if source not in build.commands or source not in tree.paths or "#pragma once" not in tree.text(header):
        return False
    first = next(tree.includes(source), (0, "", True))
    return first[1:] == (header.removeprefix("src/"), True)


def fingerprint(tree, header, command):
    """A hash of the command and of the header with every file of ours that it includes, however far down."""
    seen, waiting = set(), [header]
    digest = hashlib.sha256("\0".join(command).encode())
    while waiting:
        path = waiting.pop()
        if path in seen or path not in tree.paths:
            continue
        seen.add(path)
        digest.update(tree.text(path).encode())
        for _, name, _ in sorted(tree.includes(path)):
            waiting += [name, "src/" + name, "include/" + name]
    return digest.hexdigest()
