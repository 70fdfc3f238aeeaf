// Lines on standard error that name the rank, the group and the call they speak of.
#pragma once

#include <string>
#include <string_view>

namespace unisono {

enum class LogLevel { error, warning, info, debug };

// Writes whole lines only, so lines of several threads or ranks never mix. A value; cheap to copy.
class Log {
 public:
  Log() = default;
  Log(std::string_view level, int rank);

  bool wants(LogLevel level) const { return level <= level_; }
  void write(LogLevel level, std::string_view text) const;
  void warning(std::string_view text) const { write(LogLevel::warning, text); }
  void info(std::string_view text) const { write(LogLevel::info, text); }

 private:
  LogLevel level_ = LogLevel::warning;
  int rank_ = -1;
};

}  // namespace unisono
