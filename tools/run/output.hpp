// From a rank's pipes to the launcher's own outputs, whole lines at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"

namespace unisono::tools {

bool are_same_file(int left, int right);  // two descriptors: then lines for both go one way, so that they do not mix

// One of the launcher's own outputs. Text waits here until the reader takes it, so a slow reader never stops us from
// seeing signals; when much is waiting, nobody should add more.
class Sink {
 public:
  explicit Sink(int descriptor);

  void append(std::string_view text);
  bool is_empty() const { return taken_ == waiting_.size(); }
  bool is_full() const { return waiting_.size() - taken_ > 256 * 1024; }
  bool is_broken() const { return broken_; }  // nobody reads any more: what is appended is dropped
  int descriptor() const { return descriptor_; }
  void write_some();  // when poll() has said that it can be written to

 private:
  int descriptor_;
  size_t most_at_once_;
  std::string waiting_;
  size_t taken_ = 0;
  bool broken_ = false;
};

// The last few lines that a rank wrote, to be repeated when it fails.
class LastLines {
 public:
  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::deque<std::string> lines_;
};

// A rank's standard output or error: cut into lines, each with the rank in front. A line that gets very long is passed
// on in pieces, and one without an end gets it when the stream ends.
class RankStream {
 public:
  struct Way {
    std::string prefix;
    Sink& sink;
    LastLines* last_lines = nullptr;                             // where they are to be kept
    std::function<bool(std::string_view)> takes_line = {};  // a line that is for us; the others are passed on
  };
  RankStream(Descriptor source, Way way) : source_(std::move(source)), way_(std::move(way)) {}

  void mark_lines_that_begin_with(char mark) { mark_ = mark; }  // by that once more
  bool is_open() const { return static_cast<bool>(source_); }
  bool is_wanted() const { return is_open() && !way_.sink.is_full(); }
  int descriptor() const { return source_.number(); }
  void read_some();
  void read_what_is_there();  // no more than is in the pipe now, since others may hold its other end and go on writing
  void end_line();            // whatever stands there without an end is a line
  void finish();

 private:
  void add(std::string_view bytes);
  void pass_on(std::string_view line);

  Descriptor source_;
  Way way_;
  std::string unfinished_;
  std::optional<char> mark_;
};

}  // namespace unisono::tools
