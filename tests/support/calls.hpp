// Calls of every collective by a few numbers, on memory that notices when it is written to.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "tests/support/test_world.hpp"
#include "unisono/types.hpp"

namespace unisono::testing {

// Tensors with a margin of bytes around them. All of it holds the same pattern until somebody writes there.
class Scratch {
 public:
  TensorView tensor(DType dtype, Shape shape) {
    auto bytes = static_cast<size_t>(shape.count() * element_bytes(dtype));
    auto& memory = memories_.emplace_back(bytes + 2 * margin, pattern);
    return {memory.data() + margin, dtype, shape};
  }
  bool is_untouched() const {
    return std::all_of(memories_.begin(), memories_.end(), [](const std::vector<unsigned char>& memory) {
      return std::all_of(memory.begin(), memory.end(), [](unsigned char byte) { return byte == pattern; });
    });
  }

 private:
  static constexpr size_t margin = 64;
  static constexpr unsigned char pattern = 0x11;  // a number that every dtype can add
  std::deque<std::vector<unsigned char>> memories_;
};

// One call of the distributed dialect; gather and all_to_all of the group itself, so that every count is that of one piece.
struct CallChoice {
  Collective kind = Collective::all_reduce;
  int64_t count = 8;  // of the piece, where there are pieces
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  bool async_op = false;
  double timeout_s = 0;
};
WorkPtr make_call(const GroupHandle& group, Scratch& scratch, const CallChoice& choice);

// Sums a few numbers and checks them: the group works.
// The text with every "#n" as errors have it for a group's n-th call: other numbers where UNISONO_FIRST_CALL says so.
std::string numbered(const std::string& text);

void expect_works(const TestWorld& world);
void expect_works(const TestWorld& world, const GroupHandle& group);

}  // namespace unisono::testing
