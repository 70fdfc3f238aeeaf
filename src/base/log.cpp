// One write(2) a line; see log.hpp.
#include "base/log.hpp"

#include <fmt/core.h>
#include <unistd.h>

namespace unisono {
namespace {

constexpr std::string_view level_names[] = {"error", "warning", "info", "debug"};

}  // namespace

Log::Log(std::string_view level, int rank) : rank_(rank) {
  for (int index = 0; index < 4; ++index)
    if (level_names[index] == level) level_ = static_cast<LogLevel>(index);
}

void Log::write(LogLevel level, std::string_view text) const try {
  if (!wants(level)) return;
  std::string who = rank_ < 0 ? std::string() : fmt::format(" rank {}", rank_);
  std::string line = fmt::format("unisono {}{}: {}\n", level_names[static_cast<int>(level)], who, text);
  // A log line that cannot be written has nobody left to be told.
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
} catch (const std::bad_alloc&) {  // nor one that there is no memory for
}

}  // namespace unisono
