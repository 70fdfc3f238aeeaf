// See store_session.hpp. What is done with the frames: store_table.cpp.
#include "rendezvous/store_session.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <asio/post.hpp>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/shortage.hpp"

namespace unisono {
namespace {

using Watched = asio::posix::stream_descriptor;

constexpr size_t piece_bytes = 16_KiB;
constexpr int pieces_at_once = 16;                // then the others have their turn
constexpr int64_t farewell_ns = 1'000'000'000;    // for a client to read why it was refused

Status gone() { return {ErrorCode::peer_lost, "the client has ended the connection"}; }

}  // namespace

StoreSession::StoreSession(StoreSessions& sessions, uint64_t id, Descriptor socket)
    : sessions_(sessions),
      id_(id),
      since_ns_(now_ns()),
      address_(Address::of_peer(socket.number())),
      socket_(socket.number()),
      watched_(sessions.io),
      timer_(sessions.io),
      tls_(sessions.trust, socket_, Tls::Role::accepts, {.from = TlsEnds::nobody, .to = TlsEnds::store}) {
  asio::error_code fault;
  watched_.assign(socket_, fault);
  if (!fault) socket.release();
}

bool StoreSession::start() {
  if (!watched_.is_open()) return false;
  set_timer(static_cast<int64_t>(sessions_.limits.stranger_s * 1e9));
  turn();
  return true;
}

void StoreSession::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  shutdown(socket_, SHUT_RDWR);  // a forked child may hold it, too
  timer_.cancel();
  asio::error_code ignored;
  watched_.close(ignored);
}

// As far as it goes now; then it is watched for what it waits for.
void StoreSession::turn() {
  if (state_ == State::closed) return;
  Status status = or_out_of_memory([this] { return advance(); });
  if (status.ok()) status = or_out_of_memory([this] { return arm(), Status::success(); });
  if (!status.ok()) sessions_.ended(*this, refusal_.ok() ? status : refusal_);
}

Status StoreSession::advance() {
  if (!hands_shaken_) {
    hands_shaken_ = tls_.shake_hands();
    if (!hands_shaken_) return tls_.state();
  }
  RETURN_IF_ERROR(receive());
  return send();
}

void StoreSession::arm() {
  auto woken = [self = shared_from_this()](bool StoreSession::*armed) {
    return [self, armed](const asio::error_code&) {
      self.get()->*armed = false;
      self->turn();
    };
  };
  if (!reads_) {
    reads_ = true;
    watched_.async_wait(Watched::wait_read, woken(&StoreSession::reads_));
  }
  const bool has_to_write = !queue_.empty() || (!hands_shaken_ && tls_.wants_to_write());
  if (has_to_write && !writes_) {
    writes_ = true;
    watched_.async_wait(Watched::wait_write, woken(&StoreSession::writes_));
  }
  if (std::exchange(turns_again_, false)) asio::post(sessions_.io, [self = shared_from_this()] { self->turn(); });
}

Status StoreSession::receive() {
  for (int left = pieces_at_once; left > 0; --left) {
    std::array<std::byte, piece_bytes> piece;
    const int64_t count = tls_.read(piece);
    if (count == 0 && tls_.has_ended()) return gone();
    if (count == 0) return tls_.state();
    if (state_ == State::refused) continue;  // it has not heard of it yet
    reader_.feed(std::span(piece).first(static_cast<size_t>(count)));
    RETURN_IF_ERROR(take_frames());
  }
  turns_again_ = true;
  return Status::success();
}

Status StoreSession::take_frames() {
  while (state_ != State::refused) {
    auto frame = reader_.next();
    Status status = frame.status();
    if (status.ok() && !*frame) break;
    if (status.ok()) status = handle(**frame);
    if (!status.ok()) refuse(status);
    if (queued_bytes_ > sessions_.limits.queued_bytes)
      return {ErrorCode::resource, fmt::format("it does not take its answers: {} of them lie here", readable_size(static_cast<int64_t>(queued_bytes_)))};
  }
  return Status::success();
}

Status StoreSession::send() {
  while (!queue_.empty()) {
    const auto rest = std::as_bytes(std::span(*queue_.front())).subspan(sent_of_first_);
    const auto count = static_cast<size_t>(tls_.write(rest));
    if (count == 0) return tls_.state();
    queued_bytes_ -= count;
    sent_of_first_ += count;
    if (count < rest.size()) continue;
    queue_.pop_front();
    sent_of_first_ = 0;
  }
  if (state_ == State::refused) shutdown(socket_, SHUT_WR);
  return Status::success();
}

void StoreSession::queue(std::shared_ptr<const std::string> frame) {
  queued_bytes_ += frame->size();
  queue_.push_back(std::move(frame));
}

void StoreSession::answer(const std::shared_ptr<const std::string>& frame) {
  if (state_ == State::closed || !waits_) return;
  waits_ = false;
  timer_.cancel();
  ++timer_count_;
  queue(frame);
  asio::post(sessions_.io, [self = shared_from_this()] { self->turn(); });
}

// Said, and the connection kept for a moment: closed with unread bytes it would be reset, and the client would not hear why.
void StoreSession::refuse(const Status& why) {
  if (state_ == State::refused) return;
  if (waits_) sessions_.table.forget(id_);
  waits_ = false;
  refusal_ = why;
  state_ = State::refused;
  queue(refused_frame(why));
  set_timer(farewell_ns);
}

void StoreSession::set_timer(int64_t wait_ns) {
  const uint64_t count = ++timer_count_;
  timer_.expires_after(std::chrono::nanoseconds(wait_ns));
  timer_.async_wait([self = shared_from_this(), count](const asio::error_code& fault) {
    if (!fault && count == self->timer_count_ && self->state_ != State::closed) self->time_is_over();
  });
}

void StoreSession::time_is_over() {
  const bool is_silent = state_ == State::stranger;
  if (!waits_) return sessions_.ended(*this, is_silent ? Status(ErrorCode::timeout, "it did not say in time who it is") : refusal_);
  const Status status = or_out_of_memory([this] {
    auto frame = std::make_shared<const std::string>(missing_frame(sessions_.table.missing(id_)));
    sessions_.table.forget(id_);
    answer(frame);
    return Status::success();
  });
  if (!status.ok()) sessions_.ended(*this, status);
}

// An error ends the connection; what is only wrong with a request is answered.
Status StoreSession::handle(const StoreFrame& frame) {
  if (state_ == State::stranger) return greet(frame);
  if (waits_) return {ErrorCode::protocol, "a frame while another is still waiting for keys"};
  if (frame.kind == StoreFrameKind::perform) return perform(frame);
  if (frame.kind == StoreFrameKind::await) return await(frame);
  return {ErrorCode::protocol, fmt::format("a frame of kind {}, which no client sends here", static_cast<uint32_t>(frame.kind))};
}

Status StoreSession::greet(const StoreFrame& frame) {
  if (frame.kind != StoreFrameKind::hello) return {ErrorCode::protocol, "it did not say who it is"};
  auto hello = read_hello(frame.body);
  if (!hello.ok()) return hello.status();
  const StoreWelcome& mine = sessions_.welcome;
  if (hello->protocol != mine.protocol || hello->library != mine.library)
    return {ErrorCode::version, fmt::format("the client has version {} of the library (protocol {}), and the store has {} (protocol {}); install the same "
                                            "version everywhere", hello->library, hello->protocol, mine.library, mine.protocol)};
  if (hello->rank != tls_.ends().from)
    return {ErrorCode::protocol, fmt::format("it calls itself {}, and has shown that it is {}", hello->rank, tls_.ends().from)};
  state_ = State::known;
  reader_.allow(most_frame_bytes);
  timer_.cancel();
  ++timer_count_;
  queue(welcome_frame(mine));
  sessions_.known(*this, *hello);
  return Status::success();
}

Status StoreSession::perform(const StoreFrame& frame) {
  auto requests = read_perform(frame.body);
  if (!requests.ok()) return requests.status();
  auto answers = sessions_.table.perform(*requests);
  auto answer = answers.ok() ? answers_frame(*answers) : Result<std::string>(answers.status());
  queue(answer.ok() ? std::move(*answer) : refused_frame(answer.status()));
  sessions_.changed();
  return Status::success();
}

Status StoreSession::await(const StoreFrame& frame) {
  auto await = read_await(frame.body);
  if (!await.ok()) return await.status();
  auto values = sessions_.table.await(id_, std::move(await->keys));
  if (values.ok() && !*values) {
    waits_ = true;
    if (await->wait_ns != never_ns) set_timer(await->wait_ns);
    return Status::success();
  }
  auto answer = values.ok() ? values_frame(**values) : Result<std::string>(values.status());
  queue(answer.ok() ? std::move(*answer) : refused_frame(answer.status()));
  return Status::success();
}

}  // namespace unisono
