"""python -m unisono.torch build: compiles the backend against the torch of this environment."""
import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import torch

from unisono.torch import _record
from unisono.torch._record import HERE, PACKAGE

TREE = PACKAGE.parent.parent  # where this is a checkout


def first_with(pattern, *places):
    """The first file like this in one of the places."""
    for place in places:
        for path in sorted(Path(place).glob(pattern)) if place else ():
            return path.absolute()
    looked_in = "\n  ".join(str(place) for place in places if place)
    sys.exit(f"unisono.torch build: {pattern} is in none of\n  {looked_in}")


def arguments():
    parser = argparse.ArgumentParser(prog="python -m unisono.torch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", help="compile the backend against the torch of this environment")
    build.add_argument("--lib", metavar="DIR", help="where libunisono.so is, if not in the package")
    build.add_argument("--include", metavar="DIR", help="the folder that has unisono/distributed.hpp in it, if not in the package")
    build.add_argument("--output", metavar="DIR", default=HERE, type=Path, help="where the module goes, if not into the package")
    build.add_argument("--build-dir", metavar="DIR", help="keep what is compiled there, for the next time")
    build.add_argument("--jobs", type=int, default=2, help="how many compilers run at once (%(default)s)")
    return parser.parse_args()


def build(options, build_directory):
    oldest, newest = (".".join(map(str, version)) for version in (_record.OLDEST, _record.NEWEST))
    if _record.is_too_old(torch.__version__):
        sys.exit(f"unisono.torch build: torch {torch.__version__} is too old: the backend is for torch {oldest} and newer; unisono.distributed takes tensors of any torch")
    if _record.is_newer_than_tried(torch.__version__):
        print(f"unisono.torch build: torch {torch.__version__} is newer than {newest}, the newest that was tried; building all the same", file=sys.stderr)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    source = first_with("torch_backend/CMakeLists.txt", HERE / "src", TREE)
    include = _record.headers(options.include)
    if not include:
        sys.exit("unisono.torch build: unisono/distributed.hpp is not in the package; name its folder with --include")
    library = first_with("libunisono.so*", options.lib, PACKAGE, TREE / "build" / "release")
    torch_folder = Path(torch.__file__).parent
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "TORCH_INCLUDE": f"{torch_folder}/include;{torch_folder}/include/torch/csrc/api/include",
        "TORCH_LIB": torch_folder / "lib",
        "PYTHON_INCLUDE": sysconfig.get_paths()["include"],
        "SUFFIX": suffix,
        "UNISONO_INCLUDE": include,
        "UNISONO_LIBRARY": library,
        "CXX11_ABI": int(torch.compiled_with_cxx11_abi()),
    }
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = ["cmake", "-S", source.parent, "-B", build_directory, *generator, *(f"-D{name}={value}" for name, value in settings.items())]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build_directory, "-j", str(options.jobs)], check=True)
    options.output.mkdir(parents=True, exist_ok=True)
    _record.remove(options.output)  # what is half written is not loaded
    target = options.output / f"_backend{suffix}"
    shutil.copyfile(Path(build_directory) / target.name, options.output / "_backend.new")
    os.replace(options.output / "_backend.new", target)  # whoever has the old one loaded keeps it
    _record.write(options.output, include)
    print(f"{target}: built for torch {torch.__version__}")


def main():
    options = arguments()
    if not shutil.which("cmake"):
        sys.exit("unisono.torch build: there is no cmake; install it, 3.25 or newer")
    try:
        if options.build_dir:
            build(options, options.build_dir)
        else:
            with tempfile.TemporaryDirectory(prefix="unisono-torch-") as directory:
                build(options, directory)
    except subprocess.CalledProcessError as error:
        sys.exit(f"unisono.torch build: {error.cmd[0]} failed with status {error.returncode}; its words are above")


if __name__ == "__main__":
    main()
