// One rank of a Machine whose Run is turned by hand: what is given to it, and what it gives, is the test's.
#pragma once

#include <gtest/gtest.h>

#include "engine/run.hpp"
#include "tests/support/machine.hpp"
#include "transport/router.hpp"

namespace unisono::testing {

class RunMember {
 public:
  RunMember(Machine& machine, int rank, const Ways& ways = {})
      : rank_(rank),
        lanes_(machine.layout, rank, machine.neighbours()),
        router_(lanes_, *machine.arenas[static_cast<size_t>(rank)], LinkUse::steps, ways),
        run_(lanes_, router_, *machine.arenas[static_cast<size_t>(rank)]) {
    lanes_.find(machine.offsets);
  }

  bool turn() {
    if (done_) return false;
    const Turn outcome = run_.turn();
    done_ = outcome == Turn::done;
    return outcome != Turn::blocked;
  }
  bool is_done() const { return done_; }
  const Run& run() const { return run_; }
  void drop_private_memory() { run_.drop_private_memory(); }

 protected:
  // 64 bytes of a chunk in a tile, two in flight. Both stay where they are until the call is done.
  void start(const Call& call, const Schedule& schedule, uint32_t number, uint64_t base_tile) {
    ASSERT_TRUE(run_.prepare(call, {&schedule, 64, 2}).ok());
    const uint64_t word = make_word(number, 4711);
    run_.show(number, false);
    lanes_.word(rank_, number).store(word);
    run_.start(word, base_tile);
    done_ = false;
  }

  const int rank_;

 private:
  Lanes lanes_;
  Router router_;
  Run run_;
  bool done_ = false;
};

}  // namespace unisono::testing
