// Walks up /proc from the parent. See proc(5) for the fields of /proc/<pid>/stat.
#include "rendezvous/ancestors.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <sstream>

#include "base/proc_text.hpp"

namespace unisono {
namespace {

constexpr size_t deepest = 64;  // nobody nests launchers deeper than this; it also ends a walk through a broken /proc

std::vector<std::string> command_of(int pid) {
  std::vector<std::string> words;
  std::istringstream text(proc_text(fmt::format("/proc/{}/cmdline", pid)));
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

struct Generation {
  Ancestor process;
  int parent_pid = 0;
};

// The line reads "pid (name) state ppid …"; the name itself may hold spaces and parentheses, so it ends at the last
// ')'.
std::optional<Generation> generation(int pid) {
  std::string line = proc_text(fmt::format("/proc/{}/stat", pid));
  size_t opened = line.find('('), closed = line.rfind(')');
  if (opened == std::string::npos || closed == std::string::npos) return std::nullopt;

  Generation found;
  found.process.pid = pid;
  found.process.name = line.substr(opened + 1, closed - opened - 1);
  std::istringstream fields(line.substr(closed + 1));
  std::string state, skipped;
  fields >> state >> found.parent_pid;
  for (int field = 5; field <= 21; ++field) fields >> skipped;  // starttime is field 22
  fields >> found.process.start_ticks;
  if (!fields) return std::nullopt;
  found.process.command = command_of(pid);
  return found;
}

}  // namespace

std::vector<Ancestor> process_ancestors() {
  std::vector<Ancestor> ancestors;
  int pid = ::getppid();
  while (pid > 0 && ancestors.size() < deepest) {
    std::optional<Generation> found = generation(pid);
    if (!found) break;
    ancestors.push_back(std::move(found->process));
    pid = found->parent_pid;
  }
  return ancestors;
}

}  // namespace unisono
