// A small relay: one buffer, filled only when it is empty.
#include "tools/run/input.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace unisono::tools {

Status Input::open() {
  is_terminal_ = ::isatty(STDIN_FILENO) == 1;
  return open_pipe();
}

Status Input::open_given(std::function<void(size_t)> taken) {
  is_given_ = true;
  taken_ = std::move(taken);
  return open_pipe();
}

Status Input::open_pipe() {
  nothing_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing_) return {ErrorCode::resource, fmt::format("cannot open /dev/null: {}", std::strerror(errno))};
  if (!is_terminal_ && !is_given_) return Status::success();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return {ErrorCode::resource, fmt::format("cannot open a pipe: {}", std::strerror(errno))};
  read_end_ = Descriptor(ends[0]);
  write_end_ = Descriptor(ends[1]);
  ::fcntl(write_end_.number(), F_SETFL, O_NONBLOCK);
  return Status::success();
}

int Input::of_rank(int rank) const {
  if (rank != 0) return nothing_.number();
  return read_end_ ? read_end_.number() : STDIN_FILENO;
}

void Input::ranks_have_started() {
  nothing_.reset();
  read_end_.reset();
}

// The shell sends SIGCONT when it brings us to the foreground, and with that the caller asks again.
int Input::awaited() const {
  const bool is_ours = is_terminal_ && write_end_ && waiting_.empty() && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
  return is_ours ? STDIN_FILENO : -1;
}

int Input::writable_awaited() const { return waiting_.empty() ? -1 : write_end_.number(); }

void Input::give_end() {
  has_end_ = true;
  if (waiting_.empty()) close();
}

void Input::read_some() {
  char bytes[4096];
  const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (got > 0) waiting_.assign(bytes, static_cast<size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) close();
}

void Input::write_some() {
  const ssize_t written = ::write(write_end_.number(), waiting_.data(), waiting_.size());
  if (written > 0) {
    waiting_.erase(0, static_cast<size_t>(written));
    if (taken_) taken_(static_cast<size_t>(written));
  }
  if (has_end_ && waiting_.empty()) return close();
  if (written < 0 && errno != EINTR && errno != EAGAIN) close();
}

void Input::close() {
  waiting_.clear();
  write_end_.reset();
}

}  // namespace unisono::tools
