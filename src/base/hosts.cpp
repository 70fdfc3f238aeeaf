// See hosts.hpp.
#include "base/hosts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace unisono {
namespace {

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::optional<std::vector<int>> numbers_in(std::string_view text, char between) {
  std::vector<int> numbers;
  for (bool more = true; more;) {
    const size_t end = text.find(between);
    more = end != std::string_view::npos;
    const std::optional<int> number = number_in(text.substr(0, end));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    if (more) text.remove_prefix(end + 1);
  }
  return numbers;
}

// So many ranks on each host, one after the other.
std::vector<int> in_a_row(std::span<const int> counts) {
  std::vector<int> hosts;
  for (size_t host = 0; host < counts.size(); ++host) hosts.insert(hosts.end(), static_cast<size_t>(counts[host]), static_cast<int>(host));
  return hosts;
}

// The ranks on each host, or none where the text says nothing that can be.
std::optional<std::vector<int>> hosts_in(std::string_view text) {
  if (text.find('/') != std::string_view::npos) return numbers_in(text, '/');
  std::optional<std::vector<int>> counts;
  if (const size_t times = text.find('x'); times != std::string_view::npos) {
    const std::optional<int> hosts = number_in(text.substr(0, times)), ranks = number_in(text.substr(times + 1));
    if (hosts && ranks && *hosts > 0 && *hosts <= most_ranks) counts.emplace(static_cast<size_t>(*hosts), *ranks);
  } else {
    counts = numbers_in(text, ',');
  }
  if (!counts) return std::nullopt;
  int64_t ranks = 0;
  for (int count : *counts) {
    ranks += count;
    if (count == 0 || ranks > most_ranks) return std::nullopt;
  }
  return in_a_row(*counts);
}

}  // namespace

Hosts::Hosts(std::span<const int> host_of_rank) {
  Table table;
  std::map<int, int> numbers;
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const auto [found, is_new] = numbers.emplace(host_of_rank[rank], static_cast<int>(numbers.size()));
    if (is_new) table.ranks.emplace_back();
    table.host_of.push_back(found->second);
    table.ranks[static_cast<size_t>(found->second)].push_back(static_cast<int>(rank));
  }
  if (table.ranks.size() > 1) table_ = std::make_shared<const Table>(std::move(table));
}

Result<int> Hosts::ranks_in(std::string_view setting, std::string_view text) {
  if (const std::optional<std::vector<int>> hosts = hosts_in(text)) return static_cast<int>(hosts->size());
  return Status(ErrorCode::argument,
                fmt::format("{}: \"{}\" is not a layout of hosts: 2,3 is two ranks on one host and three on the next, "
                            "2x4 is two hosts of four, 0/1/0/1 names the host of each rank",
                            setting, text));
}

Result<Hosts> Hosts::parse(std::string_view setting, std::string_view text, int ranks) {
  Result<int> made = ranks_in(setting, text);
  if (!made.ok()) return made.status();
  if (*made != ranks)
    return Status(ErrorCode::argument, fmt::format("{}: \"{}\" makes {} rank{}, and there {} {}", setting, text, *made,
                                                   *made == 1 ? "" : "s", ranks == 1 ? "is" : "are", ranks));
  return Hosts(*hosts_in(text));
}

int Hosts::index_on_host(int rank) const {
  const std::span<const int> mates = ranks_on(of(rank));
  return static_cast<int>(std::ranges::lower_bound(mates, rank) - mates.begin());
}

Hosts Hosts::among(std::span<const int> ranks) const {
  std::vector<int> hosts;
  for (int rank : ranks) hosts.push_back(of(rank));
  return Hosts(hosts);
}

std::string Hosts::text() const {
  if (one()) return "1 host";
  if (!std::ranges::is_sorted(table_->host_of)) return fmt::format("{}", fmt::join(table_->host_of, "/"));
  std::vector<size_t> counts;
  for (const std::vector<int>& ranks : table_->ranks) counts.push_back(ranks.size());
  const bool even = std::ranges::count(counts, counts[0]) == std::ssize(counts);
  return even && counts.size() > 4 ? fmt::format("{}x{}", counts.size(), counts[0]) : fmt::format("{}", fmt::join(counts, ","));
}

bool Hosts::operator==(const Hosts& other) const {
  return table_ == other.table_ || (table_ && other.table_ && *table_ == *other.table_);
}

}  // namespace unisono
