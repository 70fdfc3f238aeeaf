// See opening.hpp.
#include "transport/opening.hpp"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace unisono {

// What the connector says first; the same length always.
struct Opening::Greeting {
  char magic[8] = {'u', 'n', 'i', 's', 'o', 'n', 'o', 1};
  char version[24] = UNISONO_VERSION;
  SocketKey key;
};

// What it hears.
struct Opening::Answer {
  uint32_t code = 0;  // the ErrorCode; 0: welcome
  char text[252] = {};
};

namespace {

template <typename T>
std::string words_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

Status ended_with(int error) {
  return {error == EMFILE || error == ENFILE ? ErrorCode::resource : ErrorCode::peer_lost, fmt::format("connecting ended with \"{}\"", std::strerror(error))};
}

}  // namespace

Opening::Opening(Descriptor socket, std::shared_ptr<const Trust> trust, const SocketKey& key)
    : socket_(std::move(socket)), key_(key), stage_(trust ? Stage::shaking : Stage::saying), connects_(true) {
  Greeting greeting;
  greeting.key = key;
  words_ = trust ? words_of(greeting) : words_of(key);
  if (trust) tls_ = std::make_unique<Tls>(std::move(trust), socket_.number(), Tls::Role::connects, TlsEnds{key.from, key.to});
}

Opening::Opening(Descriptor socket, std::shared_ptr<const Trust> trust, int me)
    : socket_(std::move(socket)), stage_(trust ? Stage::shaking : Stage::hearing), connects_(false) {
  if (trust) tls_ = std::make_unique<Tls>(std::move(trust), socket_.number(), Tls::Role::accepts, TlsEnds{.from = 0, .to = me});
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
      if (tls_->shake_hands()) stage_ = connects_ ? Stage::saying : Stage::hearing;
      break;
    case Stage::saying:
      if (!say()) break;
      words_.clear();
      stage_ = tls_ ? Stage::hearing_answer : Stage::open;
      break;
    case Stage::hearing:
      if (hear(tls_ ? sizeof(Greeting) : sizeof(SocketKey))) check_greeting();
      break;
    case Stage::hearing_answer:
      if (hear(sizeof(Answer))) check_answer();
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

// True once so many bytes are heard.
bool Opening::hear(size_t bytes) {
  words_.resize(bytes);
  const std::span<std::byte> rest = std::as_writable_bytes(std::span(words_)).subspan(moved_);
  const ssize_t count = tls_ ? tls_->read(rest) : recv(socket_.number(), rest.data(), rest.size(), 0);
  if (count > 0) moved_ += static_cast<size_t>(count);
  if (tls_ ? tls_->has_ended() : count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR))
    fail({ErrorCode::peer_lost, "the connection was closed before it was open"});
  return std::exchange(moved_, moved_ == bytes ? 0 : moved_) == bytes;
}

void Opening::check_greeting() {
  if (!tls_) {
    std::memcpy(&key_, words_.data(), sizeof(key_));
    stage_ = Stage::asking;
    return;
  }
  Greeting greeting;
  std::memcpy(&greeting, words_.data(), sizeof(greeting));
  greeting.version[sizeof(greeting.version) - 1] = 0;
  key_ = greeting.key;
  const Greeting ours;
  if (std::memcmp(greeting.magic, ours.magic, sizeof(ours.magic)) != 0) return fail({ErrorCode::protocol, "it said something else than a rank of ours"});
  if (std::string_view(greeting.version) != ours.version)
    return answer({ErrorCode::version, fmt::format("rank {} speaks {}, rank {} speaks {}; use one version of the library", tls_->ends().from,
                                                   greeting.version, tls_->ends().to, ours.version)});
  if (TlsEnds{key_.from, key_.to} != tls_->ends()) return fail({ErrorCode::protocol, "it speaks for another rank than it has shown to be"});
  stage_ = Stage::asking;
}

// Without TLS nobody waits for an answer.
void Opening::answer(const Status& verdict) {
  if (!tls_ && verdict.ok()) stage_ = Stage::open;
  if (!tls_ && !verdict.ok()) fail(verdict);
  if (!tls_) return;
  Answer answer;
  answer.code = static_cast<uint32_t>(verdict.code());
  const std::string_view text = std::string_view(verdict.message()).substr(0, sizeof(answer.text) - 1);
  std::ranges::copy(text, answer.text);
  words_ = words_of(answer);
  verdict_ = verdict;
  stage_ = Stage::answering;
}

void Opening::check_answer() {
  Answer answer;
  std::memcpy(&answer, words_.data(), sizeof(answer));
  answer.text[sizeof(answer.text) - 1] = 0;
  const bool known = answer.code <= static_cast<uint32_t>(ErrorCode::internal);
  if (answer.code != 0) return fail({known ? static_cast<ErrorCode>(answer.code) : ErrorCode::protocol, answer.text});
  stage_ = key_.sealed ? Stage::open : Stage::leaving;
}

Wire Opening::take() { return Wire(std::move(socket_), std::move(tls_)); }

}  // namespace unisono
