// Starting one rank as a process, and how a process ended.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "tools/run/signals.hpp"
#include "unisono/settings.hpp"
#include "unisono/status.hpp"

namespace unisono::tools {

struct Program {
  const std::vector<std::string>& command;
  Environment environment;
  int input = 0;    // the descriptor that becomes its standard input
  int secret = -1;  // the descriptor that it inherits under the same number, if any
};

struct Process {
  pid_t pid = 0;
  Descriptor handle;         // readable once the process has ended
  Descriptor output, error;  // the reading ends of its standard output and error
  int exec_error = 0;        // why the program could not be started, ENOENT if it is not there; the process has ended then
};

// The process is the leader of its own process group, so that a signal for the group reaches all that it starts and a
// Ctrl-C in the terminal reaches it once, through us. It is killed when this process dies.
Result<Process> start(const Program& program, const Signals& signals);

std::string cannot_start(const std::string& program, int exec_error);  // the sentence for the user

struct Ending {
  int exit_status = 0;
  int signal = 0;  // 0 unless a signal killed it

  bool is_success() const { return exit_status == 0 && signal == 0; }
  int shell_status() const { return signal ? 128 + signal : exit_status; }
  std::string how() const;  // "exited with status 3", "was killed by signal 9 (SIGKILL)"
  auto operator<=>(const Ending&) const = default;
};

std::string signal_name(int signal);     // "signal 9 (SIGKILL)"
Ending ending_of(const Process& ended);  // leaves it unreaped, so that its number still means its process group

}  // namespace unisono::tools
