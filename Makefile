# The commands of the project. `make run` and `make test` do all set-up themselves; see HACKING.md.
.DEFAULT_GOAL := help
.PHONY: clusters torch-versions python python-asan mindspore wheels help run test test-all rough torture deps setup build debug asan tsan arm install format clean

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
SETUP ?= tools/setup/dependencies
UNISONO = build/release/unisono

export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
export CTEST_PARALLEL_LEVEL ?= $(JOBS)
# Looked up by each recipe anew, since `setup` may just have installed it.
export CMAKE_GENERATOR = $(if $(shell command -v ninja 2>/dev/null),Ninja,Unix Makefiles)

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

run: setup ## build the library and the command and take the tour: five collectives in both dialects, on 4 ranks
	cmake --preset release
	cmake --build --preset release --target unisono_command
	$(UNISONO) tour

python: setup ## make .venv with torch, the package unisono and the command in it (TORCH=no: without torch)
	tools/setup/dependencies python
	tools/setup/python

mindspore: setup ## make .venv-mindspore (800 MB to download) and test both dialects on MindSpore's tensors there, and under msrun
	tools/setup/dependencies python
	tools/setup/mindspore
	.venv-mindspore/bin/python -m pytest -q tests/python/mindspore

torch-versions: setup ## compile the torch backend against the headers of torch 2.9 to 2.15 (up to 900 MB to download for each; 80 MB of each are kept)
	tools/setup/torch-versions

wheels: setup ## for python3.11, 3.12 and 3.13 as far as they are here: a wheel into dist/, a fresh environment, the tests without torch
	tools/setup/wheels

test: setup ## build and run all tests, and the small ones again under the sanitizers (about half an hour on two cores from nothing, Python and torch included)
	tests/run release asan tsan python

test-all: setup ## the same with the full matrices, with fault points in a debug build, Python under the sanitizers, and the live tests in every rough mode (hours)
	UNISONO_TEST_FULL=1 tests/run release debug asan-all tsan-all python python-asan rough clusters

rough: setup ## run the live tests as an ordinary user, with few descriptors, with closed streams, … (tests/rough/run lists the modes)
	tests/run rough

clusters: setup ## run jobs under mpirun, prterun, srun and ssh on two machines, which are network namespaces (as root; installs Debian's Open MPI, Slurm, munge and OpenSSH, and Open MPI 5, Ray and Dask into .venv-clusters)
	tests/run clusters

torture: setup ## random calls and random deaths for UNISONO_TORTURE_SECONDS=600, and a death at every fault point
	tests/torture/run

setup:
	@$(SETUP)

deps: ## without root: unpack the Debian packages that the build needs into .deps/
	tools/setup/dependencies unpack

build: setup ## build the library, the command and the tests into build/release
	cmake --preset release
	cmake --build --preset release

debug: setup ## build with -O1 -g and fault points into build/debug
	cmake --preset debug
	cmake --build --preset debug

asan: setup ## run the small tests under AddressSanitizer and UndefinedBehaviorSanitizer
	tests/run asan

tsan: setup ## run the small tests under ThreadSanitizer
	tests/run tsan

python-asan: setup ## run Python's and torch's tests with the package built with AddressSanitizer and UndefinedBehaviorSanitizer
	tests/run python-asan

arm: setup ## cross-build for aarch64 and run the kernel, schedule and protocol tests under qemu
	tools/setup/dependencies arm
	tests/run arm

install: setup ## install headers, library, command and CMake package: make install PREFIX=/usr/local
	cmake --preset release
	cmake --build --preset release --target unisono_command
	cmake --install build/release --prefix "$(PREFIX)"

format: ## bring all C++ sources into the form of .clang-format
	@command -v clang-format >/dev/null || { echo "Missing: sudo apt-get install clang-format"; exit 1; }
	find include src tests tools -name '*.[ch]pp' -exec clang-format -i {} +

clean: ## remove build/ (but not .deps/)
	rm -rf build
