# Cross-building for aarch64 on Debian: the compiler of g++-aarch64-linux-gnu, the arm64 libraries that
# `tools/setup/dependencies arm` unpacked into .deps/arm64, and qemu-user to run the tests. Use: make arm
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CXX_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# Packages come from .deps/arm64 and from nowhere else, so that no header or library of this machine slips in.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH project_directory)
set(CMAKE_FIND_ROOT_PATH ${project_directory}/.deps/arm64)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
