// See remote_host.hpp.
#include "tools/run/remote_host.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"

namespace unisono::tools {
namespace {

constexpr double answers_within_s = 60;

// The same file as here, where the hosts share it; otherwise what the host has in PATH.
std::string remote_command() {
  std::error_code fault;
  const std::string here = std::filesystem::read_symlink("/proc/self/exe", fault);
  const std::string by_path = "exec unisono run --agent";
  if (fault || here.empty()) return "exec sh -c " + for_a_shell(by_path);
  return "exec sh -c " + for_a_shell(fmt::format("if [ -x {0} ]; then exec {0} run --agent; fi; {1}", for_a_shell(here), by_path));
}

}  // namespace

RemoteHost::~RemoteHost() {
  if (process_.pid == 0) return;
  if (!ending_) kill();
  ::waitpid(process_.pid, nullptr, 0);
}

// No question can be answered; a host that does not answer is given up in seconds, also later.
Status RemoteHost::begin(const std::vector<std::string>& ssh, const Signals& signals) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {ErrorCode::resource, fmt::format("cannot open a pipe: {}", std::strerror(errno))};
  const Descriptor read_end(ends[0]);
  orders_ = Descriptor(ends[1]);
  ::fcntl(orders_.number(), F_SETFL, O_NONBLOCK);
  std::vector<std::string> command = ssh;
  for (const char* option : {"-T", "-x", "-oBatchMode=yes", "-oConnectTimeout=15", "-oServerAliveInterval=1", "-oServerAliveCountMax=4", "-oRemoteCommand=none", "--"}) command.emplace_back(option);
  command.push_back(share_.name);
  command.push_back(remote_command());
  auto started = start({.command = command, .environment = process_environment(), .input = read_end.number()}, signals);
  if (!started.ok()) return {started.status().code(), fmt::format("cannot reach host {}: {}", share_.name, started.status().message())};
  process_ = std::move(*started);
  ready_by_ = Deadline::in_seconds(answers_within_s);
  output_.emplace(std::move(process_.output), RankStream::Way{.prefix = "", .sink = out_, .takes_line = [this](std::string_view line) { return take_line(line); }});
  error_.emplace(std::move(process_.error), RankStream::Way{.prefix = "", .sink = err_});
  if (process_.exec_error == 0) return Status::success();
  return {ErrorCode::argument, cannot_start(ssh.front(), process_.exec_error)};
}

// Before its launcher has answered, what comes is from the user's shell there.
bool RemoteHost::take_line(std::string_view line) {
  if (line.starts_with(std::string{Answer::mark, Answer::mark})) {
    out_.append(line.substr(1));
    out_.append("\n");
    return true;
  }
  const std::optional<Answer> answer = Answer::parse(line);
  if (!answer && !is_ready() && !line.empty()) err_.append(fmt::format("{}: {}\n", share_.name, line));
  if (!answer) return !is_ready();
  const bool is_again = answer->kind == Answer::Kind::ready && is_ready();
  if (answer->kind == Answer::Kind::ready) place_ = answer;
  has_told_failure_ |= answer->kind == Answer::Kind::failed;
  if (!is_again) heard_(*answer);
  return true;
}

void RemoteHost::tell(const Order& order) {
  if (!orders_) return;
  unsent_ += bytes_of(order);
  write_some();
}

void RemoteHost::write_some() {
  while (!unsent_.empty()) {
    const ssize_t written = ::write(orders_.number(), unsent_.data() + sent_, unsent_.size() - sent_);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0) return close_orders();
    sent_ += static_cast<size_t>(written);
    if (sent_ == unsent_.size()) forget();
  }
}

// The secret is in there.
void RemoteHost::forget() {
  explicit_bzero(unsent_.data(), unsent_.size());
  unsent_.clear();
  sent_ = 0;
}

void RemoteHost::close_orders() {
  forget();
  orders_.reset();
}

void RemoteHost::kill() {
  close_orders();
  if (process_.pid != 0 && !ending_) ::kill(-process_.pid, SIGKILL);
  for (auto* stream : {&output_, &error_})
    if (*stream) (*stream)->finish();
}

Ending RemoteHost::note_end() {
  ending_ = ending_of(process_);
  close_orders();
  for (auto* stream : {&output_, &error_}) {
    (*stream)->read_what_is_there();
    (*stream)->finish();
  }
  return *ending_;
}

}  // namespace unisono::tools
