// The thread of a Roster, which talks to the store. Who is missing, and who came and is gone: roster_missing.cpp.
#include "rendezvous/roster_talk.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/check.hpp"
#include "base/shortage.hpp"

namespace unisono {
namespace {

using distributed::StoreAnswer;
using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr double first_look_s = 0.01, longest_look_s = 0.5;  // for entries of ranks that came meanwhile, and whether another gave up
constexpr double between_signs_s = 1;

}  // namespace

Roster::Talk::Talk(MeetingStore meeting, const Deadline& deadline, int rank)
    : meeting_(std::move(meeting)), deadline_(deadline), rank_(rank), news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), look_s_(first_look_s) {}

void Roster::Talk::post(std::vector<Entry> entries) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries) to_enter_.push_back(std::move(entry));
  wanted_.notify_one();
}

void Roster::Talk::tell() {
  constexpr uint64_t one = 1;
  static_cast<void>(!::write(news_.number(), &one, sizeof(one)));
}

// What is to be entered goes before the next wait, and also when the agent is done: it may have given up.
void Roster::Talk::run(const std::stop_token& stop) {
  while (true) {
    std::vector<Entry> entries;
    std::vector<std::string> awaited;
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [&] { return stops_ || (state_.ok() && (!to_enter_.empty() || !awaited_.empty())); });
      if (stops_ && (to_enter_.empty() || stop.stop_requested())) break;
      entries.swap(to_enter_);
      for (const Entry& entry : entries)
        if (entry.manner == Manner::set || entry.manner == Manner::claim) entered_.push_back(entry.key);
      if (!stops_) awaited = awaited_;
    }
    Status status = or_out_of_memory([&] {
      RETURN_IF_ERROR(open(stop));
      return talk(entries, awaited);
    });
    if (status.ok()) continue;
    {
      std::lock_guard lock(mutex_);
      if (state_.ok()) state_ = std::move(status);
    }
    tell();
  }
  store_.reset();
  meeting_.open = nullptr;
  std::lock_guard lock(mutex_);
  has_ended_ = true;
  changed_.notify_all();
}

Result<Roster::Talk::Answers> Roster::Talk::ask(const Requests& requests) {
  if (requests.empty()) return Answers();
  auto answers = store_->perform(requests);
  if (!answers.ok()) return meeting_store_lost(answers.status());
  return answers;
}

// A store whose meeting is over is about to end: nothing is entered there.
Status Roster::Talk::open(const std::stop_token& stop) {
  if (store_) return Status::success();
  auto opened = meeting_.open(stop);
  if (!opened.ok()) {
    const ErrorCode code = opened.status().code();
    const bool never_came = code == ErrorCode::timeout || code == ErrorCode::store_lost || code == ErrorCode::peer_lost;
    return {never_came ? ErrorCode::init : code, opened.status().message()};
  }
  store_ = std::move(*opened);
  bool is_over = false;
  Status failure;
  if (meeting_.ends_with_meeting) {
    auto answers = store_->perform({{.kind = Kind::check, .key = key("complete")}, {.kind = Kind::get, .key = key("gave_up")}, {.kind = Kind::check, .key = key("heard", rank_)}});
    const bool has_ended = answers.status().code() == ErrorCode::store_lost;  // before it said anything: that of the world before, whose rank 0 has just left
    if (!answers.ok() && !has_ended) return meeting_store_lost(answers.status());
    is_over = has_ended || answers->front().found;
    if (!is_over && (*answers)[1].found && (*answers)[2].found) failure = reason_to_give_up((*answers)[1].value);
  }
  if (is_over) RETURN_IF_ERROR(look_whether_it_runs(stop));
  std::lock_guard lock(mutex_);
  is_open_ = true;
  is_over_ = is_over || !failure.ok();
  failure_ = std::move(failure);
  return Status::success();
}

// A rank that has left that world comes for the next one, and waits until the store ends. Of one that has not, another process is there, or was until it died.
// That somebody has left is heard by rank 0, and written down here, a moment later.
Status Roster::Talk::look_whether_it_runs(const std::stop_token& stop) {
  constexpr int most_looks = 10;
  constexpr timespec between{0, 100'000'000};
  Answers found;
  for (int look = 0; look < most_looks && !stop.stop_requested(); ++look) {
    if (look > 0) nanosleep(&between, nullptr);
    auto answers = store_->perform({{.kind = Kind::check, .key = key("left", rank_)}, {.kind = Kind::get, .key = key("seats", rank_)}});
    if (!answers.ok() || answers->front().found) return Status::success();  // it has ended, or will: that is seen by who waits for it
    found = std::move(*answers);
  }
  if (stop.stop_requested()) return Status::success();
  std::lock_guard lock(mutex_);
  is_running_ = true;
  taken_ = found.back().value.substr(0, most_entry_bytes + 1);
  return Status::success();
}

// Of a store whose meeting is over only its end is awaited: what stands there is of the world that was.
Status Roster::Talk::talk(const std::vector<Entry>& entries, const std::vector<std::string>& awaited) {
  if (!is_over_) RETURN_IF_ERROR(write(entries));
  if (awaited.empty()) return Status::success();
  look_s_ = entries.empty() ? std::min(2 * look_s_, longest_look_s) : first_look_s;
  if (is_over_) {
    tell();
    return await({key("the end")});
  }
  RETURN_IF_ERROR(look());
  return await(awaited);
}

// Who has ended goes last: a process that was started in its place may have claimed the seat meanwhile, and keeps it.
Status Roster::Talk::write(const std::vector<Entry>& entries) {
  std::vector<StoreRequest> requests, withdrawals;
  std::vector<const Entry*> asked;
  for (const Entry& entry : entries) {
    if (entry.manner == Manner::withdraw) {
      const std::optional<Seat> seat = Seat::parse(entry.value);
      if (seat) withdrawals.push_back({.kind = Kind::compare_set, .key = entry.key, .value = seat->ended_text(), .expected = entry.value});
      continue;
    }
    const bool by_comparison = entry.manner == Manner::claim || entry.manner == Manner::propose;
    const Kind kind = by_comparison ? Kind::compare_set : entry.manner == Manner::remove ? Kind::delete_key : Kind::set;
    requests.push_back({.kind = kind, .key = entry.key, .value = entry.value});
    asked.push_back(&entry);
  }
  auto answers = ask(requests);
  if (!answers.ok()) return answers.status();
  for (size_t index = 0; index < asked.size(); ++index)
    if (asked[index]->manner == Manner::claim && (*answers)[index].value != asked[index]->value) RETURN_IF_ERROR(insist(*asked[index], (*answers)[index].value));
  return ask(withdrawals).status();
}

// A seat whose rank has ended is free. Any other is claimed all the same, and whoever has it may object.
Status Roster::Talk::insist(const Entry& claim, std::string found) {
  if (Seat::parse_ended(found)) {
    auto answers = ask({{.kind = Kind::compare_set, .key = claim.key, .value = claim.value, .expected = found}});
    if (!answers.ok()) return answers.status();
    if (answers->front().value == claim.value) return Status::success();
    found = answers->front().value;
  }
  {
    std::lock_guard lock(mutex_);
    taken_ = found.substr(0, most_entry_bytes + 1);
  }
  return ask({{.kind = Kind::set, .key = claim.key, .value = claim.value}, {.kind = Kind::set, .key = key("disputes"), .value = claim.value}}).status();
}

// Whether another gave up, or says that it has the rank of somebody here. Of a store that somebody else serves nobody sees who is connected: there agents give a sign.
Status Roster::Talk::look() {
  Requests requests = {{.kind = Kind::get, .key = key("gave_up")}, {.kind = Kind::get, .key = key("disputes")}};
  if (!meeting_.ends_with_meeting && gives_sign_.passed()) {
    std::lock_guard lock(mutex_);
    const std::string sign = key("signs", rank_);
    if (signs_given_ == 0) entered_.push_back(sign);
    if (!stops_) requests.push_back({.kind = Kind::set, .key = sign, .value = std::to_string(++signs_given_)});  // else it would stay: what was entered is being taken back
    gives_sign_ = Deadline::in_seconds(between_signs_s);
  }
  auto answers = ask(requests);
  if (!answers.ok()) return answers.status();
  const StoreAnswer &gave_up = (*answers)[0], &dispute = (*answers)[1];
  if (gave_up.found) return hear_reason(gave_up.value);
  if (!dispute.found || dispute.value.size() > most_entry_bytes || dispute.value == last_dispute_) return Status::success();
  {
    std::lock_guard lock(mutex_);
    dispute_ = last_dispute_ = dispute.value;
  }
  tell();
  return Status::success();
}

// For all ranks here.
Status Roster::Talk::hear_reason(const std::string& text) {
  Requests requests;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [rank, seat] : claimed_)
      if (meeting_.ends_with_meeting) requests.push_back({.kind = Kind::set, .key = key("heard", rank), .value = "yes"});
  }
  static_cast<void>(ask(requests).ok());  // else some of them may hear it once more
  return reason_to_give_up(text);
}

Status Roster::Talk::await(const std::vector<std::string>& awaited) {
  auto values = store_->await_values(awaited, look_s_);
  if (!values.ok() && values.status().code() != ErrorCode::timeout) return meeting_store_lost(values.status());
  std::vector<std::string> ended;  // they stand there, and nobody is behind them
  for (size_t index = 0; values.ok() && index < values->size(); ++index)
    if (Seat::parse_ended((*values)[index])) ended.push_back(awaited[index]);
  if (values.ok() && ended.empty()) {
    {
      std::lock_guard lock(mutex_);
      if (awaited_ != awaited) return Status::success();
      awaited_.clear();
      found_ = std::move(*values);
    }
    tell();
    return Status::success();
  }
  if (!ended.empty()) RETURN_IF_ERROR(check_decided(ended));
  if (!ended.empty()) rest(awaited);
  constexpr int64_t shortly_ns = 1'000'000'000, long_before_ns = 4'000'000'000;  // signs are to be seen for some time
  bool is_asked = deadline_.remaining_ns() <= (meeting_.ends_with_meeting ? shortly_ns : long_before_ns);
  {
    std::lock_guard lock(mutex_);
    is_asked |= std::exchange(asks_who_is_missing_, false);
  }
  return is_asked ? look_who_is_missing(awaited) : Status::success();
}

// Where somebody has read the seats before that rank ended, all others go on without it being there, and only this can tell them. What was decided is asked
// first: a process that was started in its place may come in between.
Status Roster::Talk::check_decided(const std::vector<std::string>& keys) {
  Requests requests = {{.kind = Kind::check, .key = key("complete")}};
  for (const std::string& one : keys) requests.push_back({.kind = Kind::get, .key = one});
  auto answers = ask(requests);
  if (!answers.ok()) return answers.status();
  if (!answers->front().found) return Status::success();
  for (const StoreAnswer& answer : *answers) {
    const std::optional<Seat> seat = Seat::parse_ended(answer.value);
    if (!seat) continue;
    const Status why(ErrorCode::init, fmt::format("rank {} ({}) came and has ended, after the others had counted on it", seat->rank, seat->who()));
    RETURN_IF_ERROR(ask({{.kind = Kind::set, .key = key("gave_up"), .value = text_of_reason(why)}}).status());
    return why;
  }
  return Status::success();
}

// Until it is time to look again, or there is something else to do.
void Roster::Talk::rest(const std::vector<std::string>& awaited) {
  std::unique_lock lock(mutex_);
  wanted_.wait_for(lock, std::chrono::duration<double>(look_s_), [&] { return stops_ || !to_enter_.empty() || awaited_ != awaited; });
}

}  // namespace unisono
