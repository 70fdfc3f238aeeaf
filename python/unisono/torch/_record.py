"""For what the backend was compiled: written beside it by `python -m unisono.torch build`, and compared by the import."""
import hashlib
import json
from pathlib import Path

import torch

OLDEST, NEWEST = (2, 9), (2, 15)  # versions that the backend is compiled against: tools/setup/torch-versions
HERE = Path(__file__).resolve().parent  # unisono/torch
PACKAGE = HERE.parent


def is_too_old(version):
    return _minor(version) < OLDEST


def is_newer_than_tried(version):
    return _minor(version) > NEWEST


def _minor(version):
    """(2, 13) of "2.13.0+cpu"."""
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2])


def headers(*places):
    """The folder with the library's headers: the first of these that has them, the package's own, or that of a checkout."""
    for place in (*places, PACKAGE / "include", PACKAGE.parent.parent / "include"):
        if place and (Path(place) / "unisono" / "distributed.hpp").exists():
            return Path(place).absolute()
    return None


def wanted(include):
    """What a module must have been compiled for to be loaded here. The library's headers have code in them, so they count, too."""
    fingerprint = hashlib.sha256()
    for header in sorted((include / "unisono").glob("*.h*")) if include else ():
        fingerprint.update(header.name.encode() + header.read_bytes())
    return {"torch": torch.__version__, "library": fingerprint.hexdigest()[:16]}


def write(folder, include):
    (folder / "_backend.json").write_text(json.dumps(wanted(include)) + "\n")


def remove(folder):
    (folder / "_backend.json").unlink(missing_ok=True)


def difference(folder):
    """"" where the module may be loaded; otherwise why not."""
    try:
        built_for = json.loads((folder / "_backend.json").read_text())
    except (OSError, ValueError):
        return "is not built for this environment yet; build it with"
    here = wanted(headers())
    if built_for.get("torch") != here["torch"]:
        return f"was built for torch {built_for.get('torch')}, and this is torch {here['torch']}; build it again with"
    if built_for.get("library") != here["library"]:
        return "was built for another version of the library than the one in this package; build it again with"
    return ""
