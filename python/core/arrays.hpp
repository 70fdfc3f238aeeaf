// Arrays of whatever kind a user has, as the library takes them: NumPy, torch, MindSpore, anything with DLPack or a buffer.
// Contiguous memory is never copied.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <vector>

#include "python/core/layouts.hpp"
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
  bool written = false;              // the call writes it
  const char* argument = "";         // its name
  nb::object given;                  // what the user gave
  nb::object owner;                  // keeps the memory: the object itself, a view of it, or a contiguous copy
  nb::object storage;                // of an asynchronous call on a torch tensor, which may get another storage meanwhile
  nb::object copied_from;            // where the owner is a copy that the call writes: what to copy it to afterwards
  std::unique_ptr<Layout> original;  // where the owner is a copy: where the elements of the original lie
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

// For a call that may go on when it returns: holds what has the memory, where the owner could let go of it.
void hold_storages(std::vector<Array>& arrays);
void copy_back(const Array& array);  // where that is called for

// The pairs of arrays `first + k` and `second + k`, for k below count, of which one may be part `index` of the other.
struct OwnParts {
  int index = 0;
  size_t first = 0, second = 0, count = 0;
};
// ArgumentError where an array that is written overlaps another and one of them works through a copy: the library, which sees the
// copy, would not notice.
void check_apart(const std::vector<Array>& arrays, const OwnParts& own);
bool is_any_copied(const std::vector<Array>& arrays);

// A new array of this kind in the tensor's memory.
nb::object array_of(Kind kind, const Tensor& tensor);

DType dtype_of(nb::handle object, const char* argument);  // of a dtype of NumPy, torch or MindSpore, or its name
nb::object numpy_dtype(DType dtype);
void register_memory(nb::module_& module);

}  // namespace unisono::python
