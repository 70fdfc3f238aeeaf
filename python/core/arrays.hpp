// Arrays of whatever kind a user has, as the library takes them: NumPy, torch, MindSpore, anything with DLPack or a buffer.
// Contiguous memory is never copied.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <vector>

#include "unisono/tensor.hpp"

namespace unisono::python {

namespace nb = nanobind;

// Whose arrays they are: what is given back is of the kind that was given.
enum class Kind { numpy, torch, mindspore, dlpack, buffer };

enum class Access { read, write };  // `write` includes reading

// One argument. While a call is under way somebody has to hold it.
struct Array {
  TensorView view;
  Kind kind = Kind::numpy;
  bool written = false;     // the call writes it
  nb::object given;         // what the user gave
  nb::object owner;         // keeps the memory: the object itself, a view of it, or a contiguous copy
  nb::object copied_from;   // where the owner is a copy that the call writes: what to copy it to afterwards
};

// Looks up what reading needs. Once, when the package is imported: threads that came to it together might wait for each other,
// one with the GIL.
void prepare_arrays();

// ArgumentTypeError for what is no array or has a dtype we do not know, ArgumentError for one that is not on the CPU; both name
// the argument.
Array read_array(nb::handle object, const char* argument, Access access);
std::vector<Array> read_arrays(nb::handle list, const char* argument, Access access);
std::vector<Array> read_arrays_or_none(nb::handle list, const char* argument, Access access);
std::vector<TensorView> views_of(const std::vector<Array>& arrays);

void copy_back(const Array& array);  // where that is called for

// A new array of this kind in the tensor's memory.
nb::object array_of(Kind kind, const Tensor& tensor);

DType dtype_of(nb::handle object, const char* argument);  // of a dtype of NumPy, torch or MindSpore, or its name
nb::object numpy_dtype(DType dtype);
void register_memory(nb::module_& module);

}  // namespace unisono::python
