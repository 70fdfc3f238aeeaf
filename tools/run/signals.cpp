// Blocking the signals and restoring what was before, here and in the ranks.
#include "tools/run/signals.hpp"

#include <fmt/format.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

namespace unisono::tools {
namespace {

// SIGTSTP and SIGCONT are among them because the ranks are in process groups of their own: Ctrl-Z reaches only us.
constexpr int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// Without those that we were started to ignore, by nohup or in the background of a script: a signal that is ignored but blocked
// would come to us all the same.
sigset_t forwarded_set() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : forwarded)
    if (!is_ignored(signal)) sigaddset(&set, signal);
  return set;
}

}  // namespace

Result<std::unique_ptr<Signals>> Signals::open() {
  std::unique_ptr<Signals> signals(new Signals);
  const sigset_t set = forwarded_set();
  ::sigprocmask(SIG_BLOCK, &set, &signals->mask_before_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;  // a reader that has gone is an error of write(), not our end
  ::sigaction(SIGPIPE, &ignore, &signals->broken_pipe_before_);
  struct sigaction normal {};
  normal.sa_handler = SIG_DFL;  // a parent that ignores SIGCHLD would take the ranks' exit statuses away from us
  ::sigaction(SIGCHLD, &normal, nullptr);

  signals->descriptor_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals->descriptor_)
    return Status(ErrorCode::resource, fmt::format("cannot watch for signals: {}", std::strerror(errno)));
  return signals;
}

Signals::~Signals() { give_back_to_child(); }

std::optional<int> Signals::next() const {
  signalfd_siginfo signal;
  if (::read(descriptor(), &signal, sizeof signal) != sizeof signal) return std::nullopt;
  return static_cast<int>(signal.ssi_signo);
}

void Signals::give_back_to_child() const {
  ::sigaction(SIGPIPE, &broken_pipe_before_, nullptr);
  ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

bool Signals::ends_a_program(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace unisono::tools
