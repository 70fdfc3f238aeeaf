// See socket_stream.hpp. Whoever is gone is told from elsewhere; a connection only says that nothing more will come.
#include "transport/socket_stream.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace unisono {
namespace {

bool is_over(int error) { return error != EAGAIN && error != EINTR && error != ENOTCONN; }

Status ended_with(const char* how, int error) {
  return {ErrorCode::peer_lost, fmt::format("{} ended with \"{}\"", how, std::strerror(error))};
}

}  // namespace

bool SocketStream::has_arrived() {
  if (came_) return true;
  came_ = sockets_.arrived(ends_.theirs);
  if (!came_ && sockets_.lacks_descriptors()) state_ = {ErrorCode::resource, "no descriptor is left for its connection; raise the limit of open files (ulimit -n)"};
  return static_cast<bool>(came_);
}

void SocketStream::connect() {
  connecting_ = std::make_unique<Connecting>(sockets_, ends_.there.addresses, ends_.mine);
  out_ = &made_;
}

bool SocketStream::may_write() {
  if (!state_.ok() || closed_) return false;
  if (!out_ && has_arrived()) out_ = &came_;
  if (!out_ && state_.ok() && !ends_.there.out_of_reach) connect();
  if (!unwritable_.ok() && !has_unread()) state_ = unwritable_;
  if (!out_ || !state_.ok() || !unwritable_.ok()) return false;
  if (!connecting_) return true;
  if (!connecting_->turn()) return false;
  unwritable_ = connecting_->state();
  if (unwritable_.ok()) made_ = connecting_->take();
  if (made_ && ends_.mine.group == 0 && ends_.there.waits_for_us) sockets_.ask_often(made_.number());  // where it is reset, only this end can make another
  if (made_) sockets_.disarm(made_.number());
  connecting_.reset();
  if (unwritable_.ok() || !has_arrived()) return unwritable_.ok();
  unwritable_ = Status::success();  // nothing was written yet, and theirs has come
  out_ = &came_;
  return true;
}

bool SocketStream::has_unread() const {
  if (ahead_begin_ < ahead_end_) return true;
  return in_ ? in_->holds_bytes() : made_.holds_bytes() || came_.holds_bytes();
}

int64_t SocketStream::write(Channel::Sent first, Channel::Sent second) {
  if (!may_write()) return 0;
  const int64_t count = out_->send(first, second);
  if (count >= 0) return count;
  if (is_over(errno)) unwritable_ = ended_with("sending", errno);
  return 0;
}

int64_t SocketStream::take_ahead(std::span<std::byte> target) {
  const size_t count = std::min(target.size(), ahead_end_ - ahead_begin_);
  std::memcpy(target.data(), ahead_ + ahead_begin_, count);
  ahead_begin_ += count;
  return static_cast<int64_t>(count);
}

int64_t SocketStream::read_from(const Wire& wire, std::span<std::byte> target, bool& ended) {
  if (ahead_begin_ < ahead_end_) return take_ahead(target);
  const bool is_short = target.size() < sizeof(ahead_);
  const int64_t count = wire.receive(is_short ? std::span(ahead_) : target);
  if (count > 0 && is_short) {
    ahead_begin_ = 0;
    ahead_end_ = static_cast<size_t>(count);
    return take_ahead(target);
  }
  if (count > 0) return count;
  ended = count == 0 || is_over(errno);
  return 0;
}

// Where each end has opened one, nothing ever comes on the one that this rank writes to. That it was reset, and what was written last with it, is seen here.
void SocketStream::look_at_other() {
  if (!out_ || out_ == in_ || !*out_ || !unwritable_.ok()) return;
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (getsockopt(out_->number(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error == 0) return;
  unwritable_ = ended_with("sending", error);
  if (!has_unread()) state_ = unwritable_;
}

// Until the other end has written, it may do so on the connection that this rank made or on its own. An end of one of them is the end
// of all where there is no other. One that is being made goes on also when nothing is left to write: what was to be written may have gone another way (see
// striped_channel.hpp), and the other end may hold it for open.
int64_t SocketStream::read(std::span<std::byte> target) {
  if (!state_.ok() || closed_) return 0;
  bool ended = false;
  if (in_) {
    const int64_t count = read_from(*in_, target, ended);
    if (ended) state_ = {ErrorCode::peer_lost, "the other end of its connection was closed"};
    if (count == 0 && !ended) look_at_other();
    return count;
  }
  if (!has_arrived() && !out_ && ends_.there.waits_for_us) connect();
  if (connecting_ || (ends_.there.waits_for_us && !unwritable_.ok())) may_write();
  bool all_ended = (made_ || came_) && !connecting_;
  for (const Wire* wire : {&made_, &came_}) {
    if (!*wire) continue;
    ended = false;
    const int64_t count = read_from(*wire, target, ended);
    if (count > 0) in_ = wire;
    if (count > 0) return count;
    all_ended &= ended;
  }
  const bool more_came = !came_ && has_arrived();  // the end of one is seen after the other was opened and written to: see close()
  if (all_ended && !more_came) state_ = {ErrorCode::peer_lost, "the other end of its connection was closed"};
  return 0;
}

bool SocketStream::holds_more() { return state_.ok() && !closed_ && (in_ || has_arrived() || made_ || connecting_); }

bool SocketStream::is_delivered() const { return !out_ || !*out_ || is_acknowledged(out_->number()); }

// In a forked child they are the parent's: there they are only closed. Of two connections the one that was never written to ends last, once
// the other rank's kernel has all that was written: seen before that, its end would seem to be the end of both.
void SocketStream::close() {
  closed_ = true;
  connecting_.reset();
  Descriptor written = (out_ == &came_ ? came_ : made_).let_go(), other = (out_ == &came_ ? made_ : came_).let_go();
  in_ = out_ = nullptr;
  if (!sockets_.is_in_child()) sockets_.leave(std::move(written), std::move(other));
}

void SocketStream::arm(bool to_write, bool to_read) {
  if (!state_.ok() || closed_) return;
  if (connecting_) connecting_->arm();
  for (const Wire* wire : {&made_, &came_}) {
    if (!*wire) continue;
    const bool reads = to_read && (!in_ || in_ == wire), writes = (out_ == wire && to_write) || (reads && wire->wants_to_write());
    const bool may_be_reset = in_ && out_ == wire && in_ != wire;  // which is told of whatever is asked: see look_at_other()
    if (reads || writes || may_be_reset) sockets_.arm(wire->number(), (reads ? Sockets::readable : 0u) | (writes ? Sockets::writable : 0u));
  }
  if (!came_ && !in_) sockets_.arm_listener();
}

}  // namespace unisono
