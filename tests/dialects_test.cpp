// Runs every row of docs/dialects.md, and holds the page, its Chinese counterpart and the rows of the tests together: a row
// without a test fails here, and so does a test without a row. The rows themselves: dialects_rows_<section>.cpp.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/dialects_rows.hpp"

namespace unisono::testing {

void PrintTo(const Row& row, std::ostream* out) { *out << row.id; }

namespace {

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (auto section : {all_reduce_rows(), all_gather_rows(), reduce_scatter_rows(), reduce_rows(), scatter_rows(), broadcast_rows(),
                       tensor_rows(), correction_rows(), async_rows(), number_rows(), error_rows(), better_rows()})
    rows.insert(rows.end(), section.begin(), section.end());
  return rows;
}

// ---- the pages

struct Line {
  int number = 0;
  std::vector<std::string> cells;
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (size_t from = 1, to; (to = line.find('|', from)) != std::string::npos; from = to + 1) {
    std::string cell = line.substr(from, to - from);
    cell.erase(0, cell.find_first_not_of(' '));
    cell.erase(cell.find_last_not_of(' ') + 1);
    cells.push_back(cell);
  }
  return cells;
}

bool is_ruler(const Line& line) {
  return !line.cells.empty() && line.cells[0].find_first_not_of("-: ") == std::string::npos;
}

// The rows of all tables, without their heads; lines in code blocks are not tables.
std::vector<Line> table_rows(const std::string& page) {
  std::ifstream file(std::filesystem::path(UNISONO_SOURCE_DIRECTORY) / "docs" / page);
  EXPECT_TRUE(file.is_open()) << page;
  std::vector<Line> rows;
  bool in_code = false, in_body = false;
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    if (text.starts_with("```")) in_code = !in_code;
    if (in_code || !text.starts_with("|")) {
      in_body = false;
      continue;
    }
    Line line{number, cells_of(text)};
    if (in_body) rows.push_back(line);
    if (is_ruler(line)) in_body = true;
  }
  return rows;
}

// `id` between backticks, in lower case with underscores and dots.
std::string id_of(const Line& line, const std::string& page) {
  const std::string& cell = line.cells.front();
  const bool quoted = cell.size() > 2 && cell.front() == '`' && cell.back() == '`';
  const std::string id = quoted ? cell.substr(1, cell.size() - 2) : "";
  if (id.empty() || id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") != std::string::npos) {
    ADD_FAILURE() << page << ":" << line.number << ": a row without an id: " << cell;
    return "";
  }
  return id;
}

std::vector<std::string> ids_in(const std::string& page) {
  std::vector<std::string> ids;
  for (const Line& line : table_rows(page)) ids.push_back(id_of(line, page));
  return ids;
}

TEST(Dialects, every_row_of_the_page_has_a_test_and_every_test_a_row) {
  std::set<std::string> tested, written;
  for (const Row& row : all_rows()) EXPECT_TRUE(tested.insert(std::string(row.id)).second) << "two tests of " << row.id;
  for (const std::string& id : ids_in("dialects.md")) {
    EXPECT_TRUE(written.insert(id).second) << "two rows " << id;
    EXPECT_TRUE(tested.contains(id)) << "the row " << id << " has no test";
  }
  for (const std::string& id : tested) EXPECT_TRUE(written.contains(id)) << "the test of " << id << " has no row";
  EXPECT_GT(written.size(), 100u);
}

TEST(Dialects, the_chinese_page_has_the_same_rows_in_the_same_order) { EXPECT_EQ(ids_in("dialects.md"), ids_in("dialects.zh.md")); }

// No cell is empty, and a row has as many in one language as in the other.
TEST(Dialects, both_pages_have_the_same_columns) {
  std::map<std::string, size_t> columns;
  for (const Line& line : table_rows("dialects.md")) {
    columns[line.cells.front()] = line.cells.size();
    for (const std::string& cell : line.cells) EXPECT_FALSE(cell.empty()) << "dialects.md:" << line.number;
  }
  for (const Line& line : table_rows("dialects.zh.md")) {
    EXPECT_EQ(columns[line.cells.front()], line.cells.size()) << "dialects.zh.md:" << line.number;
    for (const std::string& cell : line.cells) EXPECT_FALSE(cell.empty()) << "dialects.zh.md:" << line.number;
  }
}

// ---- the rows

class DialectsRow : public ::testing::TestWithParam<Row> {};

TEST_P(DialectsRow, holds) {
  const Row& row = GetParam();
  SCOPED_TRACE(std::string(row.id));
  ASSERT_NE(row.live == nullptr, row.alone == nullptr);
  if (row.alone)
    row.alone();
  else
    for_each_world(ranks(3), row.live);
}

std::string test_name(const ::testing::TestParamInfo<Row>& info) {
  std::string name(info.param.id);
  for (char& character : name)
    if (character == '.') character = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Page, DialectsRow, ::testing::ValuesIn(all_rows()), test_name);

}  // namespace
}  // namespace unisono::testing
