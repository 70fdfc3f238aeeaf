// Letters to and fro between rank 2k and rank 2k + 1, all pairs at once.
#pragma once

#include <cstdint>

#include "tools/bench/subject.hpp"

namespace unisono::tools {

// One call is a round trip: the even rank's letter, then the odd rank's. All elements of a letter are the mark of its writer and
// of the call before which it was refreshed; the first and the last are marked anew for every call, and looked at after every
// call, so that a letter that was lost, doubled or overtaken is noticed even where nobody refreshes.
class PingPong : public Subject {
 public:
  explicit PingPong(const SubjectRequest& request);

  void call(int number) override;
  void refresh() override;
  int64_t wrong() const override;
  int64_t count() const override { return written_.count(); }

 private:
  void send();
  void receive();

  bool functional_;  // comm_func: what is received is a new tensor
  int rank_, peer_;
  int64_t calls_ = 0, refreshed_before_ = 0;  // since the beginning; as many on every rank
  int64_t wrong_ends_ = 0;                    // since the last refresh
  bool called_ = false;                       // since the last refresh
  Tensor written_, received_;
};

}  // namespace unisono::tools
