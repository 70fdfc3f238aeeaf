// See rank_process.hpp.
#include "tests/support/rank_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/descriptor.hpp"
#include "tests/support/children.hpp"
#include "unisono/settings.hpp"

namespace unisono::testing {
namespace {

constexpr int first_high_descriptor = 100;

[[noreturn]] void cannot(const char* what) { throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno))); }

// The report's descriptor. gtest prints nothing any more: whatever takes number 1 next is not for its text.
int close_standard_streams(int output) {
  const int report = fcntl(output, F_DUPFD_CLOEXEC, first_high_descriptor);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(number);
  return report;
}

void write_all(int descriptor, const std::string& text) {
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = write(descriptor, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // the reader has gone; the exit status still says that something failed
    written += static_cast<size_t>(count);
  }
}

[[noreturn]] void run_and_exit(int output, const std::function<void()>& body) {
  const FailuresSince start;
  int report = -1;
  if (in_rough_mode('d')) {
    report = close_standard_streams(output);
  } else {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  }
  try {
    body();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "the process threw " << error.what();
  }
  fflush(nullptr);
  if (report >= 0) write_all(report, start.text());
  _exit(start.any() ? 1 : 0);
}

// Process 1 of a namespace, which does not obey its own signals, so it is none of the ranks: it ends when the last process that
// holds the other end of the pipe has. It gives no sign then, so whoever waits for any child does not find it.
void start_process_1(const Descriptor& reading) {
  const auto child = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
  if (child < 0) cannot("process 1 of a pid namespace");
  if (child > 0) return;
  dup2(reading.number(), STDIN_FILENO);
  syscall(SYS_close_range, STDIN_FILENO + 1, ~0u, 0);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) continue;
  _exit(0);
}

// A process has one namespace for its next children; a second one is made only after it has gone back to its own.
pid_t fork_into_a_pid_namespace() {
  const Descriptor own(open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
  int ends[2];
  if (!own || pipe(ends) != 0 || unshare(CLONE_NEWPID) != 0) cannot("a pid namespace for a rank");
  const Descriptor reading(ends[0]), writing(ends[1]);
  start_process_1(reading);
  const pid_t child = fork();
  if (child == 0) fcntl(ends[1], F_DUPFD, first_high_descriptor);  // stays open until the rank ends, in a program that it becomes too
  if (child != 0 && setns(own.number(), CLONE_NEWPID) != 0) cannot("going back to the pid namespace of the test");
  return child;
}

}  // namespace

std::string rough_mode() { return process_environment()["UNISONO_TEST_ROUGH"]; }

bool in_rough_mode(char letter) { return rough_mode().starts_with(letter); }

pid_t start_process(int output, const std::function<void()>& body) {
  const pid_t child = in_rough_mode('g') ? fork_into_a_pid_namespace() : fork();
  if (child < 0) cannot("starting a process");
  if (child == 0) run_and_exit(output, body);
  return child;
}

}  // namespace unisono::testing
