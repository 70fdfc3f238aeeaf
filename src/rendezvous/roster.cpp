// See roster.hpp. Used by host.cpp.
#include "rendezvous/roster.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <utility>

#include "base/all_signals_blocked.hpp"
#include "base/check.hpp"
#include "base/descriptor.hpp"
#include "base/fork.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"

namespace unisono {
namespace {

using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr double first_look_s = 0.01, longest_look_s = 0.5;  // for entries of ranks that came meanwhile, and whether another gave up
constexpr std::chrono::milliseconds last_words(1000), last_look(300);

}  // namespace

std::string meeting_key(std::string_view prefix, std::string_view round, int number) { return fmt::format("{}/{}/{}", prefix, round, number); }

Status meeting_store_lost(const Status& why) { return {ErrorCode::init, fmt::format("the store by which the ranks meet: {}", why.message())}; }

struct Roster::Talk {
  enum class Manner { set, claim, propose, remove };
  struct Entry {
    Manner manner;
    std::string key, value = {};
  };

  Talk(MeetingStore meeting, const Deadline& deadline, int rank)
      : meeting_(std::move(meeting)), deadline_(deadline), rank_(rank), news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  std::string key(std::string_view round, int number = 0) const { return meeting_key(meeting_.prefix, round, number); }
  void post(std::vector<Entry> entries);
  void run(const std::stop_token& stop);
  Status talk(const std::vector<Entry>& entries, const std::vector<std::string>& awaited);
  Status open(const std::stop_token& stop);
  Status look_whether_it_runs(const std::stop_token& stop);
  Status write(const std::vector<Entry>& entries);
  Status look();
  Status await(const std::vector<std::string>& awaited);
  Status look_who_is_missing(const std::vector<std::string>& awaited);
  void tell();

  MeetingStore meeting_;  // how to open the store is the thread's, and goes with it: it may be what holds a store that this process serves
  const Deadline deadline_;
  const int rank_;  // of the agent
  const Descriptor news_;
  const ForkMark fork_mark_;
  std::shared_ptr<distributed::Store> store_;  // the thread's
  double look_s_ = first_look_s;               // likewise

  std::mutex mutex_;  // guards what follows
  std::condition_variable wanted_, changed_;
  std::vector<Entry> to_enter_;
  std::vector<std::string> awaited_, entered_;
  std::optional<std::vector<std::string>> found_;
  std::optional<std::vector<int>> missing_;
  std::string taken_, dispute_, last_dispute_;
  Status state_;
  bool is_open_ = false, is_over_ = false, is_running_ = false, stops_ = false, has_ended_ = false, asks_who_is_missing_ = false;
};

Roster::Roster(MeetingStore store, const Deadline& deadline, int rank) : talk_(std::make_shared<Talk>(std::move(store), deadline, rank)) {
  const AllSignalsBlocked blocked;
  try {
    thread_ = std::thread([talk = talk_, stop = stop_.get_token()] {
      never_interrupt_this_thread();
      talk->run(stop);
    });
  } catch (const std::system_error& error) {
    no_thread_ = {ErrorCode::resource, fmt::format("a thread could not be started: {}; is the limit of processes reached?", error.what())};
  }
}

// In a forked child the thread does not exist, and may have held the lock.
Roster::~Roster() {
  if (!no_thread_.ok()) return;
  if (talk_->fork_mark_.forked()) {
    thread_.detach();
    return;
  }
  std::unique_lock lock(talk_->mutex_);
  talk_->stops_ = true;
  talk_->wanted_.notify_one();
  auto has_ended = [this] { return talk_->has_ended_; };
  if (talk_->is_open_) talk_->changed_.wait_for(lock, last_words, has_ended);
  stop_.request_stop();
  const bool ended = talk_->changed_.wait_for(lock, last_look, has_ended);
  lock.unlock();
  ended ? thread_.join() : thread_.detach();
}

void Roster::Talk::post(std::vector<Entry> entries) {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries) to_enter_.push_back(std::move(entry));
  wanted_.notify_one();
}

void Roster::claim(int rank, std::string seat) { talk_->post({{Talk::Manner::claim, talk_->key("seats", rank), std::move(seat)}}); }
void Roster::propose(std::string digest) { talk_->post({{Talk::Manner::propose, talk_->key("complete"), std::move(digest)}}); }
void Roster::enter(const std::string& round, int number, std::string text) { talk_->post({{Talk::Manner::set, talk_->key(round, number), std::move(text)}}); }

void Roster::await(const std::string& round, int count) {
  std::lock_guard lock(talk_->mutex_);
  talk_->found_.reset();
  talk_->awaited_.clear();
  for (int number = 0; number < count; ++number) talk_->awaited_.push_back(talk_->key(round, number));
  talk_->wanted_.notify_one();
}

// Others may still have to read it, so it stays.
void Roster::give_up(const Status& why) {
  const std::string text = fmt::format("{} {}", static_cast<int>(why.code()), why.message()).substr(0, most_entry_bytes);
  {
    std::lock_guard lock(talk_->mutex_);  // of both: between them the thread could take the entry, and it would be taken back or broken off
    talk_->to_enter_.push_back({Talk::Manner::set, talk_->key("gave_up"), text});
    end_talk(false);
  }
  if (!no_thread_.ok()) talk_->run(stop_.get_token());
}

void Roster::await_told(const Deadline& deadline) {
  std::unique_lock lock(talk_->mutex_);
  talk_->changed_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(deadline.remaining_ns(), 0)), [this] { return talk_->has_ended_; });
}

// In a store that goes with the meeting everything stays: by the digest, whoever comes too soon for the next one knows that this one is over.
void Roster::finish(bool also_what_is_nobodys) {
  std::lock_guard lock(talk_->mutex_);
  end_talk(also_what_is_nobodys);
}

void Roster::end_talk(bool also_what_is_nobodys) {
  Talk& talk = *talk_;
  talk.stops_ = true;
  talk.awaited_.clear();
  std::erase_if(talk.to_enter_, [&](const Talk::Entry& entry) { return entry.key != talk.key("gave_up"); });
  if (!talk.meeting_.ends_with_meeting) {
    if (also_what_is_nobodys) talk.entered_.insert(talk.entered_.end(), {talk.key("complete"), talk.key("disputes")});
    for (std::string& key : std::exchange(talk.entered_, {})) talk.to_enter_.push_back({Talk::Manner::remove, std::move(key)});
  }
  if (talk.to_enter_.empty()) stop_.request_stop();
  talk.wanted_.notify_one();
}

std::optional<std::vector<std::string>> Roster::entries() {
  std::lock_guard lock(talk_->mutex_);
  return talk_->found_;
}

Status Roster::state() {
  std::lock_guard lock(talk_->mutex_);
  return talk_->state_;
}

bool Roster::is_over() {
  std::lock_guard lock(talk_->mutex_);
  return talk_->is_over_;
}

bool Roster::is_running() {
  std::lock_guard lock(talk_->mutex_);
  return talk_->is_running_;
}

std::string Roster::taken() {
  std::lock_guard lock(talk_->mutex_);
  return talk_->taken_;
}

std::string Roster::take_dispute() {
  uint64_t unread = 0;
  static_cast<void>(!::read(talk_->news_.number(), &unread, sizeof(unread)));
  std::lock_guard lock(talk_->mutex_);
  return std::exchange(talk_->dispute_, {});
}

void Roster::ask_who_is_missing() {
  std::lock_guard lock(talk_->mutex_);
  talk_->asks_who_is_missing_ = true;
}

std::optional<std::vector<int>> Roster::missing() {
  std::lock_guard lock(talk_->mutex_);
  return talk_->missing_;
}

int Roster::descriptor() const { return talk_->news_.number(); }

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
  if (meeting_.ends_with_meeting) {
    auto answers = store_->perform({{.kind = Kind::check, .key = key("complete")}});
    const bool has_ended = answers.status().code() == ErrorCode::store_lost;  // before it said anything: that of the world before, whose rank 0 has just left
    if (!answers.ok() && !has_ended) return meeting_store_lost(answers.status());
    is_over = has_ended || answers->front().found;
  }
  if (is_over) RETURN_IF_ERROR(look_whether_it_runs(stop));
  std::lock_guard lock(mutex_);
  is_open_ = true;
  is_over_ = is_over;
  return Status::success();
}

// A rank that has left that world comes for the next one, and waits until the store ends. Of one that has not, another process is there, or was until it died.
// That somebody has left is heard by rank 0, and written down here, a moment later.
Status Roster::Talk::look_whether_it_runs(const std::stop_token& stop) {
  constexpr int most_looks = 10;
  constexpr timespec between{0, 100'000'000};
  std::vector<distributed::StoreAnswer> found;
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

Status Roster::Talk::write(const std::vector<Entry>& entries) {
  std::vector<StoreRequest> requests;
  for (const Entry& entry : entries) {
    const bool by_comparison = entry.manner == Manner::claim || entry.manner == Manner::propose;
    const Kind kind = by_comparison ? Kind::compare_set : entry.manner == Manner::remove ? Kind::delete_key : Kind::set;
    requests.push_back({.kind = kind, .key = entry.key, .value = entry.value});
  }
  if (requests.empty()) return Status::success();
  auto answers = store_->perform(requests);
  if (!answers.ok()) return meeting_store_lost(answers.status());
  std::vector<StoreRequest> claims;
  for (size_t index = 0; index < entries.size(); ++index) {
    const Entry& entry = entries[index];
    if (entry.manner != Manner::claim || (*answers)[index].value == entry.value) continue;
    claims.push_back({.kind = Kind::set, .key = entry.key, .value = entry.value});
    claims.push_back({.kind = Kind::set, .key = key("disputes"), .value = entry.value});
    std::lock_guard lock(mutex_);
    taken_ = (*answers)[index].value.substr(0, most_entry_bytes + 1);
  }
  if (claims.empty()) return Status::success();
  const Status claimed = store_->perform(claims).status();
  return claimed.ok() ? claimed : meeting_store_lost(claimed);
}

// Whether another gave up, or says that it has the rank of somebody here.
Status Roster::Talk::look() {
  auto answers = store_->perform({{.kind = Kind::get, .key = key("gave_up")}, {.kind = Kind::get, .key = key("disputes")}});
  if (!answers.ok()) return meeting_store_lost(answers.status());
  if (answers->front().found) return reason_to_give_up(answers->front().value);
  const std::string& dispute = answers->back().value;
  if (!answers->back().found || dispute.size() > most_entry_bytes || dispute == last_dispute_) return Status::success();
  {
    std::lock_guard lock(mutex_);
    dispute_ = last_dispute_ = dispute;
  }
  tell();
  return Status::success();
}

Status Roster::Talk::await(const std::vector<std::string>& awaited) {
  auto values = store_->await_values(awaited, look_s_);
  if (values.ok()) {
    std::lock_guard lock(mutex_);
    if (awaited_ != awaited) return Status::success();
    awaited_.clear();
    found_ = std::move(*values);
  }
  if (values.ok()) tell();
  if (!values.ok() && values.status().code() != ErrorCode::timeout) return meeting_store_lost(values.status());
  constexpr int64_t shortly_ns = 1'000'000'000;
  if (values.ok()) return Status::success();
  bool is_asked = deadline_.remaining_ns() <= shortly_ns;
  {
    std::lock_guard lock(mutex_);
    is_asked |= std::exchange(asks_who_is_missing_, false);
  }
  return is_asked ? look_who_is_missing(awaited) : Status::success();
}

Status Roster::Talk::look_who_is_missing(const std::vector<std::string>& awaited) {
  std::vector<StoreRequest> requests;
  for (const std::string& wanted : awaited) requests.push_back({.kind = Kind::check, .key = wanted});
  auto answers = store_->perform(requests);
  if (!answers.ok()) return meeting_store_lost(answers.status());
  std::vector<int> missing;
  for (size_t number = 0; number < answers->size(); ++number)
    if (!(*answers)[number].found) missing.push_back(static_cast<int>(number));
  {
    std::lock_guard lock(mutex_);
    missing_ = std::move(missing);
  }
  tell();
  return Status::success();
}

}  // namespace unisono
