// A program outside the project, built against the installed tree by install_test.cmake.
#include <iostream>
#include <unisono/types.hpp>

int main() {
  for (unisono::DType dtype : unisono::all_dtypes()) std::cout << unisono::name_of(dtype) << "\n";
}
