// The launcher's signals, read from a descriptor instead of handled at any moment.
#pragma once

#include <signal.h>

#include <memory>
#include <optional>

#include "base/descriptor.hpp"
#include "unisono/status.hpp"

namespace unisono::tools {

// While it lives, the signals that concern the ranks are blocked and wait here. One at a time, in one thread. A signal that was
// ignored before stays ignored, here and in the ranks.
class Signals {
 public:
  static Result<std::unique_ptr<Signals>> open();
  ~Signals();
  Signals(const Signals&) = delete;

  int descriptor() const { return descriptor_.number(); }
  std::optional<int> next() const;         // none when none is waiting
  void give_back_to_child() const;         // what the launcher was started with; async-signal-safe
  static bool ends_a_program(int signal);  // unless the program has other plans

 private:
  Signals() = default;

  Descriptor descriptor_;
  sigset_t mask_before_{};
  struct sigaction broken_pipe_before_ {};
};

}  // namespace unisono::tools
