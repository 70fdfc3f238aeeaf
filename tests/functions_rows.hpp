// The table of public functions: what docs/functions.md is rendered from. A new function needs a row in the list of its
// header (functions_rows_*.cpp), and a place in functions_rows_wanted.cpp; then `functions_test --write` renders the
// page anew.
#pragma once

#include <span>
#include <string_view>

#include "tests/support/trial.hpp"

namespace unisono::testing {

// How a function goes about it.
inline constexpr std::string_view local = "local";  // asks nobody
inline constexpr std::string_view sync = "synchronous";
inline constexpr std::string_view async = "asynchronous";
inline constexpr std::string_view both = "both";

struct FunctionRow {
  std::string_view name;        // as declared; of a class "Store::set"
  std::string_view parameters;  // their names as declared; in place of one named options, its fields in braces
  std::string_view tests;       // one or two of tests/*_test.cpp that call it, separated by a space
  std::string_view how = {};    // empty: a collective of a dialect, whose forms know
  std::string_view like = {};   // another collective: takes the same dtypes and ops
};

enum class Column { distributed, comm_func, either, from_c };  // of the matrix

struct HeaderRows {
  std::string_view header;   // "distributed.hpp"
  std::string_view dialect;  // in words
  Column column;             // where the matrix names its functions
  std::string_view scope;    // what stands before their names there
  std::span<const FunctionRow> rows;
};
std::span<const HeaderRows> all_headers();

std::span<const FunctionRow> distributed_rows();
std::span<const FunctionRow> comm_func_rows();
std::span<const FunctionRow> communication_rows();
std::span<const FunctionRow> store_rows();
std::span<const FunctionRow> work_rows();
std::span<const FunctionRow> c_rows();
std::span<const FunctionRow> persistent_rows();
std::span<const FunctionRow> coalescing_rows();
std::span<const FunctionRow> reduction_rows();
std::span<const FunctionRow> shared_tensor_rows();
std::span<const FunctionRow> binding_rows();

// One thing that the torch.distributed page or the mindspore.communication pages have, and where it is. A cell is a
// list of functions with commas, or a note.
struct WantedRow {
  std::string_view torch, mindspore;  // as they call it; "-" where they do not have it
  std::string_view distributed, comm_func, from_c;
};
struct WantedPart {
  std::string_view title;
  std::span<const WantedRow> rows;
};
std::span<const WantedPart> wanted_parts();

struct Note {
  std::string_view word, meaning;
};
std::span<const Note> notes();

}  // namespace unisono::testing
