// What both dialects do alike: check arguments, and hand a finished Call to its group.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/shortage.hpp"
#include "group/group.hpp"
#include "unisono/persistent.hpp"
#include "unisono/tensor.hpp"
#include "unisono/work.hpp"

namespace unisono {

// Argument checks. Each returns ok or an ArgumentError that names the argument and what it should have been.
Status check_tensor(const char* argument, const TensorView& tensor);
Status check_writable(const char* argument, const TensorView& tensor);
Status check_same_dtype(const char* argument, const TensorView& tensor, DType wanted);
Status check_count(const char* argument, const TensorView& tensor, int64_t wanted, const char* because);
Status check_list_length(const char* argument, size_t length, int ranks);
Status check_divisible(const char* argument, const TensorView& tensor, int ranks);
Status check_member(const char* argument, int rank, const Group& group);
// That the call's reduction means something for its dtype, and for a scan.
Status check_reducible(const Call& call, const Group& group);
Status check_apart(const char* one, const TensorView& first, const char* other, const TensorView& second);
Status check_parts_apart(const char* argument, std::span<const TensorView> list);

Pieces pieces(const TensorView& tensor);
Pieces pieces(std::span<const TensorView> list);
// A tensor cut along dim 0 into parts of these sizes, or into equal ones where none are given; nothing may be left over.
Status split(const char* argument, const TensorView& tensor, std::span<const int64_t> sizes, int ranks, Pieces& parts);
uint64_t sizes_hash(std::span<const TensorView> list);
bool equal_sizes(std::span<const TensorView> list);

// A call as a function of a dialect has made it out of its arguments, and whether they are right.
struct Request {
  Group* group = nullptr;  // null: this rank is outside it, and nothing is to be done
  Call call = {};
  Status checked = {};
  bool has_splits = false;  // an all_to_all whose parts may differ: first every rank tells the others how much it sends to whom
};

// Fills in the call that the function stands for. Memory that runs out meanwhile is refused like a wrong argument, so that the
// others hear of it; `kind` is known before anything can go wrong.
template <typename Fill>
Request request_for(Group* group, Collective kind, Fill fill) {
  Request request{.group = group};
  if (!group) return request;
  request.call.kind = kind;
  request.checked = or_out_of_memory([&] { return fill(*group, request.call); });
  return request;
}

inline void set_call(Call& call, const TensorView& counted, const ReduceOp& op = ReduceOp::sum) {
  call.dtype = counted.dtype;
  call.count = counted.count();
  call.op = op;
}

struct Delivery {
  bool async_op = false;
  std::optional<double> timeout_s = {};  // otherwise the group's
  std::shared_ptr<void> keep_alive;  // what must outlive an asynchronous call
};
// Refuses the call (telling the others) when `checked` is not ok; performs it, or posts it and returns its Work. Throws.
WorkPtr deliver(Request&& request, Delivery&& delivery);
// Keeps the call instead, to be made later and often. Wrong arguments are told to nobody, since nothing was called. Throws.
Prepared prepare(Request&& request, std::optional<double> timeout_s);

// A letter to or from a member of the group; what is wrong with it concerns this rank alone.
struct LetterParts {
  Envelope::Kind kind = Envelope::Kind::send;
  TensorView tensor;
  std::optional<Rank> peer;            // a global rank; none: any source
  std::optional<int> group_peer = {};  // instead: a rank of the group
  int tag = 0;
  std::optional<double> timeout_s = {};
};
Envelope envelope_of(const Group& group, const LetterParts& parts);  // throws ArgumentError

}  // namespace unisono
