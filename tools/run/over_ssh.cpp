// See over_ssh.hpp. The words that travel are in orders.hpp; one host and the way to it in remote_host.hpp.
#include "tools/run/over_ssh.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <filesystem>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "tools/run/poller.hpp"
#include "tools/run/rank_environment.hpp"
#include "tools/run/remote_host.hpp"
#include "tools/run/signals.hpp"
#include "trust/secret.hpp"

namespace unisono::tools {
namespace {

constexpr int most_at_once = 32;             // that are being reached; sshd refuses many that come together
constexpr int64_t most_unread_bytes = 65536;  // of rank 0's input, on the way
constexpr double tells_after_s = 5;          // which hosts are still awaited
constexpr double grace_of_hosts_s = 3;       // beyond that of the ranks: for hosts that end theirs to say so
constexpr int ssh_failed = 255;

// What belongs to the machine and the session here, and not to the job.
constexpr std::string_view stays_here[] = {"HOME",  "USER",    "LOGNAME", "SHELL",           "HOSTNAME", "PWD",           "OLDPWD", "SHLVL", "TMPDIR", "TMP", "TEMP", "MAIL",
                                           "LANGUAGE", "_", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "TERM_PROGRAM", "TMUX", "STY", "WINDOWID", "HOST", "HOSTTYPE", "COLUMNS", "LINES"};
constexpr std::string_view stay_here[] = {"SSH_", "XDG_", "DBUS_", "SUDO_", "SYSTEMD_", "GPG_", "BASH_FUNC_"};  // beginnings of names

Environment environment_of_job() {
  Environment environment = process_environment();
  for (std::string_view name : stays_here) environment.erase(std::string(name));
  std::erase_if(environment, [](const auto& entry) { return entry.first.empty() || std::ranges::any_of(stay_here, [&](std::string_view begin) { return entry.first.starts_with(begin); }); });
  return environment;
}

class JobOverSsh {
 public:
  JobOverSsh(const RunOptions& options, const SshOptions& over) : options_(options), over_(over) {}
  JobEnding run();

 private:
  Status open();
  void reach_more();
  void turn();
  void watch(RemoteHost& host);
  void watch_input();
  int wait_ms() const;

  void take_answer(RemoteHost& host, const Answer& answer);
  void start_job();
  Sheet sheet_for(const RemoteHost& host) const;
  void take_signal(int signal);
  void tell_all(const Order& order);
  void end_job();
  void kill_all();
  void note_end(RemoteHost& host);
  void give_up(RemoteHost& host);
  void note_failure(int rank, int status);
  void read_input();
  void tell_who_is_awaited();

  void say(std::string_view text) { errors_.append(fmt::format("unisono run: {}\n", text)); }
  bool is_over() const { return std::ranges::all_of(hosts_, &RemoteHost::is_over) && (has_failed() || hosts_.size() == over_.hosts.size()); }
  bool has_failed() const { return ending_.status != 0; }

  const RunOptions& options_;
  const SshOptions& over_;
  std::unique_ptr<Signals> signals_;
  Sink out_{STDOUT_FILENO}, err_{STDERR_FILENO};
  Sink& errors_ = are_same_file(STDOUT_FILENO, STDERR_FILENO) ? out_ : err_;
  std::deque<RemoteHost> hosts_;
  std::string secret_;  // overwritten when it goes
  Job job_ = new_job();
  bool is_started_ = false, has_input_ = true, is_ending_ = false;
  int64_t unread_bytes_ = 0;
  int interrupts_ = 0, signal_ = 0;
  bool gave_up_ = false;  // the user has, and nobody reads what is still to be written
  Deadline grace_, tells_at_ = Deadline::in_seconds(tells_after_s);
  JobEnding ending_;
  Poller poller_;
};

JobEnding JobOverSsh::run() {
  if (Status opened = open(); !opened.ok()) {
    say(opened.message());
    ending_.status = 1;
  }
  while (!is_over()) turn();
  while (!(out_.is_empty() && err_.is_empty()) && !gave_up_) turn();
  ending_.was_interrupted = signal_ != 0 || out_.is_broken() || err_.is_broken();
  explicit_bzero(secret_.data(), secret_.size());
  return ending_;
}

Status JobOverSsh::open() {
  ::prctl(PR_SET_DUMPABLE, 0);  // the secret is in memory here until all have it
  const size_t hosts = over_.hosts.size();
  RETURN_IF_ERROR(check_descriptors(4 * static_cast<int>(hosts) + 32, fmt::format("{} hosts", hosts)));
  auto signals = Signals::open();
  RETURN_IF_ERROR(signals.status());
  signals_ = std::move(*signals);
  auto secret = Secret::random("unisono run");
  if (!secret.ok()) return secret.status();
  SecretText text;
  const size_t count = write_digits(secret->bytes(), text);
  secret_ = text.first(count - 1);
  return Status::success();
}

void JobOverSsh::reach_more() {
  const auto being_reached = [this] { return std::ranges::count_if(hosts_, [](const RemoteHost& host) { return !host.is_ready() && !host.is_over(); }); };
  while (!has_failed() && !is_ending_ && hosts_.size() < over_.hosts.size() && being_reached() < most_at_once) {
    const HostShare& share = over_.hosts[hosts_.size()];
    const int first_rank = hosts_.empty() ? 0 : hosts_.back().first_rank() + hosts_.back().share().ranks;
    RemoteHost& host = hosts_.emplace_back(share, first_rank, out_, errors_);
    host.on_answer([this, &host](const Answer& answer) { take_answer(host, answer); });
    if (Status begun = host.begin(over_.ssh, *signals_); !begun.ok()) {
      say(begun.message());
      note_failure(-1, begun.code() == ErrorCode::argument ? 127 : 1);
    }
  }
}

void JobOverSsh::watch(RemoteHost& host) {
  if (host.is_over()) return;
  for (RankStream* stream : {&host.output(), &host.error()})
    if (stream->is_wanted()) poller_.watch(stream->descriptor(), POLLIN, [stream] { stream->read_some(); });
  if (host.has_orders_waiting()) poller_.watch(host.orders_descriptor(), POLLOUT, [&host] { host.write_some(); });
  poller_.watch(host.process_descriptor(), POLLIN, [this, &host] { note_end(host); });
}

// A terminal is read only by whoever is in its foreground.
void JobOverSsh::watch_input() {
  if (!is_started_ || !has_input_ || is_ending_ || unread_bytes_ >= most_unread_bytes) return;
  if (::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) return;
  poller_.watch(STDIN_FILENO, POLLIN, [this] { read_input(); });
}

void JobOverSsh::turn() {
  reach_more();
  poller_.clear();
  if (signals_)
    poller_.watch(signals_->descriptor(), POLLIN, [this] {
      while (std::optional<int> signal = signals_->next()) take_signal(*signal);
    });
  for (RemoteHost& host : hosts_) watch(host);
  watch_input();
  for (Sink* sink : {&out_, &err_})
    if (!sink->is_empty()) poller_.watch(sink->descriptor(), POLLOUT, [sink] { sink->write_some(); });
  // What nobody reads holds up no end that the user has asked for.
  if (signal_ != 0 && grace_.at_ns == never_ns && (out_.is_full() || err_.is_full())) grace_ = Deadline::in_seconds(grace_of_hosts_s);
  poller_.wait(wait_ms());
  if (!is_started_ && !has_failed() && tells_at_.passed()) tell_who_is_awaited();
  for (RemoteHost& host : hosts_)
    if (host.is_late()) give_up(host);
  if (grace_.passed()) kill_all();
}

void JobOverSsh::give_up(RemoteHost& host) {
  if (!has_failed()) say(fmt::format("host {} does not answer; does `{} {} true` end at once, and without a question?", host.share().name, fmt::join(over_.ssh, " "), host.share().name));
  host.kill();
  note_failure(-1, ssh_failed);
}

int JobOverSsh::wait_ms() const {
  int64_t wait_ns = grace_.remaining_ns();
  if (!is_started_ && !has_failed()) wait_ns = std::min(wait_ns, tells_at_.remaining_ns());
  return wait_ns > int64_t{1'000'000'000'000} ? -1 : static_cast<int>(std::max<int64_t>(wait_ns / 1'000'000 + 1, 0));
}

void JobOverSsh::tell_who_is_awaited() {
  std::string names;
  for (const RemoteHost& host : hosts_)
    if (!host.is_ready()) names += (names.empty() ? "" : ", ") + host.share().name;
  say(fmt::format("waiting for {} of {} hosts: {}", over_.hosts.size() - static_cast<size_t>(std::ranges::count_if(hosts_, &RemoteHost::is_ready)), over_.hosts.size(), names));
  tells_at_ = Deadline::in_seconds(2 * tells_after_s);
}

void JobOverSsh::take_answer(RemoteHost& host, const Answer& answer) {
  if (answer.kind == Answer::Kind::taken) unread_bytes_ -= answer.taken_bytes;
  if (answer.kind == Answer::Kind::failed) note_failure(answer.rank, answer.status);
  if (answer.kind != Answer::Kind::ready) return;
  if (answer.version != UNISONO_VERSION) {
    say(fmt::format("host {} has unisono {}, and this is {}", host.share().name, answer.version, UNISONO_VERSION));
    return note_failure(-1, 1);
  }
  const bool are_all_ready = hosts_.size() == over_.hosts.size() && std::ranges::all_of(hosts_, &RemoteHost::is_ready);
  if (are_all_ready && !is_ending_) start_job();
}

Sheet JobOverSsh::sheet_for(const RemoteHost& host) const {
  std::error_code fault;
  Sheet sheet{.job = job_.name, .host = host.share().name, .folder = std::filesystem::current_path(fault), .secret = secret_};
  sheet.address = hosts_.front().place().address;
  sheet.port = hosts_.front().place().port;
  sheet.first_rank = host.first_rank();
  sheet.ranks = host.share().ranks;
  sheet.size = ranks_of(over_.hosts);
  sheet.keep_going = options_.keep_going;
  sheet.prefix = options_.prefix;
  sheet.grace_s = options_.grace_s;
  sheet.environment = environment_of_job();
  sheet.settings = options_.environment;
  sheet.command = options_.command;
  return sheet;
}

void JobOverSsh::start_job() {
  is_started_ = true;
  for (RemoteHost& host : hosts_) host.tell({OrderKind::sheet, sheet_for(host).text()});
}

void JobOverSsh::tell_all(const Order& order) {
  for (RemoteHost& host : hosts_) host.tell(order);
}

void JobOverSsh::end_job() {
  if (is_ending_) return;
  is_ending_ = true;
  if (!is_started_) return kill_all();
  grace_ = Deadline::in_seconds(options_.grace_s + grace_of_hosts_s);
  tell_all({OrderKind::end, ""});
}

void JobOverSsh::kill_all() {
  grace_ = {};
  gave_up_ |= signal_ != 0;
  if (signal_ != 0 && !has_failed()) ending_.status = 128 + signal_;  // and not that of an ssh that we kill
  for (RemoteHost& host : hosts_) host.kill();
}

void JobOverSsh::take_signal(int signal) {
  if (Signals::ends_a_program(signal)) {
    signal_ = signal;
    if (signal == SIGINT) ++interrupts_;
    if (!is_started_ || std::ranges::all_of(hosts_, &RemoteHost::is_over)) {
      is_ending_ = true;
      return kill_all();
    }
    if (interrupts_ > 1) grace_ = Deadline::in_seconds(grace_of_hosts_s);  // a second Ctrl-C kills, also where the way to a host is gone
  }
  if (is_started_) tell_all({OrderKind::signal, std::string(1, static_cast<char>(signal))});
  if (signal == SIGTSTP) ::raise(SIGSTOP);  // SIGCONT wakes us, and is passed on
}

void JobOverSsh::note_failure(int rank, int status) {
  if (has_failed()) return;
  ending_.status = status == 0 ? 1 : status;
  ending_.failed_rank = rank;
  if (!options_.keep_going || !is_started_) end_job();
}

// A host's own launcher has said why it ends, if it could.
void JobOverSsh::note_end(RemoteHost& host) {
  const Ending ending = host.note_end();
  const bool is_ours = is_ending_ || signal_ != 0;
  if (ending.is_success() && (is_started_ || is_ours)) return;
  const bool is_told = host.is_ready() && is_started_ && ending.signal == 0 && (ending.exit_status != ssh_failed || host.has_told_failure());
  if (!is_told && !is_ours) {
    const std::string ranks = host.share().ranks == 1 ? fmt::format("rank {}", host.first_rank()) : fmt::format("ranks {} to {}", host.first_rank(), host.first_rank() + host.share().ranks - 1);
    say(is_started_ ? fmt::format("host {} ({}) is lost: {} {}", host.share().name, ranks, over_.ssh.front(), ending.how())
                    : fmt::format("host {} cannot be used: {} {}", host.share().name, over_.ssh.front(), ending.how()));
  }
  note_failure(is_started_ && !is_told ? host.first_rank() : -1, ending.shell_status());
}

void JobOverSsh::read_input() {
  char bytes[16 * 1024];
  const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got > 0) {
    unread_bytes_ += got;
    return hosts_.front().tell({OrderKind::input, {bytes, static_cast<size_t>(got)}});
  }
  has_input_ = false;
  hosts_.front().tell({OrderKind::end_of_input, ""});
}

}  // namespace

JobEnding run_over_ssh(const RunOptions& options, const SshOptions& over) { return JobOverSsh(options, over).run(); }

}  // namespace unisono::tools
