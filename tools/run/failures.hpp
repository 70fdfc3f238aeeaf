// Who failed, in which order, and the sentences about it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "tools/run/output.hpp"
#include "tools/run/process.hpp"

namespace unisono::tools {

struct Failure {
  int rank = 0;
  pid_t pid = 0;
  std::string host = {};  // empty: this one
  Ending ending;
  double after_s = 0;

  std::string text() const;  // "rank 2 (pid 4711 on host two) was killed by signal 9 (SIGKILL) after 1.2 s"
};

// The first failure is the cause and is told in full; those after it are mostly its consequences and get a line.
class Failures {
 public:
  bool has_any() const { return first_.has_value(); }
  const std::optional<Failure>& first() const { return first_; }
  void add_first(const Failure& failure) { first_ = failure; }
  void add_later(int rank, const std::string& how) { later_[how].insert(rank); }
  std::string later() const;  // "then ranks 0 and 3 exited with status 1"; empty where there are none

 private:
  std::optional<Failure> first_;
  std::map<std::string, std::set<int>> later_;
};

std::string repeated(const LastLines& last_lines);  // the end of the sentence about the first failure

}  // namespace unisono::tools
