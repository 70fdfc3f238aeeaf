// One collective at one size: its buffers, how to call it, how to refresh its input, and how to tell a wrong result.
#pragma once

#include <cstdint>

#include "tools/bench/calls.hpp"
#include "tools/bench/subject.hpp"
#include "unisono/types.hpp"

namespace unisono::tools {

// float32 and sum throughout. All elements of a rank's input, or of one piece of it, are the same number, so one number a
// piece tells what must come out; each refresh changes them, so what an earlier call left behind is wrong.
class Case : public Subject {
 public:
  Case(Collective collective, const SubjectRequest& request);

  void call(int number) override;
  void refresh() override;
  int64_t wrong() const override;
  int64_t count() const override { return count_; }

 private:
  bool in_place() const;
  bool has_been_root() const;  // since the last refresh
  int result_parts() const;    // how many different numbers stand in this rank's result
  float given(int rank, int piece) const;
  float expected(int part) const;
  float expected_in_place() const;

  Collective collective_;
  bool functional_;  // comm_func: results are new tensors
  int64_t count_ = 0;
  int generation_ = 0;  // how often the input was refreshed, modulo a small number
  int calls_ = 0, first_root_ = 0, last_root_ = 0;
  Buffers buffers_;
  std::vector<Prepared> prepared_;  // one a root; none where calls are made anew
  Tensor result_;  // comm_func's
};

}  // namespace unisono::tools
