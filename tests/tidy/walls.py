"""Who may include whom. A layer is a directory of src/; ARCHITECTURE.md has the picture and the reasons."""
import re
from fnmatch import fnmatch

# layer → the layers it may include besides itself. Everybody may include include/unisono and the standard library.
LAYERS = {
    "base": (),
    "kernels": ("base",),
    "trust": ("base",),
    "transport": ("base", "trust"),
    "schedule": ("base",),
    "rendezvous": ("base", "trust", "transport"),
    "algorithms": ("base", "schedule"),
    "simulation": ("base", "schedule", "algorithms"),
    "engine": ("base", "schedule", "transport", "kernels"),
    "planner": ("base", "schedule", "algorithms"),
    "group": ("base", "schedule", "trust", "transport", "kernels", "rendezvous", "engine", "planner"),
    "dialects": ("base", "group"),
    "doctor": ("base", "trust", "transport", "kernels", "rendezvous"),
}

# Libraries of others → the places that may include them.
LIBRARIES = {
    "hwy/*": ("src/kernels/",),
    "openssl/*": ("src/trust/", "tests/tls_test.cpp"),
    "asio/*": ("src/rendezvous/store_session", "src/rendezvous/store_server.cpp"),
    "asio.hpp": (),
    "CLI/*": ("tools/",),
    "gtest/*": ("tests/",),
    "gmock/*": ("tests/",),
    "fmt/*": ("src/", "tools/", "tests/"),
}

# Schedules and algorithms are pure: no clock, no threads, no system. So are the rules by which hosts decide.
PURE = ("schedule", "algorithms")
PURE_FILES = ("src/group/ballot.cpp", "src/group/ballot.hpp")
IMPURE_HEADERS = ("chrono", "ctime", "time.h", "thread", "mutex", "condition_variable", "atomic", "sys/*", "unistd.h",
                  "fcntl.h", "poll.h", "netinet/*", "arpa/*", "linux/*")


# A group's protocol: what it says to its members and knows of them goes through src/group/members.hpp, so that they may be elsewhere.
PROTOCOL = tuple(f"src/group/{name}" for name in ("agree.cpp", "ballot.cpp", "ballot.hpp", "call_work.hpp", "group.cpp", "group.hpp", "group_leave.cpp", "mailbox.cpp",
                                                  "mailbox.hpp", "queue.cpp", "shrink.cpp", "signatures.cpp", "signatures.hpp", "trouble.cpp"))


def check_protocol(tree):
    """The group's protocol knows no lanes and no memory orders."""
    for path in tree.cpp():
        if path in PROTOCOL:
            for line, match in tree.find(path, r"\bmemory_order\w*|\blanes?_?\b|\bLane\w*|\bArenaHead\b"):
                yield path, line, f"{match[0]}: say it through Members"


# What steps over links may ask of the lanes: who is a member, and where. Bytes come and go through channels.
MEMBERSHIP = ("me", "member", "members", "is_here")


def check_link_steps(tree):
    """Steps over links touch no lane."""
    for line, match in tree.find("src/engine/run_links.cpp", r"\blanes_\.(\w+)|\bmemory_order\w*|\bLaneControl\b"):
        if match[1] not in MEMBERSHIP:
            yield "src/engine/run_links.cpp", line, f"{match[0]}: links go through channels"


def check_include_walls(tree):
    """Includes keep to the layers."""
    for path in tree.cpp():
        layer = layer_of(path)
        if path.startswith("src/") and layer not in LAYERS:
            yield path, 1, f"src/{layer} is not in the table of layers (tests/tidy/walls.py)"
            continue
        for line, name, quoted in tree.includes(path):
            ours = quoted and not any(fnmatch(name, library) for library in LIBRARIES)
            fault = fault_of_project_include(path, name) if ours else fault_of_library_include(path, name)
            if fault:
                yield path, line, fault


def layer_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]


def fault_of_project_include(path, name):
    target = name.split("/")[0]
    if target == "unisono":
        return None
    if target in ("python", "torch_backend") and path.startswith(target + "/"):
        return None
    if path.startswith(("include/", "python/", "torch_backend/")):
        return f'"{name}": bindings and what users compile against include unisono/ only'
    if target not in LAYERS and target not in ("tools", "tests"):
        return f'"{name}": write the path from src/ (or from the root, for tools/ and tests/)'
    if target == "tools" and path.startswith("tests/"):
        return None  # what is pure in the command has tests of its own
    if target in ("tools", "tests"):
        return None if path.startswith(target + "/") else f'"{name}": nothing includes {target}/'
    layer = layer_of(path)
    if layer in ("tools", "tests") or target == layer or target in LAYERS[layer]:
        return None
    return f'"{name}": {layer} may include {", ".join(LAYERS[layer]) or "no other layer"}, not {target}'


def fault_of_library_include(path, name):
    allowed = r"std(?:int|def|bool)\.h" if path.endswith(".h") else r"[a-z0-9_]+|unisono/\w+\.hpp"
    if path.startswith("include/") and not re.fullmatch(allowed, name):
        return f"<{name}>: a public header includes unisono/ and the standard library only"
    for pattern, places in LIBRARIES.items():
        if fnmatch(name, pattern) and not path.startswith(places):
            return f"<{name}>: only for {', '.join(places)}"
    if (layer_of(path) in PURE or path in PURE_FILES) and any(fnmatch(name, pattern) for pattern in IMPURE_HEADERS):
        return f"<{name}>: {path if path in PURE_FILES else layer_of(path)} is pure, without clock, threads or system"
    return None
