// Reading and writing without ever blocking; the loop that calls this is in launcher.cpp.
#include "tools/run/output.hpp"

#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace unisono::tools {
namespace {

constexpr size_t longest_line_bytes = 1024 * 1024;
constexpr size_t lines_kept = 10;
constexpr size_t longest_kept_bytes = 500;

bool can_be_written(int descriptor) {
  pollfd entry{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

}  // namespace

// Our outputs are shared with whoever started us, so they cannot be made non-blocking. After poll() a pipe takes
// PIPE_BUF bytes without blocking; a file takes any number.
Sink::Sink(int descriptor) : descriptor_(descriptor), most_at_once_(PIPE_BUF) {
  struct stat about {};
  if (::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode)) most_at_once_ = 64 * 1024;
}

void Sink::append(std::string_view text) {
  if (!broken_) waiting_ += text;
}

void Sink::write_some() {
  for (int times = 0; times < 16 && !is_empty() && can_be_written(descriptor_); ++times) {
    const size_t bytes = std::min(waiting_.size() - taken_, most_at_once_);
    const ssize_t written = ::write(descriptor_, waiting_.data() + taken_, bytes);
    if (written < 0 && errno != EINTR && errno != EAGAIN) broken_ = true;
    if (broken_) taken_ = waiting_.size();
    if (written > 0) taken_ += static_cast<size_t>(written);
  }
  if (is_empty() || taken_ > 1024 * 1024) {
    waiting_.erase(0, taken_);
    taken_ = 0;
  }
}

bool are_same_file(int left, int right) {
  struct stat first {
  }, second{};
  if (::fstat(left, &first) != 0 || ::fstat(right, &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

void LastLines::add(std::string_view line) {
  lines_.emplace_back(line.substr(0, longest_kept_bytes));
  if (lines_.size() > lines_kept) lines_.pop_front();
}

void RankStream::read_some() {
  char bytes[64 * 1024];
  const ssize_t got = ::read(source_.number(), bytes, sizeof bytes);
  if (got > 0) add({bytes, static_cast<size_t>(got)});
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN) || way_.sink.is_broken()) finish();
}

void RankStream::read_what_is_there() {
  int waiting = 0;
  if (!is_open() || ::ioctl(source_.number(), FIONREAD, &waiting) != 0) return;
  std::string bytes(static_cast<size_t>(waiting), '\0');
  const ssize_t got = ::read(source_.number(), bytes.data(), bytes.size());
  if (got > 0) add(std::string_view(bytes).substr(0, static_cast<size_t>(got)));
}

void RankStream::end_line() {
  if (!unfinished_.empty()) pass_on(unfinished_);
  unfinished_.clear();
}

void RankStream::finish() {
  end_line();
  source_.reset();
}

void RankStream::add(std::string_view bytes) {
  for (size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
    if (unfinished_.empty()) {
      pass_on(bytes.substr(0, end));
      continue;
    }
    unfinished_ += bytes.substr(0, end);
    end_line();
  }
  unfinished_ += bytes;
  if (unfinished_.size() >= longest_line_bytes) end_line();
}

void RankStream::pass_on(std::string_view line) {
  if (way_.takes_line && way_.takes_line(line)) return;
  if (way_.last_lines) way_.last_lines->add(line);
  if (mark_ && way_.prefix.empty() && line.starts_with(*mark_)) way_.sink.append({&*mark_, 1});
  way_.sink.append(way_.prefix);
  way_.sink.append(line);
  way_.sink.append("\n");
}

}  // namespace unisono::tools
