// The collectives on one set of buffers, as each dialect says them, and prepared.
#pragma once

#include <vector>

#include "unisono/persistent.hpp"
#include "unisono/tensor.hpp"
#include "unisono/types.hpp"

namespace unisono::tools {

struct Buffers {
  int rank = 0, ranks = 1;
  Tensor input, output;            // in place: output only; comm_func: input only
  std::vector<TensorView> pieces;  // the root's list: of input in scatter, of output in gather
};

void call_distributed(Collective collective, const Buffers& buffers, int root);
Prepared prepare(Collective collective, const Buffers& buffers, int root);  // what call_distributed would call
Tensor call_comm_func(Collective collective, const Buffers& buffers, int root);  // its result; barrier has none

}  // namespace unisono::tools
