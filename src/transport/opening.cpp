// See opening.hpp.
#include "transport/opening.hpp"

#include <fmt/core.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace unisono {

namespace {

Status ended_with(int error) {
  return {error == EMFILE || error == ENFILE ? ErrorCode::resource : ErrorCode::peer_lost, fmt::format("connecting ended with \"{}\"", std::strerror(error))};
}

}  // namespace

Opening::Opening(Descriptor socket, std::shared_ptr<const Trust> trust, const SocketKey& key)
    : socket_(std::move(socket)), key_(key), stage_(trust ? Stage::shaking : Stage::saying), connects_(true) {
  words_ = greeting_words({.key = key});
  if (trust) tls_ = std::make_unique<Tls>(std::move(trust), socket_.number(), Tls::Role::connects, TlsEnds{key.from, key.to});
}

Opening::Opening(Descriptor socket, std::shared_ptr<const Trust> trust, int me)
    : socket_(std::move(socket)), stage_(trust ? Stage::shaking : Stage::hearing_head), connects_(false) {
  if (trust) tls_ = std::make_unique<Tls>(std::move(trust), socket_.number(), Tls::Role::accepts, TlsEnds{.from = TlsEnds::nobody, .to = me});
}

bool Opening::turn() {
  for (Stage before = Stage::open; state_.ok() && !is_open() && !asks() && before != stage_;) {
    before = stage_;
    step();
  }
  return is_open() || asks() || !state_.ok();
}

void Opening::step() {
  switch (stage_) {
    case Stage::shaking:
      if (tls_->shake_hands()) stage_ = connects_ ? Stage::saying : Stage::hearing_head;
      break;
    case Stage::saying:
      if (!say()) break;
      words_.clear();
      stage_ = tls_ ? Stage::hearing_answer : Stage::open;
      break;
    case Stage::hearing_head:
      if (hear(greeting_head_bytes)) check_head();
      break;
    case Stage::hearing:
      if (hear(words_.size())) check_greeting();
      break;
    case Stage::hearing_answer:
      if (hear(verdict_bytes)) check_answer();
      break;
    case Stage::answering:
      if (!say()) break;
      stage_ = key_.sealed ? Stage::open : Stage::leaving;
      if (!verdict_.ok()) fail(verdict_);
      break;
    case Stage::leaving:
      if (tls_->leave()) {
        tls_.reset();
        stage_ = Stage::open;
      }
      break;
    case Stage::asking:
    case Stage::open: return;
  }
  if (!tls_) return;
  wants_to_write_ = tls_->wants_to_write();
  if (!tls_->state().ok()) fail(tls_->state());
}

// True once all of the words are said.
bool Opening::say() {
  const std::span<const std::byte> rest = std::as_bytes(std::span(words_)).subspan(moved_);
  const ssize_t count = tls_ ? tls_->write(rest) : ::send(socket_.number(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (count > 0) moved_ += static_cast<size_t>(count);
  if (!tls_) wants_to_write_ = moved_ < words_.size();
  if (count < 0 && errno != EAGAIN && errno != EINTR && errno != ENOTCONN) fail(ended_with(errno));
  return std::exchange(moved_, moved_ == words_.size() ? 0 : moved_) == words_.size();
}

// True once so many bytes are heard. They stay in words_, and count until what comes next is said.
bool Opening::hear(size_t bytes) {
  words_.resize(bytes);
  const std::span<std::byte> rest = std::as_writable_bytes(std::span(words_)).subspan(moved_);
  const ssize_t count = tls_ ? tls_->read(rest) : recv(socket_.number(), rest.data(), rest.size(), 0);
  if (count > 0) moved_ += static_cast<size_t>(count);
  if (tls_ ? tls_->has_ended() : count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
    fail({ErrorCode::peer_lost, "the connection was closed before it was open"});
  return moved_ == bytes;
}

// Whoever has the secret hears in words why it is not let in; whoever has said what it wanted is not waited for any longer.
void Opening::refuse(const Status& why) { tls_ ? answer(why) : fail(why); }

void Opening::check_head() {
  auto length = greeting_length(heard().first<greeting_head_bytes>());
  if (!length.ok()) return refuse(length.status());
  words_.resize(*length);
  stage_ = Stage::hearing;
}

void Opening::check_greeting() {
  auto greeting = read_greeting(heard());
  if (!greeting.ok()) return refuse(greeting.status());
  key_ = greeting->key;
  const TlsEnds ends = tls_ ? tls_->ends() : TlsEnds{key_.from, key_.to};
  if (const Status status = check_versions(*greeting, ends.from, ends.to); !status.ok()) return refuse(status);
  if (TlsEnds{key_.from, key_.to} != ends) return refuse({ErrorCode::protocol, "it speaks for another rank than it has shown to be"});
  stage_ = Stage::asking;
}

// Without TLS nobody waits for an answer.
void Opening::answer(const Status& verdict) {
  if (!tls_ && verdict.ok()) stage_ = Stage::open;
  if (!tls_ && !verdict.ok()) fail(verdict);
  if (!tls_) return;
  words_ = verdict_words(verdict);
  moved_ = 0;
  verdict_ = verdict;
  stage_ = Stage::answering;
}

void Opening::check_answer() {
  heard_verdict_ = true;
  if (const Status verdict = read_verdict(heard()); !verdict.ok()) return fail(verdict);
  stage_ = key_.sealed ? Stage::open : Stage::leaving;
}

Wire Opening::take() { return Wire(std::move(socket_), std::move(tls_)); }

}  // namespace unisono
