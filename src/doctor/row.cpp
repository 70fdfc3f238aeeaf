// See row.hpp.
#include "doctor/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/legible.hpp"

namespace unisono::doctor {
namespace {

constexpr std::array<std::string_view, 4> verdict_names = {"ok", "note", "warning", "problem"};
constexpr size_t field_count = 5;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end = text.find(separator); end != text.npos; end = text.find(separator)) {
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  parts.push_back(text);
  return parts;
}

}  // namespace

std::string_view name_of(Verdict verdict) { return verdict_names[static_cast<size_t>(verdict)]; }

std::optional<Verdict> verdict_named(std::string_view name) {
  const auto found = std::ranges::find(verdict_names, name);
  if (found == verdict_names.end()) return std::nullopt;
  return static_cast<Verdict>(found - verdict_names.begin());
}

Verdict worst_of(std::span<const Row> rows) {
  Verdict worst = Verdict::ok;
  for (const Row& row : rows) worst = std::max(worst, row.verdict);
  return worst;
}

int count_of(std::span<const Row> rows, Verdict verdict) { return static_cast<int>(std::ranges::count(rows, verdict, &Row::verdict)); }

std::string encode(std::span<const Row> rows) {
  std::string text;
  for (const Row& row : rows)
    text += fmt::format("{}\t{}\t{}\t{}\t{}\n", legible(row.name), name_of(row.verdict), legible(row.found), legible(row.advice), legible(row.compared));
  return text;
}

std::optional<std::vector<Row>> decode(std::string_view text) {
  std::vector<Row> rows;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == text.npos) return std::nullopt;
    const std::vector<std::string_view> fields = split(text.substr(0, end), '\t');
    const auto verdict = fields.size() == field_count ? verdict_named(fields[1]) : std::nullopt;
    if (!verdict) return std::nullopt;
    rows.push_back({legible(fields[0]), *verdict, legible(fields[2]), legible(fields[3]), legible(fields[4])});
    text.remove_prefix(end + 1);
  }
  return rows;
}

}  // namespace unisono::doctor
