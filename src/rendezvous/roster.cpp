// See roster.hpp. Used by host.cpp.
#include "rendezvous/roster.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <charconv>

#include "base/legible.hpp"
#include "base/shortage.hpp"

namespace unisono {
namespace {

using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr size_t most_entry_bytes = 256;
constexpr int seat_format = 1;
constexpr double look_again_s = 0.2;  // for entries of ranks that came meanwhile, and whether another gave up

// The next number of the text, which it is taken from; -1: there is none.
template <typename T>
bool take_number(std::string_view& text, T& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

Status store_lost(const Status& why) { return {ErrorCode::init, fmt::format("the store by which the ranks meet: {}", why.message())}; }

}  // namespace

std::string Seat::text() const { return fmt::format("{} {} {} {:x} {:x} {}", seat_format, rank, pid, probe, machine, address); }

std::optional<Seat> Seat::parse(std::string_view text) {
  if (text.size() > most_entry_bytes) return std::nullopt;
  Seat seat;
  int format = 0;
  std::string_view rest = text;
  if (!take_number(rest, format) || !take_number(rest, seat.rank) || !take_number(rest, seat.pid) || !take_number(rest, seat.probe, 16) ||
      !take_number(rest, seat.machine, 16))
    return std::nullopt;
  seat.address = rest;
  const bool can_be = format == seat_format && seat.rank >= 0 && seat.pid >= 0 && is_legible(seat.address) && seat.text() == text;
  return can_be ? std::optional(seat) : std::nullopt;
}

Status reason_to_give_up(std::string_view text) {
  int code = 0;
  if (text.size() > most_entry_bytes || !take_number(text, code) || code <= 0 || code > static_cast<int>(ErrorCode::internal))
    return {ErrorCode::init, "a rank on another machine gave up, and what it says of it is not legible"};
  return {static_cast<ErrorCode>(code), legible(text)};
}

Roster::Roster(std::shared_ptr<distributed::Store> store, std::string prefix, const Deadline& deadline)
    : store_(std::move(store)), prefix_(std::move(prefix)), deadline_(deadline), news_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { run(); }) {}

Roster::~Roster() {
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

std::string Roster::key(const std::string& round, int number) const { return fmt::format("{}/{}/{}", prefix_, round, number); }

void Roster::enter(const std::string& round, int number, std::string text) {
  std::lock_guard lock(mutex_);
  to_enter_.push_back({key(round, number), std::move(text)});
  wanted_.notify_one();
}

void Roster::await(const std::string& round, int count) {
  std::lock_guard lock(mutex_);
  found_.reset();
  awaited_.clear();
  for (int number = 0; number < count; ++number) awaited_.push_back(key(round, number));
  uint64_t unread = 0;
  static_cast<void>(!::read(news_.number(), &unread, sizeof(unread)));
  wanted_.notify_one();
}

void Roster::give_up(const Status& why) { enter("gave_up", 0, fmt::format("{} {}", static_cast<int>(why.code()), why.message()).substr(0, most_entry_bytes)); }

std::optional<std::vector<std::string>> Roster::entries() {
  std::lock_guard lock(mutex_);
  return found_;
}

Status Roster::state() {
  std::lock_guard lock(mutex_);
  return state_;
}

std::vector<int> Roster::missing() {
  std::lock_guard lock(mutex_);
  return missing_;
}

void Roster::tell(Status status, std::optional<std::vector<std::string>> found) {
  std::lock_guard lock(mutex_);
  if (found) awaited_.clear();
  if (found) found_ = std::move(found);
  if (state_.ok()) state_ = std::move(status);
  constexpr uint64_t one = 1;
  static_cast<void>(!::write(news_.number(), &one, sizeof(one)));
}

// What is to be entered goes before the next wait, and also when the agent is done: it may have given up.
void Roster::run() {
  while (true) {
    std::vector<Entry> entries;
    std::vector<std::string> awaited;
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [&] { return stops_ || !to_enter_.empty() || (!awaited_.empty() && state_.ok()); });
      if (stops_ && to_enter_.empty()) return;
      entries.swap(to_enter_);
      if (!stops_) awaited = awaited_;
    }
    const Status status = or_out_of_memory([&] { return talk(entries, awaited); });
    if (!status.ok()) tell(status, std::nullopt);
  }
}

Status Roster::talk(const std::vector<Entry>& entries, const std::vector<std::string>& awaited) {
  std::vector<StoreRequest> requests;
  for (const Entry& entry : entries) requests.push_back({.kind = Kind::set, .key = entry.key, .value = entry.value});
  if (!awaited.empty()) requests.push_back({.kind = Kind::get, .key = key("gave_up", 0)});
  auto answers = store_->perform(requests);
  if (!answers.ok()) return store_lost(answers.status());
  if (awaited.empty()) return Status::success();
  if (answers->back().found) return reason_to_give_up(answers->back().value);
  auto values = store_->await_values(awaited, look_again_s);
  if (values.ok()) tell(Status::success(), std::move(*values));
  if (!values.ok() && values.status().code() != ErrorCode::timeout) return store_lost(values.status());
  constexpr int64_t shortly_ns = 1'000'000'000;
  return values.ok() || deadline_.remaining_ns() > shortly_ns ? Status::success() : look_who_is_missing(awaited);
}

Status Roster::look_who_is_missing(const std::vector<std::string>& awaited) {
  std::vector<StoreRequest> requests;
  for (const std::string& wanted : awaited) requests.push_back({.kind = Kind::check, .key = wanted});
  auto answers = store_->perform(requests);
  if (!answers.ok()) return store_lost(answers.status());
  std::lock_guard lock(mutex_);
  missing_.clear();
  for (size_t number = 0; number < answers->size(); ++number)
    if (!(*answers)[number].found) missing_.push_back(static_cast<int>(number));
  return Status::success();
}

}  // namespace unisono
