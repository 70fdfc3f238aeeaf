// What the files of the torch.distributed dialect share.
#pragma once

#include "dialects/build.hpp"
#include "unisono/distributed.hpp"

namespace unisono::distributed {

template <typename AnyOptions>
Delivery delivery(const AnyOptions& options) {
  return {options.async_op, options.timeout_s, nullptr};
}

inline Call make_call(Collective kind, const TensorView& counted, const ReduceOp& op = ReduceOp::sum) {
  Call call;
  call.kind = kind;
  call.dtype = counted.dtype;
  call.count = counted.count();
  call.op = op;
  return call;
}

// src or dst as a global rank, or group_src or group_dst as a rank of the group; `root` becomes an index into the group.
Status find_root(const char* argument, Rank global, std::optional<int> in_group, const Group& group, int& root);

}  // namespace unisono::distributed
