// See roster.hpp. What its thread does: roster_talk.cpp. Used by host.cpp.
#include "rendezvous/roster.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/all_signals_blocked.hpp"
#include "base/interrupt.hpp"
#include "rendezvous/roster_talk.hpp"

namespace unisono {
namespace {

constexpr double last_words_s = 1, last_look_s = 0.3;

}  // namespace

std::string meeting_key(std::string_view prefix, std::string_view round, int number) { return fmt::format("{}/{}/{}", prefix, round, number); }

Status meeting_store_lost(const Status& why) { return {ErrorCode::init, fmt::format("the store by which the ranks meet: {}", why.message())}; }

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
  const Deadline by = talk_->deadline_.later_by(joining_overtime_s);
  auto ends_within = [&](double patience_s) {
    const int64_t left_ns = earlier(Deadline::in_seconds(patience_s), by).remaining_ns();
    return talk_->changed_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(left_ns, 0)), [this] { return talk_->has_ended_; });
  };
  if (talk_->is_open_) ends_within(last_words_s);
  stop_.request_stop();
  const bool ended = ends_within(last_look_s);
  lock.unlock();
  ended ? thread_.join() : thread_.detach();
}

void Roster::claim(int rank, std::string seat) {
  {
    std::lock_guard lock(talk_->mutex_);
    talk_->claimed_[rank] = seat;
  }
  talk_->post({{Talk::Manner::claim, talk_->key("seats", rank), std::move(seat)}});
}

void Roster::withdraw(int rank) {
  std::string seat;
  {
    std::lock_guard lock(talk_->mutex_);
    seat = std::exchange(talk_->claimed_[rank], {});
  }
  talk_->post({{Talk::Manner::withdraw, talk_->key("seats", rank), std::move(seat)}});
}

void Roster::propose(std::string digest) { talk_->post({{Talk::Manner::propose, talk_->key("complete"), std::move(digest)}}); }
void Roster::enter(const std::string& round, int number, std::string text) { talk_->post({{Talk::Manner::set, talk_->key(round, number), std::move(text)}}); }

void Roster::await(const std::string& round, int count) {
  std::lock_guard lock(talk_->mutex_);
  talk_->found_.reset();
  talk_->missing_.reset();
  talk_->awaited_.clear();
  for (int number = 0; number < count; ++number) talk_->awaited_.push_back(talk_->key(round, number));
  talk_->wanted_.notify_one();
}

// Others may still have to read it, so it stays.
void Roster::give_up(const Status& why, const std::vector<int>& here) {
  const std::string text = text_of_reason(why);
  {
    std::lock_guard lock(talk_->mutex_);  // of both: between them the thread could take the entry, and it would be taken back or broken off
    talk_->to_enter_.push_back({Talk::Manner::set, talk_->key("gave_up"), text});
    end_talk(false);
    for (int rank : here)
      if (talk_->meeting_.ends_with_meeting) talk_->to_enter_.push_back({Talk::Manner::set, talk_->key("heard", rank), "yes"});
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

Status Roster::failure() {
  std::lock_guard lock(talk_->mutex_);
  return talk_->failure_;
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

std::optional<Missing> Roster::missing() {
  std::lock_guard lock(talk_->mutex_);
  return talk_->missing_;
}

int Roster::descriptor() const { return talk_->news_.number(); }

}  // namespace unisono
