// See roster.hpp. Used by host.cpp.
#include "rendezvous/roster.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/all_signals_blocked.hpp"
#include "base/check.hpp"
#include "base/descriptor.hpp"
#include "base/fork.hpp"
#include "base/interrupt.hpp"
#include "base/legible.hpp"
#include "base/shortage.hpp"

namespace unisono {
namespace {

using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr size_t most_entry_bytes = 1024, most_version_bytes = 15, most_host_bytes = 64;
constexpr double first_look_s = 0.01, longest_look_s = 0.5;  // for entries of ranks that came meanwhile, and whether another gave up
constexpr std::chrono::milliseconds last_words(1000), last_look(300);

// The next number of the text, which it is taken from.
template <typename T>
bool take_number(std::string_view& text, T& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

bool take_word(std::string_view& text, std::string& word, size_t most_bytes) {
  const size_t length = std::min(text.find(' '), text.size());
  if (length == 0 || length > most_bytes) return false;
  word = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return std::ranges::all_of(word, [](unsigned char letter) { return letter > ' ' && letter < 0x7f; });
}

Status store_lost(const Status& why) { return {ErrorCode::init, fmt::format("the store by which the ranks meet: {}", why.message())}; }

}  // namespace

std::string Seat::text() const {
  return fmt::format("{} {} {} {} {:x} {:x} {} {} {}", UNISONO_VERSION, size, rank, pid, probe, machine, host, agent, addresses);
}

std::string Seat::who() const { return fmt::format("pid {} on {}", pid, host); }

std::optional<std::string> Seat::version_of(std::string_view text) {
  std::string version;
  if (text.size() > most_entry_bytes || !take_word(text, version, most_version_bytes)) return std::nullopt;
  return version;
}

std::optional<Seat> Seat::parse(std::string_view text) {
  if (text.size() > most_entry_bytes) return std::nullopt;
  Seat seat;
  std::string version;
  std::string_view rest = text;
  if (!take_word(rest, version, most_version_bytes) || !take_number(rest, seat.size) || !take_number(rest, seat.rank) || !take_number(rest, seat.pid) ||
      !take_number(rest, seat.probe, 16) || !take_number(rest, seat.machine, 16) || !take_word(rest, seat.host, most_host_bytes) ||
      !take_number(rest, seat.agent))
    return std::nullopt;
  seat.addresses = rest;
  const bool can_be = seat.size > 0 && seat.rank >= 0 && seat.pid >= 0 && seat.agent >= 0 && is_legible(seat.addresses) &&
                      seat.addresses.find(' ') == std::string::npos && seat.text() == text;
  return can_be ? std::optional(seat) : std::nullopt;
}

Status reason_to_give_up(std::string_view text) {
  int code = 0;
  if (text.size() > most_entry_bytes || !take_number(text, code) || code <= 0 || code > static_cast<int>(ErrorCode::internal))
    return {ErrorCode::init, "a rank on another machine gave up, and what the store holds of it is not legible"};
  return {static_cast<ErrorCode>(code), legible(text)};
}

std::string name_of_this_machine() {
  char name[most_host_bytes + 1] = {};
  if (gethostname(name, most_host_bytes) != 0 || name[0] == 0) return "?";
  std::string text = name;
  std::ranges::replace_if(text, [](unsigned char letter) { return letter <= ' ' || letter >= 0x7f; }, '?');
  return text;
}

struct Roster::Talk {
  enum class Manner { set, claim, propose, remove };
  struct Entry {
    Manner manner;
    std::string key, value = {};
  };

  Talk(MeetingStore meeting, const Deadline& deadline)
      : meeting_(std::move(meeting)), deadline_(deadline), news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  std::string key(std::string_view round, int number = 0) const { return fmt::format("{}/{}/{}", meeting_.prefix, round, number); }
  void post(std::vector<Entry> entries);
  void run(const std::stop_token& stop);
  Status talk(const std::vector<Entry>& entries, const std::vector<std::string>& awaited);
  Status open(const std::stop_token& stop);
  Status write(const std::vector<Entry>& entries);
  Status look();
  Status await(const std::vector<std::string>& awaited);
  Status look_who_is_missing(const std::vector<std::string>& awaited);
  void tell();

  const MeetingStore meeting_;
  const Deadline deadline_;
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
  bool is_open_ = false, is_over_ = false, stops_ = false, has_ended_ = false;
};

Roster::Roster(MeetingStore store, const Deadline& deadline) : talk_(std::make_shared<Talk>(std::move(store), deadline)) {
  const AllSignalsBlocked blocked;
  thread_ = std::thread([talk = talk_, stop = stop_.get_token()] { talk->run(stop); });
}

// In a forked child the thread does not exist, and may have held the lock.
Roster::~Roster() {
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
  talk_->post({{Talk::Manner::set, talk_->key("gave_up"), text}});
  finish(false);
}

// In a store that goes with the meeting everything stays: by the digest, whoever comes too soon for the next one knows that this one is over.
void Roster::finish(bool also_what_is_nobodys) {
  std::lock_guard lock(talk_->mutex_);
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
  never_interrupt_this_thread();
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
    if (!answers.ok()) return store_lost(answers.status());
    is_over = answers->front().found;
  }
  std::lock_guard lock(mutex_);
  is_open_ = true;
  is_over_ = is_over;
  return Status::success();
}

Status Roster::Talk::talk(const std::vector<Entry>& entries, const std::vector<std::string>& awaited) {
  if (!is_over_) RETURN_IF_ERROR(write(entries));
  if (awaited.empty()) return Status::success();
  if (is_over_) tell();
  if (!is_over_) RETURN_IF_ERROR(look());
  look_s_ = entries.empty() ? std::min(2 * look_s_, longest_look_s) : first_look_s;
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
  if (!answers.ok()) return store_lost(answers.status());
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
  return claimed.ok() ? claimed : store_lost(claimed);
}

// Whether another gave up, or says that it has the rank of somebody here.
Status Roster::Talk::look() {
  auto answers = store_->perform({{.kind = Kind::get, .key = key("gave_up")}, {.kind = Kind::get, .key = key("disputes")}});
  if (!answers.ok()) return store_lost(answers.status());
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
  if (!values.ok() && values.status().code() != ErrorCode::timeout) return store_lost(values.status());
  constexpr int64_t shortly_ns = 1'000'000'000;
  return values.ok() || deadline_.remaining_ns() > shortly_ns ? Status::success() : look_who_is_missing(awaited);
}

Status Roster::Talk::look_who_is_missing(const std::vector<std::string>& awaited) {
  std::vector<StoreRequest> requests;
  for (const std::string& wanted : awaited) requests.push_back({.kind = Kind::check, .key = wanted});
  auto answers = store_->perform(requests);
  if (!answers.ok()) return store_lost(answers.status());
  std::vector<int> missing;
  for (size_t number = 0; number < answers->size(); ++number)
    if (!(*answers)[number].found) missing.push_back(static_cast<int>(number));
  std::lock_guard lock(mutex_);
  missing_ = std::move(missing);
  return Status::success();
}

}  // namespace unisono
