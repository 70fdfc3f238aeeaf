// The launcher's loop: one poll() over the ranks' processes, their outputs, our signals and our own outputs. Nothing in
// it blocks, so a rank that floods us, or a reader that sleeps, never keeps a signal or a death from being seen.
// Starting a process is in process.cpp, lines are in output.cpp, the sentences about failures in failures.cpp.
#include "tools/run/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <functional>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "tools/run/failures.hpp"
#include "tools/run/input.hpp"
#include "tools/run/keeper.hpp"
#include "tools/run/poller.hpp"
#include "tools/run/rank.hpp"
#include "tools/run/rank_environment.hpp"
#include "tools/run/signals.hpp"
#include "trust/secret.hpp"

namespace unisono::tools {
namespace {

constexpr double grace_without_job_s = 2;  // from SIGTERM to SIGKILL where the launcher of the whole job is gone

// running: nothing has failed, or failures are let be. ending: all were asked to end and the grace period runs; what a
// rank has started may use it too, so streams stay open until their end. killing: SIGKILL was sent to all.
enum class Phase { running, ending, killing };

class Launcher {
 public:
  explicit Launcher(const RunOptions& options) : options_(options) {}
  JobEnding run();

 private:
  Status open();
  Status open_secret();
  int start_ranks();
  int start_rank(int local, const Job& job);

  void turn();
  void watch_rank(Rank& rank);
  int wait_ms() const;

  void let_go();
  void read_orders();
  void follow_orders();
  void follow(const Order& order);
  void take_signal(int signal);
  void signal_groups(int signal);
  void end_all();
  void ask_to_end();
  void note_end_of_grace();
  void kill_all();
  void note_exits();
  void note_exit(Rank& rank);
  void note_failure(Rank& rank);
  bool is_our_doing(const Ending& ending) const;

  void answer(const Answer& answer) { out_.append(answer.line() + "\n"); }
  void say(std::string_view text) { errors_.append(fmt::format("unisono run: {}\n", text)); }
  bool ranks_are_over() const { return std::all_of(ranks_.begin(), ranks_.end(), std::mem_fn(&Rank::is_over)); }
  bool is_written() const { return out_.is_empty() && err_.is_empty(); }
  JobEnding finish(int status);
  int status() const;

  const RunOptions& options_;
  Keeper keeper_;
  std::unique_ptr<Signals> signals_;
  Input input_;
  OrderReader orders_ = options_.orders;
  bool has_orders_ = options_.sheet.has_value();  // from the launcher of the whole job, which still lives
  Descriptor secret_;  // what ranks read the job secret from, unless they find it by themselves
  Sink out_{STDOUT_FILENO}, err_{STDERR_FILENO};
  Sink& errors_ = are_same_file(STDOUT_FILENO, STDERR_FILENO) ? out_ : err_;  // so that lines do not mix in a file
  std::deque<Rank> ranks_;

  Phase phase_ = Phase::running;
  Deadline grace_;
  Failures failures_;
  int forwarded_ = 0;        // the last signal we passed on that ends programs
  int interrupts_ = 0;       // how often SIGINT came
  bool were_asked_ = false;  // by SIGTERM, from us
  bool gave_up_ = false;
  bool was_ordered_to_end_ = false;  // what failed first was elsewhere

  Poller poller_;
  std::vector<Rank*> exited_;  // in this turn
};

JobEnding Launcher::run() {
  if (Status opened = open(); !opened.ok()) {
    say(opened.message());
    return finish(1);
  }
  if (int refused = start_ranks(); refused != 0) {
    signal_groups(SIGKILL);
    let_go();
    ranks_.clear();
    return finish(refused);
  }
  follow_orders();  // those that came with the sheet
  while (!ranks_are_over()) turn();
  let_go();
  if (std::string text = failures_.later(); !text.empty()) say(text);
  return finish(status());
}

// While the numbers still mean these groups.
void Launcher::let_go() {
  for (const Rank& rank : ranks_) keeper_.forget(rank.process.pid);
}

// The last lines may still wait for a slow reader; a signal cuts that short.
JobEnding Launcher::finish(int status) {
  while (!is_written() && !gave_up_) turn();
  return {.status = gave_up_ ? 128 + forwarded_ : status, .failed_rank = failures_.has_any() ? failures_.first()->rank : -1, .was_interrupted = forwarded_ != 0 || out_.is_broken() || err_.is_broken()};
}

int Launcher::status() const {
  if (!failures_.has_any()) return 0;
  const Ending& first = failures_.first()->ending;
  const bool was_killed_on_request = phase_ == Phase::killing && first.signal == SIGKILL && forwarded_ != 0;
  return was_killed_on_request ? 128 + forwarded_ : first.shell_status();
}

Status Launcher::open() {
  RETURN_IF_ERROR(keeper_.open());
  Result<std::unique_ptr<Signals>> signals = Signals::open();
  RETURN_IF_ERROR(signals.status());
  signals_ = std::move(*signals);
  RETURN_IF_ERROR(open_secret());
  if (!options_.sheet) return input_.open();
  ::fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  return input_.open_given([this](size_t bytes) { answer({.kind = Answer::Kind::taken, .taken_bytes = static_cast<int64_t>(bytes)}); });
}

// Never through the environment: it is taken out of ours, and any process of this user could read it in theirs.
Status Launcher::open_secret() {
  if (options_.secret >= 0) return Status::success();
  Result<std::optional<Secret>> secret = secret_to_hand_on();
  if (!secret.ok() || !*secret) return secret.status();
  Result<Descriptor> descriptor = secret_descriptor(**secret);
  if (descriptor.ok()) secret_ = std::move(*descriptor);
  return descriptor.status();
}

int Launcher::start_ranks() {
  const Job job = options_.sheet ? Job{options_.sheet->job, options_.sheet->port} : new_job();
  for (int local = 0; local < options_.ranks; ++local)
    if (int refused = start_rank(local, job); refused != 0) return refused;
  input_.ranks_have_started();
  return 0;
}

int Launcher::start_rank(int local, const Job& job) {
  Place place{.rank = local, .size = options_.ranks, .local_rank = local, .local_size = options_.ranks};
  if (options_.sheet) {
    place.rank += options_.sheet->first_rank;
    place.size = options_.sheet->size;
    place.address = options_.sheet->address;
  }
  const int number = place.rank;
  Environment started_in = process_environment();
  if (options_.sheet)
    for (const auto& [name, value] : options_.sheet->environment) started_in[name] = value;
  Environment environment = rank_environment(started_in, job, place);
  for (const std::string& setting : options_.environment) {
    const size_t equals = setting.find('=');
    environment[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  const int secret = options_.secret >= 0 ? options_.secret : secret_.number();
  if (secret >= 0) environment["UNISONO_SECRET_FD"] = std::to_string(secret);
  Result<Process> started = start({.command = options_.command,
                                   .environment = environment,
                                   .input = input_.of_rank(number),
                                   .secret = secret},
                                  *signals_);
  if (!started.ok()) {
    say(fmt::format("cannot start rank {}: {}", number, started.status().message()));
    return 1;
  }
  const int exec_error = started->exec_error;
  const std::string prefix = options_.prefix ? fmt::format("[{}] ", number) : "";
  ranks_.emplace_back(number, std::move(*started), prefix, out_, errors_);
  if (options_.sheet) ranks_.back().output.mark_lines_that_begin_with(Answer::mark);
  keeper_.keep(ranks_.back().process.pid);
  if (exec_error == 0) return 0;
  say(cannot_start(options_.command.front(), exec_error) + (options_.sheet ? fmt::format(" (on host {})", options_.sheet->host) : ""));
  return exec_error == ENOENT ? 127 : 126;
}

void Launcher::watch_rank(Rank& rank) {
  for (RankStream* stream : {&rank.output, &rank.error})
    if (stream->is_wanted()) poller_.watch(stream->descriptor(), POLLIN, [stream] { stream->read_some(); });
  if (!rank.ending) poller_.watch(rank.process.handle.number(), POLLIN, [this, &rank] { exited_.push_back(&rank); });
}

void Launcher::turn() {
  poller_.clear();
  if (signals_)
    poller_.watch(signals_->descriptor(), POLLIN, [this] {
      while (std::optional<int> signal = signals_->next()) take_signal(*signal);
    });
  if (has_orders_) poller_.watch(STDIN_FILENO, POLLIN, [this] { read_orders(); });
  for (Rank& rank : ranks_) watch_rank(rank);
  poller_.watch(input_.awaited(), POLLIN, [this] { input_.read_some(); });
  poller_.watch(input_.writable_awaited(), POLLOUT, [this] { input_.write_some(); });
  for (Sink* sink : {&out_, &err_})
    if (!sink->is_empty()) poller_.watch(sink->descriptor(), POLLOUT, [sink] { sink->write_some(); });

  poller_.wait(wait_ms());
  note_exits();
  if (grace_.passed()) note_end_of_grace();
}

int Launcher::wait_ms() const {
  if (grace_.at_ns == never_ns) return -1;
  return static_cast<int>(std::clamp<int64_t>(grace_.remaining_ns() / 1'000'000 + 1, 0, 1'000'000));
}

// The end of our input is that of whoever started the job, or of the way to it: the ranks are not to outlive that.
void Launcher::read_orders() {
  char bytes[64 * 1024];
  const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (got > 0) orders_.add({bytes, static_cast<size_t>(got)});
  follow_orders();
  const bool has_ended = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
  if (!has_ended && !orders_.is_lost()) return;
  has_orders_ = false;
  gave_up_ = true;  // nobody reads what is still to be written
  if (phase_ == Phase::running) end_all();
  grace_ = std::min(grace_, Deadline::in_seconds(grace_without_job_s), [](const Deadline& left, const Deadline& right) { return left.at_ns < right.at_ns; });
}

void Launcher::follow_orders() {
  while (std::optional<Order> order = orders_.next()) follow(*order);
}

void Launcher::follow(const Order& order) {
  switch (order.kind) {
    case OrderKind::input: return input_.give(order.text);
    case OrderKind::end_of_input: return input_.give_end();
    case OrderKind::signal: return take_signal(order.text.empty() ? SIGTERM : order.text.front());
    case OrderKind::end:
      was_ordered_to_end_ = true;
      if (phase_ == Phase::running) end_all();
      return;
    case OrderKind::sheet: return;
  }
}

// Signals for the terminal's foreground group reach only us, since each rank has a group of its own; so passing them on
// delivers each exactly once, whoever sent it.
void Launcher::take_signal(int signal) {
  if (signal == SIGTSTP) {
    signal_groups(SIGTSTP);
    if (options_.sheet) return;  // how would we hear that it goes on?
    ::raise(SIGSTOP);  // SIGCONT wakes us and is then passed on like any other
    return;
  }
  if (Signals::ends_a_program(signal)) {
    forwarded_ = signal;
    if (signal == SIGINT && ++interrupts_ > 1) return kill_all();
    if (ranks_are_over()) gave_up_ = true;
  }
  signal_groups(signal);
}

// The group of a rank that has ended in peace is left alone, with whatever it may have left running.
void Launcher::signal_groups(int signal) {
  for (const Rank& rank : ranks_)
    if (!rank.is_over()) ::kill(-rank.process.pid, signal);
}

// Ranks that a signal of the user's has already asked to end are left to it before they get ours.
void Launcher::end_all() {
  phase_ = Phase::ending;
  grace_ = Deadline::in_seconds(options_.grace_s);
  if (forwarded_ == 0) ask_to_end();
}

void Launcher::ask_to_end() {
  were_asked_ = true;
  signal_groups(SIGTERM);
}

void Launcher::note_end_of_grace() {
  if (were_asked_) return kill_all();
  grace_ = Deadline::in_seconds(options_.grace_s);
  ask_to_end();
}

void Launcher::kill_all() {
  phase_ = Phase::killing;
  grace_ = {};
  signal_groups(SIGKILL);
  for (Rank& rank : ranks_)
    if (rank.ending) rank.finish_streams();
}

// Of several that are found dead together, one killed by a signal is the likelier cause.
void Launcher::note_exits() {
  for (Rank* rank : exited_) rank->ending = ending_of(rank->process);
  std::stable_sort(exited_.begin(), exited_.end(), [](const Rank* left, const Rank* right) {
    return (left->ending->signal != 0) > (right->ending->signal != 0);
  });
  for (Rank* rank : exited_) note_exit(*rank);
  exited_.clear();
  const bool all_ended = std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ending; });
  if (all_ended && phase_ == Phase::ending && !were_asked_) note_end_of_grace();  // what they left behind may go too
}

void Launcher::note_exit(Rank& rank) {
  for (RankStream* stream : {&rank.output, &rank.error}) {
    stream->read_what_is_there();
    stream->end_line();
  }
  if (rank.number == 0) input_.close();
  rank.ending->is_success() ? keeper_.forget(rank.process.pid) : note_failure(rank);
  if (phase_ != Phase::ending) rank.finish_streams();
}

bool Launcher::is_our_doing(const Ending& ending) const {
  if (ending.signal == 0) return false;
  if (ending.signal == forwarded_) return true;
  if (ending.signal == SIGPIPE) return out_.is_broken() || err_.is_broken();  // as in `unisono run … | head`
  return (were_asked_ && ending.signal == SIGTERM) || (phase_ == Phase::killing && ending.signal == SIGKILL);
}

void Launcher::note_failure(Rank& rank) {
  const bool is_expected = is_our_doing(*rank.ending);
  if (failures_.has_any() || was_ordered_to_end_) {
    const bool was_stubborn = is_expected && rank.ending->signal == SIGKILL && interrupts_ < 2;
    if (was_stubborn)
      failures_.add_later(rank.number, fmt::format("had to be killed, {:g} s after SIGTERM", options_.grace_s));
    if (!is_expected) failures_.add_later(rank.number, rank.ending->how());
    return;
  }
  const double after_s = static_cast<double>(now_ns() - rank.started_ns) / 1e9;
  failures_.add_first({.rank = rank.number, .pid = rank.process.pid, .host = options_.sheet ? options_.sheet->host : "", .ending = *rank.ending, .after_s = after_s});
  say(failures_.first()->text() + (is_expected ? "" : repeated(rank.last_lines)));
  if (options_.sheet) answer({.kind = Answer::Kind::failed, .rank = rank.number, .status = status()});
  if (!options_.keep_going && phase_ == Phase::running) end_all();
}

}  // namespace

void open_standard_descriptors() {
  for (int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) < 0) CHECK(::open("/dev/null", O_RDWR) == number);
}

Status check_descriptors(int needed, const std::string& what) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (static_cast<rlim_t>(needed) <= limit.rlim_cur) return Status::success();
  return {ErrorCode::resource, fmt::format("{} need {} open files, the limit is {}; raise it with: ulimit -n {}", what, needed, limit.rlim_cur, needed)};
}

JobEnding run_here(const RunOptions& options) {
  open_standard_descriptors();
  if (Status limits = check_descriptors(3 * options.ranks + 32, fmt::format("{} ranks", options.ranks)); !limits.ok()) {
    fmt::print(stderr, "unisono run: {}\n", limits.message());
    return {.status = 1};
  }
  return Launcher(options).run();
}

}  // namespace unisono::tools
