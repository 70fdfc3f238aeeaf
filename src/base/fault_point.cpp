// Dying, or stopping, on purpose, in builds made for it; see fault_point.hpp.
//
// Who writes: arm_fault, before any thread of ours exists; then every thread that passes the point adds to its counter.
// Order: relaxed, nothing else hangs on it.
#include "base/fault_point.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>

namespace unisono {
namespace {

struct Plan {
  std::string name;
  int signal = SIGKILL;
  std::atomic<long> passages_left{-1};
};

Plan& plan() {
  static Plan the_plan;
  return the_plan;
}

}  // namespace

void arm_fault(std::string_view fault, int rank) {
  plan().passages_left = -1;
  std::string text(fault);
  size_t first = text.find(':');
  if (first == std::string::npos) return;
  size_t second = text.find(':', first + 1);
  if (second != std::string::npos && std::atoi(text.c_str() + second + 1) != rank) return;
  plan().name = text.substr(0, first);
  plan().signal = text.ends_with(":stop") ? SIGSTOP : SIGKILL;
  plan().passages_left = std::atol(text.c_str() + first + 1);
}

void fault_point(std::string_view name) {
  if (plan().passages_left.load(std::memory_order_relaxed) < 0 || name != plan().name) return;
  if (plan().passages_left.fetch_sub(1, std::memory_order_relaxed) == 1) kill(getpid(), plan().signal);
}

}  // namespace unisono
