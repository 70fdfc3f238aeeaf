// One rank: its process, its two streams and, in time, how it ended.
#pragma once

#include <sys/wait.h>

#include <optional>
#include <string>

#include "base/clock.hpp"
#include "tools/run/output.hpp"
#include "tools/run/process.hpp"

namespace unisono::tools {

// Reaped only when it goes away, so that until then its pid means its process and its process group.
struct Rank {
  Rank(int number, Process started, const std::string& prefix, Sink& out, Sink& err)
      : number(number),
        process(std::move(started)),
        output(std::move(process.output), {prefix, out, &last_lines}),
        error(std::move(process.error), {prefix, err, &last_lines}) {}
  ~Rank() { ::waitpid(process.pid, nullptr, 0); }
  Rank(const Rank&) = delete;

  // Ended, and nothing more is to be had from it or from what it has started.
  bool is_over() const { return ending && !output.is_open() && !error.is_open(); }
  void finish_streams() {
    output.finish();
    error.finish();
  }

  const int number;
  const int64_t started_ns = now_ns();
  Process process;
  LastLines last_lines;
  RankStream output, error;
  std::optional<Ending> ending;
};

}  // namespace unisono::tools
