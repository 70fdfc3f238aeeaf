// `unisono run` as a process under test: starts it, reads what it writes, sends it signals and waits for it, all
// against one deadline, so that a launcher that hangs fails a test instead of stopping it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "unisono/settings.hpp"

namespace unisono::testing {

inline constexpr double patience_s = 40;  // for one session; only a launcher that hangs uses it up

inline bool is_readable(int descriptor, Deadline deadline) {
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  const int64_t wait_ms = std::max<int64_t>(0, deadline.remaining_ns() / 1'000'000);
  return ::poll(&entry, 1, static_cast<int>(wait_ms)) == 1;
}

// A process that is not our child, such as a rank; held by a descriptor, since numbers are used again.
class Watched {
 public:
  explicit Watched(int pid) : handle_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  bool was_there() const { return static_cast<bool>(handle_); }
  bool ends(Deadline deadline = Deadline::in_seconds(patience_s)) const {
    return !handle_ || is_readable(handle_.number(), deadline);
  }
  void end() const { ::syscall(SYS_pidfd_send_signal, handle_.number(), SIGKILL, nullptr, 0); }

 private:
  Descriptor handle_;
};

class RunSession {
 public:
  struct Options {
    std::string input = {};
    std::vector<std::string> environment = {};  // NAME=VALUE
    bool joined_outputs = false;                // standard error goes where standard output goes
    bool terminal = false;                      // all three are a terminal of which the launcher is in the foreground
    std::vector<int> ignored = {};              // signals; all others do what they do by default, however the test was started
  };

  explicit RunSession(const std::vector<std::string>& arguments) : RunSession(arguments, Options{}) {}
  RunSession(const std::vector<std::string>& arguments, const Options& options) {
    const Environment environment = process_environment();
    auto command = environment.find("UNISONO_COMMAND");
    EXPECT_NE(command, environment.end()) << "UNISONO_COMMAND names the command under test";
    words_ = {"env"};
    words_.insert(words_.end(), options.environment.begin(), options.environment.end());
    words_.push_back(command == environment.end() ? "unisono" : command->second);
    words_.push_back("run");
    words_.insert(words_.end(), arguments.begin(), arguments.end());
    ignored_ = options.ignored;
    options.terminal ? start_in_terminal() : start(options);
  }
  ~RunSession() {
    if (pid_ > 0 && !status_) ::kill(pid_, SIGKILL);
    if (pid_ > 0 && !status_) ::waitpid(pid_, nullptr, 0);
  }
  RunSession(const RunSession&) = delete;

  int pid() const { return pid_; }
  void signal(int number) const { EXPECT_EQ(::kill(pid_, number), 0); }
  void type(const std::string& text) const {
    EXPECT_EQ(::write(out_.number(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void stop_reading_output() { out_.reset(); }

  // Everything up to and including `text` has been written when these return.
  void await_output(const std::string& text, int times = 1) {
    read_until([&] { return count(output, text) >= times; }, {&out_, &err_});
    EXPECT_GE(count(output, text), times) << "waited for " << text << " in " << output << error;
  }
  void await_error_only(const std::string& text) {
    read_until([&] { return error.find(text) != std::string::npos; }, {&err_});
    EXPECT_NE(error.find(text), std::string::npos) << "waited for " << text << " in " << error;
  }

  // So much waits unread in our pipe that the launcher has no room for more.
  void await_full_output() const {
    for (int waiting = 0; waiting < ::fcntl(out_.number(), F_GETPIPE_SZ) / 2 && !deadline_.passed();) {
      ::poll(nullptr, 0, 1);
      ASSERT_EQ(::ioctl(out_.number(), FIONREAD, &waiting), 0);
    }
  }

  // As a shell would say it: the exit status, or 128 + signal.
  int wait() {
    read_until([] { return false; }, {&out_, &err_});
    Watched(pid_).ends(deadline_);
    int status = 0;
    const bool has_ended = ::waitpid(pid_, &status, WNOHANG) == pid_;
    EXPECT_TRUE(has_ended) << "the launcher hangs; it wrote " << output << error;
    if (!has_ended) return -1;
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return *status_;
  }

  static int count(const std::string& text, const std::string& part) {
    int times = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++times;
    return times;
  }

  std::string output, error;

 private:
  void start(const Options& options) {
    int input[2], out[2], err[2];
    for (int* ends : {input, out, err}) EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(input[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(options.joined_outputs ? out[1] : err[1], STDERR_FILENO);
      execute();
    }
    Descriptor input_read(input[0]), input_write(input[1]), out_write(out[1]), err_write(err[1]);
    out_ = Descriptor(out[0]);
    err_ = Descriptor(err[0]);
    EXPECT_EQ(::write(input_write.number(), options.input.data(), options.input.size()),
              static_cast<ssize_t>(options.input.size()));
  }

  void start_in_terminal() {
    int terminal = -1;
    pid_ = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid_ == 0) execute();
    out_ = Descriptor(terminal);
  }

  [[noreturn]] void execute() {
    std::vector<char*> pointers;
    for (std::string& word : words_) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);  // nohup and a shell's & leave some ignored
    for (int number : ignored_) ::signal(number, SIG_IGN);
    ::execvp("env", pointers.data());
    ::_exit(127);
  }

  // Reads both outputs until `enough` or the end; a stream that is not in `sources` is left unread.
  void read_until(const std::function<bool()>& enough, std::vector<Descriptor*> sources) {
    while (!enough() && !deadline_.passed() && read_once(sources)) {
    }
  }

  bool read_once(const std::vector<Descriptor*>& sources) {
    if (std::none_of(sources.begin(), sources.end(), [](const Descriptor* source) { return bool(*source); }))
      return false;
    std::vector<pollfd> entries;
    for (const Descriptor* source : sources)
      entries.push_back({.fd = source->number(), .events = POLLIN, .revents = 0});
    const int64_t wait_ms = std::max<int64_t>(0, deadline_.remaining_ns() / 1'000'000);
    ::poll(entries.data(), entries.size(), static_cast<int>(wait_ms));
    for (size_t index = 0; index < sources.size(); ++index)
      if (entries[index].revents != 0) read_into(*sources[index]);
    return true;
  }

  // A terminal ends with EIO once nobody has it open.
  void read_into(Descriptor& source) {
    char bytes[64 * 1024];
    const ssize_t got = ::read(source.number(), bytes, sizeof bytes);
    if (got > 0) (&source == &out_ ? output : error).append(bytes, static_cast<size_t>(got));
    if (got <= 0) source.reset();
  }

  const Deadline deadline_ = Deadline::in_seconds(patience_s);
  std::vector<std::string> words_;
  std::vector<int> ignored_;
  int pid_ = -1;
  Descriptor out_, err_;
  std::optional<int> status_;
};

// The command line for ranks that are a shell program.
inline std::vector<std::string> shell(std::vector<std::string> options, const std::string& program) {
  options.insert(options.end(), {"--", "sh", "-c", program});
  return options;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

}  // namespace unisono::testing
