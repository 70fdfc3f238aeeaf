// What the collectives of the C header do, whether they are made (c_collectives.cpp) or prepared (c_prepared.cpp).
#pragma once

#include "dialects/c_parts.hpp"

namespace unisono::c {

// One buffer each way.
struct Buffers {
  const void* input;
  void* output;
  int64_t count;

  const void* given() const { return input ? input : output; }
};

// Lists, `length` long or one a rank; null where a side has none.
struct Lists {
  const void* const* inputs;
  void* const* outputs;
  const int64_t* counts;
  int length = 0;
};

// One buffer or list each way, with counts of its own.
struct SplitBuffers {
  const void* input;
  const int64_t* input_sizes;
  void* output;
  const int64_t* output_sizes;
};
struct SplitLists {
  const void* const* inputs;
  const int64_t* input_counts;
  void* const* outputs;
  const int64_t* output_counts;
};

unisono_status reduce_data(const Given& given, const Buffers& buffers) noexcept;  // all_reduce and the scans
unisono_status all_reduce_coalesced(const Given& given, const Lists& lists) noexcept;
unisono_status all_gather_coalesced(const Given& given, const Lists& lists) noexcept;
unisono_status reduce_scatter_coalesced(const Given& given, const Lists& lists) noexcept;
unisono_status reduce(const Given& given, const Buffers& buffers, int group_dst) noexcept;
unisono_status broadcast(const Given& given, void* tensor, int64_t count, int group_src) noexcept;
unisono_status all_gather_into_tensor(const Given& given, const Buffers& buffers) noexcept;
unisono_status all_gather(const Given& given, const void* tensor, const Lists& lists) noexcept;
unisono_status reduce_scatter_tensor(const Given& given, const Buffers& buffers) noexcept;
unisono_status reduce_scatter(const Given& given, const Lists& lists, void* output) noexcept;
unisono_status scatter_tensor(const Given& given, const Buffers& buffers, int group_src) noexcept;
unisono_status scatter(const Given& given, const void* const* list, const Buffers& buffers, int group_src) noexcept;
unisono_status gather_into_tensor(const Given& given, const Buffers& buffers, int group_dst) noexcept;
unisono_status gather(const Given& given, void* const* list, const Buffers& buffers, int group_dst) noexcept;
unisono_status all_to_all_single(const Given& given, const Buffers& buffers) noexcept;
unisono_status all_to_all_single_split(const Given& given, const SplitBuffers& buffers) noexcept;
unisono_status all_to_all(const Given& given, const SplitLists& lists) noexcept;
unisono_status barrier(const Given& given) noexcept;

}  // namespace unisono::c
