// See connecting.hpp. Used by socket_stream.cpp and by rendezvous/reach.cpp.
#include "transport/connecting.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/interfaces.hpp"

namespace unisono {
namespace {

constexpr int64_t next_after_ns = 250'000'000;
constexpr int64_t speaks_within_ns = 1'000'000'000;  // who answers, where another does, too
constexpr double times_patience = 5;                  // with the only one that answers: it may be stopped, or have no time

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS; }

// "10.0.0.2:40123 from 10.0.0.1 (eth0): Connection refused"
std::string text_of_attempt(const Address& to, const std::string& why) {
  const Address from = Address::of_route_to(to);
  if (!from) return fmt::format("{}: {}", to.text(), why);
  const std::string interface = interface_of(from);
  return fmt::format("{} from {}{}: {}", to.text(), from.host(), interface.empty() ? "" : fmt::format(" ({})", interface), why);
}

}  // namespace

Connecting::Connecting(Sockets& sockets, std::vector<Address> addresses, const SocketKey& key, double patience_s)
    : sockets_(sockets), key_(key), patience_s_(patience_s), tries_until_(Deadline::in_seconds(patience_s)) {
  const auto in_order = sockets_.with_proofs([&](const Proofs& proofs) { return proofs.in_order(key.to, std::move(addresses)); });
  for (const Address& address : in_order) attempts_.push_back({.to = address});
  if (attempts_.empty()) state_ = {ErrorCode::peer_lost, fmt::format("rank {} has no address", key.to)};
}

void Connecting::fail(Attempt& attempt, const std::string& why) {
  attempt.stage = Stage::failed;
  attempt.socket.reset();
  attempt.why = why;
  next_at_ns_ = 0;
}

void Connecting::fail(Attempt& attempt, int error) {
  fail(attempt, std::strerror(error));
  attempt.was_refused = error == ECONNREFUSED;
  const bool by_all = std::ranges::all_of(attempts_, &Attempt::was_refused);
  if (attempt.was_refused) sockets_.with_proofs([&](Proofs& proofs) { proofs.note_refused(key_.to, attempt.to, by_all, now_ns()); });
}

void Connecting::begin_next() {
  Attempt& attempt = attempts_[begun_++];
  next_at_ns_ = now_ns() + next_after_ns;
  attempt.socket = sockets_.connect(attempt.to);
  const int error = errno;
  attempt.stage = Stage::connects;
  attempt.silent_until = Deadline::in_seconds(patience_s_);
  if (attempt.socket) return;
  was_short_ = is_shortage(error);
  if (was_short_) state_ = {ErrorCode::resource, fmt::format("connecting ended with \"{}\"; raise the limit of open files (ulimit -n)", std::strerror(error))};
  all_strangers_ = false;
  if (error == EADDRNOTAVAIL) fail(attempt, "Cannot assign requested address; are all ports of net.ipv4.ip_local_port_range taken?");
  else fail(attempt, error);
}

void Connecting::begin() {
  while (state_.ok() && begun_ < attempts_.size() && now_ns() >= next_at_ns_) begin_next();
}

// What has become of those that connect.
void Connecting::look() {
  for (size_t index = 0; index < begun_; ++index) {
    Attempt& attempt = attempts_[index];
    if (attempt.stage != Stage::connects) continue;
    pollfd polled{attempt.socket.number(), POLLOUT, 0};
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (poll(&polled, 1, 0) > 0 && getsockopt(attempt.socket.number(), SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0) {
      attempt.stage = Stage::answers;
      attempt.answered_ns = now_ns();
      sockets_.with_proofs([&](Proofs& proofs) { proofs.note_answered(key_.to, attempt.to); });
    } else if (error != 0 || attempt.silent_until.passed()) {
      all_strangers_ = false;
      if (error != 0) fail(attempt, error);
      else fail(attempt, fmt::format("no answer for {} s", patience_s_));
    }
  }
}

// With one that answers, whether it is the rank. Who knows the secret and the rank's name is; what it says then is the last word.
bool Connecting::speak() {
  if (!opening_) {
    const auto answers = std::ranges::find(attempts_, Stage::answers, &Attempt::stage);
    if (answers == attempts_.end()) return false;
    current_ = static_cast<size_t>(answers - attempts_.begin());
    opening_ = sockets_.open(std::move(answers->socket), key_);
    begun_to_speak_ns_ = now_ns();
  }
  const bool is_over = opening_->turn();
  const bool is_cut_off = is_over && opening_->state().code() == ErrorCode::peer_lost && !opening_->heard_verdict();
  if (is_found() && !is_cut_off) {
    drop_others();
    if (is_over) state_ = opening_->state();
    if (is_over && state_.ok()) sockets_.with_proofs([&](Proofs& proofs) { proofs.note_reached(key_.to, address()); });
    return is_over;
  }
  const bool another_answers = std::ranges::count(attempts_, Stage::answers, &Attempt::stage) > 1;
  const int64_t silent_ns = now_ns() - begun_to_speak_ns_;
  const auto most_silent_ns = another_answers ? speaks_within_ns : static_cast<int64_t>(times_patience * patience_s_ * 1e9);
  if (!is_over && silent_ns < most_silent_ns) return false;
  all_strangers_ &= opening_->state().code() == ErrorCode::auth;
  attempts_[current_].was_cut_off = is_cut_off;
  fail(attempts_[current_], is_over ? opening_->state().message() : "somebody answers, and does not prove to be that rank");
  opening_.reset();
  for (Attempt& attempt : attempts_)  // that were dropped for the one that seemed to be found
    if ((attempt.stage == Stage::connects || attempt.stage == Stage::answers) && !attempt.socket) fail(attempt, "another address answered");
  return false;
}

void Connecting::begin_again() {
  constexpr int64_t longest_rest_ns = 500'000'000;
  for (Attempt& attempt : attempts_) attempt = {.to = attempt.to, .answered_ns = attempt.answered_ns};
  begun_ = 0;
  all_strangers_ = true;
  next_at_ns_ = now_ns() + rest_ns_;
  rest_ns_ = std::min(2 * rest_ns_, longest_rest_ns);
}

void Connecting::drop_others() {
  for (Attempt& attempt : attempts_) attempt.socket.reset();
}

bool Connecting::turn() {
  while (state_.ok()) {
    const size_t begun_before = begun_;
    if (!is_found()) begin();
    if (!is_found()) look();
    if (speak()) return true;
    if (opening_ || !state_.ok()) break;
    if (std::ranges::all_of(attempts_, [](const Attempt& one) { return one.stage == Stage::failed; })) {
      const bool may_try_again = std::ranges::find(attempts_, true, &Attempt::was_cut_off) != attempts_.end() && !tries_until_.passed();
      if (may_try_again) begin_again();
      else state_ = no_way();
    }
    const bool goes_on = begun_ != begun_before || std::ranges::find(attempts_, Stage::answers, &Attempt::stage) != attempts_.end() ||
                         (begun_ < attempts_.size() && now_ns() >= next_at_ns_);
    if (!goes_on) break;
  }
  return !state_.ok();
}

int64_t Connecting::answered_ns(const std::function<bool(const Address&)>& counts) const {
  int64_t last = 0;
  for (const Attempt& attempt : attempts_)
    if (attempt.answered_ns > last && counts(attempt.to)) last = attempt.answered_ns;
  return last;
}

Status Connecting::no_way() const {
  std::string text;
  for (const Attempt& attempt : attempts_) text += (text.empty() ? "" : "; ") + text_of_attempt(attempt.to, attempt.why);
  return {all_strangers_ ? ErrorCode::auth : ErrorCode::peer_lost, text};
}

Wire Connecting::take() {
  Wire wire = opening_->take();
  sockets_.fit(wire.number());
  return wire;
}

void Connecting::arm() {
  int64_t wake_at_ns = never_ns;
  if (opening_) sockets_.arm(opening_->number(), opening_->wants_to_write() ? Sockets::writable : Sockets::readable);
  if (is_found()) return;
  if (opening_) wake_at_ns = now_ns() + speaks_within_ns;
  for (const Attempt& attempt : attempts_) {
    if (attempt.stage != Stage::connects) continue;
    sockets_.arm(attempt.socket.number(), Sockets::writable);
    wake_at_ns = std::min(wake_at_ns, attempt.silent_until.at_ns);
  }
  if (begun_ < attempts_.size()) wake_at_ns = std::min(wake_at_ns, next_at_ns_);
  sockets_.wake_by(wake_at_ns);
}

}  // namespace unisono
