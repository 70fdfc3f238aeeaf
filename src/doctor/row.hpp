// One line of what `unisono doctor` says: a check, its verdict, what was found and, where something should be changed, what to type.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::doctor {

// note: nothing to do, but worth knowing. warning: works, slower or with less room than it could. problem: jobs fail.
enum class Verdict { ok, note, warning, problem };
std::string_view name_of(Verdict verdict);
std::optional<Verdict> verdict_named(std::string_view name);

// A value.
struct Row {
  std::string name;
  Verdict verdict = Verdict::ok;
  std::string found;
  std::string advice = {};    // what to change; empty where nothing is
  std::string compared = {};  // what should be the same on all hosts; empty: it may differ

  bool operator==(const Row&) const = default;
};

Verdict worst_of(std::span<const Row> rows);  // ok of none
int count_of(std::span<const Row> rows, Verdict verdict);

// Rows on their way from one host to another: a line each, fields between tabs. Whatever another process wrote is made legible.
std::string encode(std::span<const Row> rows);
std::optional<std::vector<Row>> decode(std::string_view text);  // nothing but what encode() writes

}  // namespace unisono::doctor
