// Text only; when something counts as a failure is decided in launcher.cpp.
#include "tools/run/failures.hpp"

#include <fmt/format.h>

#include <iterator>

namespace unisono::tools {
namespace {

std::string names(const std::set<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", *ranks.begin());
  const int last = *ranks.rbegin();
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), std::prev(ranks.end()), ", "), last);
}

}  // namespace

std::string Failure::text() const {
  return fmt::format("rank {} (pid {}{}) {} after {:.1f} s", rank, pid, host.empty() ? "" : " on host " + host, ending.how(), after_s);
}

std::string Failures::later() const {
  std::string text;
  for (const auto& [how, ranks] : later_)
    text += fmt::format("{} {} {}", text.empty() ? "then" : "; then", names(ranks), how);
  return text;
}

std::string repeated(const LastLines& last_lines) {
  if (last_lines.lines().empty()) return "; it wrote nothing";
  std::string text = "; its last lines:";
  for (const std::string& line : last_lines.lines()) text += "\n    " + line;
  return text;
}

}  // namespace unisono::tools
