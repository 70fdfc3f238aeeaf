// Files and stores by which ranks meet; see job_names.hpp. Used by group/launch.cpp.
//
// Every rank counts the worlds that it has joined through a store, and its next one is the next after those. A join that
// failed is not counted, so whoever tries again, or was killed on the way and started again, comes to the same name.
#include "rendezvous/job_names.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/interrupt.hpp"
#include "rendezvous/own_file.hpp"
#include "rendezvous/roster.hpp"
#include "rendezvous/running_world.hpp"

namespace unisono {
namespace {

using distributed::Store;
using distributed::StoreAnswer;
using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr std::string_view name_start = "store ", file_scheme = "file://", tcp_scheme = "tcp://";

std::string joined_key(int rank) { return fmt::format("unisono/worlds_joined/{}", rank); }
std::string name_key(int64_t generation) { return fmt::format("unisono/world/{}/name", generation); }
std::string running_key(int rank) { return fmt::format("unisono/running/{}", rank); }
std::string failed_key(int64_t generation) { return fmt::format("unisono/world/{}/failed", generation); }

Result<StoreAnswer> ask(Store& store, const StoreRequest& request) {
  auto answers = store.perform({request});
  if (!answers.ok()) return answers.status();
  return std::move(answers->front());
}

Result<std::string> random_name() {
  std::array<uint64_t, 2> words;
  if (getrandom(words.data(), sizeof(words), 0) != static_cast<ssize_t>(sizeof(words)))
    return Status(ErrorCode::resource, "the system gives no random numbers");
  return fmt::format("{}{:016x}{:016x}", name_start, words[0], words[1]);
}

// What random_name() draws, and nothing else: anybody may have written it.
bool is_name(const std::string& text) {
  constexpr size_t digits = 32;
  return text.size() == name_start.size() + digits && text.starts_with(name_start) &&
         text.find_first_not_of("0123456789abcdef", name_start.size()) == text.npos;
}

// Why the ranks that were to have that name gave up; nothing, as long as nobody has.
Result<StoreAnswer> reason_in(Store& store, const std::string& job) {
  return ask(store, {.kind = Kind::get, .key = meeting_key(meeting_prefix(job), "gave_up", 0)});
}

// For a rank that waits for its name.
class NameWatch {
 public:
  NameWatch(Store& store, const StoreMeeting& meeting, std::string key) : store_(store), meeting_(meeting), key_(std::move(key)) {}

  // A second at a time, since not every store hears that its user is interrupted. Nothing: it has not come by then.
  Result<std::optional<std::string>> await(const std::stop_token& stop) {
    constexpr double slice_s = 1;
    const Deadline deadline = Deadline::in_seconds(meeting_.timeout_s);
    InterruptWatch interrupts;
    while (!deadline.passed()) {
      const double left_s = std::max(static_cast<double>(deadline.remaining_ns()) * 1e-9, 0.001);
      auto values = store_.await_values({key_}, std::min(left_s, given_up_.empty() ? slice_s : look_again_s));
      if (!values.ok() && values.status().code() != ErrorCode::timeout) return values.status();
      if (!values.ok() && !given_up_.empty()) return why_;  // rank 0 has taken it back, and was there when we came
      if (values.ok()) {
        auto is_good = look(values->front());
        if (!is_good.ok()) return is_good.status();
        if (*is_good) return std::optional(values->front());
      }
      if (interrupts.tripped() || stop.stop_requested()) return Status(ErrorCode::revoked, "interrupted while waiting for rank 0 to name the world");
    }
    return std::optional<std::string>();
  }

 private:
  static constexpr double look_again_s = 0.1;

  // Whether ranks may still meet by that name. If not, it stands there until rank 0 takes it back, or draws another.
  Result<bool> look(const std::string& name) {
    if (name != given_up_) {
      auto reason = reason_in(store_, name + meeting_.added);
      if (!reason.ok()) return reason.status();
      if (!reason->found) return true;
      given_up_ = name;
      why_ = reason_to_give_up(reason->value);
    }
    poll(nullptr, 0, static_cast<int>(look_again_s * 1000));
    return false;
  }

  Store& store_;
  const StoreMeeting& meeting_;
  const std::string key_;
  std::string given_up_;  // the name, and why
  Status why_;
};

Result<StoreJob> as_named(StoreJob job) {
  if (is_name(job.name)) return job;
  return Status(ErrorCode::init, fmt::format("the store holds something else than the name of a world, {} bytes, under \"{}\"; who else writes there?",
                                             job.name.size(), name_key(job.generation)));
}

// One that stands there is of an attempt whose rank 0 was killed, or interrupted: others may have come to it.
Result<StoreJob> draw_name(Store& store, const StoreMeeting& meeting, StoreJob job) {
  auto name = random_name();
  if (!name.ok()) return name.status();
  auto agreed = ask(store, {.kind = Kind::compare_set, .key = name_key(job.generation), .value = *name});
  if (agreed.ok() && agreed->value != *name) {
    auto reason = reason_in(store, agreed->value + meeting.added);
    if (!reason.ok()) return reason.status();
    if (reason->found) agreed = ask(store, {.kind = Kind::compare_set, .key = name_key(job.generation), .value = *name, .expected = agreed->value});
  }
  if (!agreed.ok()) return agreed.status();
  job.name = agreed->value;
  return as_named(std::move(job));
}

std::optional<RunningWorld> running_world(Store& store, int rank, int64_t generation) {
  auto answer = ask(store, {.kind = Kind::get, .key = running_key(rank)});
  if (!answer.ok() || !answer->found) return std::nullopt;
  std::optional<RunningWorld> running = RunningWorld::parse(answer->value);
  return running && running->generation == generation && running->seat.rank == rank ? running : std::nullopt;
}

// Of a rank that has left a world, or was killed in it, the others hear a moment later: so it is asked for a while.
Status check_not_running(Store& store, const StoreMeeting& meeting, int64_t joined, const std::stop_token& stop) {
  constexpr double patience_s = 1.5;
  constexpr int between_ms = 100;
  if (joined == 0 || meeting.size == 1) return Status::success();
  const auto asked = running_world(store, meeting.rank == 0 ? 1 : 0, joined);
  if (!asked) return Status::success();
  const Deadline deadline = earlier(Deadline::in_seconds(patience_s), Deadline::in_seconds(meeting.timeout_s));
  while (!deadline.passed() && !stop.stop_requested()) {
    if (ask_for(meeting.rank, *asked, meeting.added, deadline) != Whether::there) return Status::success();
    poll(nullptr, 0, between_ms);
  }
  if (stop.stop_requested()) return Status::success();
  const auto taken = running_world(store, meeting.rank, joined);
  return {ErrorCode::init, fmt::format("world {} of the store is already running with {} ranks, and its rank {} is {}, not this process (pid {} on {}); wait for it to end",
                                       joined, asked->seat.size, meeting.rank, taken ? taken->seat.who() : "another process", getpid(), name_of_this_machine())};
}

// What is known of an attempt before, for who has waited in vain.
std::string last_failure(Store& store, const StoreJob& job) {
  auto failed = ask(store, {.kind = Kind::get, .key = failed_key(job.generation)});
  if (!failed.ok() || !failed->found) return "";
  return fmt::format(" The last attempt failed: {}", reason_to_give_up(failed->value).message());
}

}  // namespace

std::string meeting_prefix(const std::string& job) { return fmt::format("unisono/meeting/{:016x}", hash_text(job)); }

Result<InitMethod> init_method_of(const std::string& text) {
  if (text.empty() || text == "env://") return InitMethod{};
  if (text == tcp_scheme) return Status(ErrorCode::argument, "init_method is \"tcp://\"; write tcp://host:port, rank 0's machine and a free port of it");
  if (text.starts_with(tcp_scheme)) return InitMethod{InitMethod::Kind::tcp, text.substr(tcp_scheme.size())};
  if (!text.starts_with(file_scheme))
    return Status(ErrorCode::argument, fmt::format("init_method is \"{}\"; there are \"env://\" (the default), \"tcp://host:port\" and "
                                                   "\"file:///path\", and store= instead of any of them", text));
  const std::string path = text.substr(file_scheme.size());
  if (!path.starts_with('/') || path.find('\0') != std::string::npos)
    return Status(ErrorCode::argument, fmt::format("init_method is \"{}\"; a file is named by its whole path, as in "
                                                   "\"file:///tmp/job\"", text));
  return InitMethod{InitMethod::Kind::file, path};
}

Result<FileJob> job_of_file(const std::string& path) {
  auto file = open_own_file(path, IfAbsent::make);
  if (!file.ok()) return file.status();
  struct stat about = {};
  if (fstat(file->number(), &about) != 0) return file_lost(path, "looking at it");
  return FileJob{fmt::format("file {}:{}", about.st_dev, about.st_ino), std::move(*file)};
}

Result<StoreJob> job_in_store(Store& store, const StoreMeeting& meeting, const std::stop_token& stop) {
  auto joined = ask(store, {.kind = Kind::add, .key = joined_key(meeting.rank), .amount = 0});
  if (!joined.ok()) return joined.status();
  constexpr int64_t most_worlds = int64_t{1} << 48;
  if (joined->number < 0 || joined->number > most_worlds)
    return Status(ErrorCode::init, fmt::format("the store says that rank {} has joined {} worlds, which cannot be; who else writes under \"{}\"?",
                                               meeting.rank, joined->number, joined_key(meeting.rank)));
  StoreJob job{{}, joined->number + 1};
  RETURN_IF_ERROR(check_not_running(store, meeting, joined->number, stop));
  if (meeting.rank == 0) return draw_name(store, meeting, std::move(job));
  auto name = NameWatch(store, meeting, name_key(job.generation)).await(stop);
  if (!name.ok()) return name.status();
  if (*name) {
    job.name = std::move(**name);
    return as_named(std::move(job));
  }
  return Status(ErrorCode::init, fmt::format("rank {} of {} waited {} s for rank 0 to name world {} of the store; was it "
                                             "started, with the same store and prefix, and has it joined {} worlds there before, as "
                                             "this rank has?{}",
                                             meeting.rank, meeting.size, meeting.timeout_s, job.generation, joined->number, last_failure(store, job)));
}

// Everybody has the name by now, so that it can go: a store that serves many worlds does not grow.
Status count_joined(Store& store, const StoreMeeting& meeting, const StoreJob& job, const std::string& running) {
  std::vector<StoreRequest> requests = {{.kind = Kind::add, .key = joined_key(meeting.rank), .amount = 1}};
  if (meeting.rank == 0)
    for (const std::string& key : {name_key(job.generation), failed_key(job.generation)}) requests.push_back({.kind = Kind::delete_key, .key = key});
  if (!running.empty()) requests.push_back({.kind = Kind::set, .key = running_key(meeting.rank), .value = running});
  return store.perform(requests).status();
}

// The next attempt says so if the store is gone.
void take_name_back(Store& store, const StoreMeeting& meeting, const StoreJob& job, const Status& why) {
  if (meeting.rank != 0) return;
  static_cast<void>(store.perform({{.kind = Kind::set, .key = failed_key(job.generation), .value = text_of_reason(why)},
                                   {.kind = Kind::delete_key, .key = name_key(job.generation)}}).ok());
}

}  // namespace unisono
