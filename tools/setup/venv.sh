# For tools/setup/python and tools/setup/mindspore, which are in the project's root: virtual environments, and the package
# unisono in them. Not a command of its own.

quiet="-q --disable-pip-version-check --no-input"

# make_venv VENV PYTHON [OPTION]: unless it is there. One whose interpreter is gone, or that was copied from elsewhere, is
# made anew.
make_venv() {
  "$1/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
    [ "$("$1/bin/python" -c 'import sys; print(sys.prefix)')" = "$(pwd -P)/$1" ] && return
  rm -rf "$1"
  "$2" -m venv ${3:-} "$1"
}

# install_needed VENV PACKAGES: unless the same were installed before.
install_needed() {
  [ "$(cat "$1/needed" 2>/dev/null)" = "$2" ] && return
  echo "Installing into $1: $2"
  "$1/bin/pip" install $quiet $2
  echo "$2" >"$1/needed"
}

# install_unisono VENV BUILD: built in that folder, from what changed. By the compiler of build/release, under the same name: ccache
# then has the library already.
install_unisono() {
  export CXX="${CXX:-c++}"
  command -v ninja >/dev/null || export CMAKE_GENERATOR="Unix Makefiles"
  "$1/bin/pip" install $quiet --no-build-isolation --no-deps --force-reinstall --config-settings=build-dir="$2" .
}
