// docs/functions.md is what the table of functions says (functions_rows_*.cpp), and the table agrees with the forms of
// the live matrix. That every declared function has a row, and every row a declared function, is for
// tests/tidy/functions.py.
//
//   functions_test --write    renders the page anew
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>

#include "tests/functions_rows.hpp"
#include "tests/support/trial_lists.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

const std::string source_directory = UNISONO_SOURCE_DIRECTORY;
const std::string page_path = source_directory + "/docs/functions.md";

std::string file_text(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return parts;
}

// "all_gather of uneven pieces" is a form of all_gather.
std::string function_of(const Form& form) { return std::string(form.name.substr(0, form.name.find_first_of(" ,"))); }

std::vector<const Form*> forms_of(std::string_view function, Dialect dialect) {
  std::vector<const Form*> forms;
  for (const Form& form : all_forms())
    if (form.dialect == dialect && function_of(form) == function) forms.push_back(&form);
  return forms;
}

// What the live matrix tries of a function.
struct Tried {
  bool moves_data = false, reduces = false, has_async = false;
  std::set<DType> dtypes;
  std::set<ReduceKind> ops;
};

Tried tried_of(std::string_view function, Dialect dialect) {
  Tried tried;
  for (const Form* form : forms_of(function, dialect)) {
    tried.moves_data |= form->collective != Collective::barrier;
    tried.reduces |= form->reduces;
    tried.has_async |= form->has_async;
  }
  auto wanted = [&](const Form& form) { return form.dialect == dialect && function_of(form) == function; };
  for (const Trial& trial : trials_of_numbers({.ranks = 1}, 1, wanted)) {
    tried.dtypes.insert(trial.dtype);
    tried.ops.insert(trial.op.kind);
  }
  return tried;
}

// "all", or which are missing.
template <typename Kind>
std::string all_but(const std::set<Kind>& some, std::span<const Kind> all) {
  std::string missing;
  for (Kind kind : all)
    if (!some.contains(kind)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name_of(kind));
  return missing.empty() ? "all" : "all but " + missing;
}

std::optional<Dialect> dialect_of(const HeaderRows& header) {
  if (header.header == "distributed.hpp") return Dialect::distributed;
  if (header.header == "comm_func.hpp") return Dialect::comm_func;
  return std::nullopt;
}

std::string row_text(const HeaderRows& header, const FunctionRow& row) {
  const bool has_forms = row.how.empty();
  Tried tried;
  if (has_forms && dialect_of(header)) tried = tried_of(row.name, *dialect_of(header));
  if (!row.like.empty()) tried = tried_of(row.like, Dialect::distributed);
  std::string tests;
  for (const std::string& test : split(row.tests, " "))
    tests += fmt::format("{}[{}](../tests/{}.cpp)", tests.empty() ? "" : ", ", test, test);
  return fmt::format("| `{}({})` | {} | {} | {} | {} |\n", row.name, row.parameters,
                     !has_forms        ? row.how
                     : tried.has_async ? both
                                       : sync,
                     tried.moves_data ? all_but<DType>(tried.dtypes, all_dtypes()) : "–",
                     tried.reduces ? all_but<ReduceKind>(tried.ops, all_reduce_kinds()) : "–", tests);
}

bool is_note(std::string_view cell) {
  return std::any_of(notes().begin(), notes().end(), [&](const Note& note) { return note.word == cell; });
}

std::string cell_text(std::string_view cell) {
  if (cell == "-") return "–";
  if (is_note(cell)) return std::string(cell);
  std::string text;
  for (const std::string& item : split(cell, ", ")) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", item);
  return text;
}

std::string page() {
  std::string text =
      "# Functions\n\n"
      "Rendered by `functions_test --write` from the table in [tests/functions_rows.hpp](../tests/functions_rows.hpp) "
      "and from the forms "
      "of the live\nmatrix ([tests/support/trial.hpp](../tests/support/trial.hpp)). A public function without a row "
      "fails a test, as does "
      "a row without a function, a\ncollective without a form, and a page that is not what the table says.\n\n"
      "## What is asked for, and where it is\n\n"
      "The first two columns are names of `torch.distributed` and of `mindspore.communication` with its `comm_func`; "
      "the others are\n"
      "`unisono::distributed`, `unisono::comm_func` with `unisono::communication`, and C.\n\n| | |\n|---|---|\n";
  for (const Note& note : notes()) text += fmt::format("| {} | {} |\n", cell_text(note.word), note.meaning);
  for (const WantedPart& part : wanted_parts()) {
    text += fmt::format("\n### {}\n\n| torch | MindSpore | C++ `distributed` | C++ `comm_func` | C |\n|---|---|---|---|---|\n",
                        part.title);
    for (const WantedRow& row : part.rows)
      text += fmt::format("| {} | {} | {} | {} | {} |\n", cell_text(row.torch), cell_text(row.mindspore),
                          cell_text(row.distributed), cell_text(row.comm_func), cell_text(row.from_c));
  }
  text += fmt::format(
      "\n## Every function\n\n"
      "*Dtypes* and *ops* of a collective are those that the live matrix tries with it, with every rank as a root and "
      "in every form of\n"
      "the call; of the others, those of the collective that they are like. How: *{}*, nobody else is asked; *{}*, it "
      "is over on\n"
      "return; *{}*, there is a handle to wait for. What stands in braces are fields of the options.\n",
      local, sync, async);
  for (const HeaderRows& header : all_headers()) {
    text += fmt::format("\n### unisono/{}\n\nFor {}.\n\n| function | how | dtypes | ops | tests |\n|---|---|---|---|---|\n",
                        header.header, header.dialect);
    for (const FunctionRow& row : header.rows) text += row_text(header, row);
  }
  return text;
}

// The names of values and handles are found where the references have them.
static_assert(std::is_same_v<distributed::ReduceOp, ReduceOp> && std::is_same_v<distributed::Work, Work> &&
              std::is_same_v<distributed::GroupHandle, GroupHandle> && std::is_same_v<distributed::DType, DType>);
static_assert(std::is_same_v<comm_func::ReduceOp, ReduceOp> && std::is_same_v<comm_func::CommHandle, CommHandle> &&
              std::is_same_v<comm_func::GlobalComm, communication::GlobalComm> && std::is_same_v<communication::ReduceOp, ReduceOp> &&
              std::is_same_v<communication::comm_func::Options, comm_func::Options>);

TEST(Functions, the_page_is_what_the_table_says) {
  EXPECT_EQ(file_text(page_path), page())
      << "docs/functions.md is not what the table says; this writes it anew: functions_test --write";
}

TEST(Functions, a_collective_has_forms_in_the_live_matrix_and_a_form_has_a_row) {
  std::set<std::pair<Dialect, std::string>> with_rows;
  for (const HeaderRows& header : all_headers())
    for (const FunctionRow& row : header.rows) {
      const bool is_in_matrix = row.tests == "collectives_test";
      EXPECT_EQ(row.how.empty(), is_in_matrix)
          << row.name << ": what the live matrix tries, and only that, leaves it to its forms how it goes about it";
      if (is_in_matrix) {
        ASSERT_TRUE(dialect_of(header)) << row.name << ": forms are of one of the two dialects";
        EXPECT_FALSE(forms_of(row.name, *dialect_of(header)).empty())
            << header.header << ": " << row.name << " has no form in tests/support/forms_*.cpp";
      }
      if (dialect_of(header)) with_rows.emplace(*dialect_of(header), row.name);
      if (!row.like.empty()) {
        EXPECT_FALSE(forms_of(row.like, Dialect::distributed).empty())
            << row.name << " is like " << row.like << ", which has no form";
      }
    }
  for (const Form& form : all_forms())
    EXPECT_TRUE(with_rows.contains({form.dialect, function_of(form)}))
        << "the form \"" << form.name << "\" is of a function without a row";
}

// The names that the matrix may use in a column, and those that it has to.
std::set<std::string> names_of(Column column, bool may) {
  std::set<std::string> names;
  for (const HeaderRows& header : all_headers())
    if (header.column == column || (may && header.column == Column::either && column != Column::from_c))
      for (const FunctionRow& row : header.rows) names.insert(fmt::format("{}{}", header.scope, row.name));
  return names;
}

// Types and constants, which have no rows of their own.
bool is_vocabulary(const std::string& item) {
  for (std::string_view start :
       {"ReduceOp::", "DType", "P2POp", "UNISONO_", "unisono_dtype", "unisono_letter", "communication::GlobalComm::"})
    if (item.starts_with(start)) {
      const std::string name = item.substr(item.find_last_of(':') + 1);
      for (const char* header : {"types.hpp", "distributed.hpp", "communication.hpp", "unisono.h"})
        if (file_text(source_directory + "/include/unisono/" + header).find(name) != std::string::npos) return true;
    }
  return false;
}

TEST(Functions, the_matrix_names_functions_that_there_are_and_all_of_them) {
  std::set<std::string> mentioned[3];
  for (const WantedPart& part : wanted_parts())
    for (const WantedRow& row : part.rows) {
      const std::pair<Column, std::string_view> cells[] = {
          {Column::distributed, row.distributed}, {Column::comm_func, row.comm_func}, {Column::from_c, row.from_c}};
      for (size_t index = 0; index < 3; ++index) {
        EXPECT_FALSE(cells[index].second.empty())
            << part.title << ": a cell is empty in the row of " << row.torch << ", " << row.mindspore;
        if (is_note(cells[index].second)) continue;
        for (const std::string& item : split(cells[index].second, ", ")) {
          EXPECT_TRUE(names_of(cells[index].first, true).contains(item) || is_vocabulary(item))
              << item << " is none that there is";
          mentioned[index].insert(item);
        }
      }
    }
  for (const std::string& name : names_of(Column::distributed, false)) EXPECT_TRUE(mentioned[0].contains(name)) << name;
  for (const std::string& name : names_of(Column::comm_func, false)) EXPECT_TRUE(mentioned[1].contains(name)) << name;
  for (const std::string& name : names_of(Column::from_c, false)) EXPECT_TRUE(mentioned[2].contains(name)) << name;
  for (const std::string& name : names_of(Column::either, true))
    EXPECT_TRUE(mentioned[0].contains(name) || mentioned[1].contains(name)) << name << " is not in the matrix";
}

}  // namespace
}  // namespace unisono::testing

int main(int argument_count, char** arguments) {
  using namespace unisono::testing;
  ::testing::InitGoogleTest(&argument_count, arguments);
  if (argument_count > 1 && std::string_view(arguments[1]) == "--write") {
    std::ofstream(page_path) << page();
    std::cout << "wrote " << page_path << "\n";
    return 0;
  }
  return RUN_ALL_TESTS();
}
