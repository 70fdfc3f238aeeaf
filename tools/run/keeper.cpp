// See keeper.hpp.
#include "tools/run/keeper.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

namespace unisono::tools {
namespace {

[[noreturn]] void keep_watch(int way) {
  ::setsid();
  ::prctl(PR_SET_NAME, "unisono-keeper");
  ::dup2(way, STDIN_FILENO);
  for (int number : {STDOUT_FILENO, STDERR_FILENO}) ::close(number);
  ::syscall(SYS_close_range, 3, ~0u, 0);
  std::set<pid_t> groups;
  pid_t told = 0;
  ssize_t got;
  while ((got = ::read(STDIN_FILENO, &told, sizeof told)) == sizeof told || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    told > 0 ? static_cast<void>(groups.insert(told)) : static_cast<void>(groups.erase(-told));
  }
  for (pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

Status Keeper::open() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {ErrorCode::resource, fmt::format("cannot open a pipe: {}", std::strerror(errno))};
  const Descriptor read_end(ends[0]);
  way_ = Descriptor(ends[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    way_.reset();
    keep_watch(read_end.number());
  }
  if (pid_ < 0) return {ErrorCode::resource, fmt::format("cannot start a process: {}", std::strerror(errno))};
  return Status::success();
}

Keeper::~Keeper() {
  way_.reset();
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
}

void Keeper::tell(pid_t group) const {
  while (::write(way_.number(), &group, sizeof group) < 0 && errno == EINTR) {
  }
}

}  // namespace unisono::tools
