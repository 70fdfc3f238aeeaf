// Argument checks and delivery; see build.hpp. Next: group/group.cpp.
#include "dialects/build.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "unisono/reduction.hpp"

namespace unisono {
namespace {

template <typename... Parts>
Status wrong(fmt::format_string<Parts...> format, Parts&&... parts) {
  return {ErrorCode::argument, fmt::format(format, std::forward<Parts>(parts)...)};
}

Status check_timeout(double timeout_s) {
  return timeout_s > 0 ? Status::success() : wrong("timeout_s is {}; it must be more than 0", timeout_s);
}

// The call before one with splits, in which everybody learns them; they are part of the call, which so keeps them alive.
Call call_for_splits(const Group& group, Call& call) {
  const int me = group.me(), ranks = group.size();
  const int64_t element = element_bytes(call.dtype);
  auto splits = std::make_shared<Splits>(ranks, element);
  for (int peer = 0; peer < ranks; ++peer) splits->row(me)[peer] = call.input.part(peer, ranks).bytes / element;
  Call sizes;
  sizes.kind = Collective::all_gather;
  sizes.purpose = Purpose::split_sizes;
  sizes.dtype = DType::int64;
  const auto row_bytes = static_cast<int64_t>(ranks * sizeof(int64_t));
  sizes.input = Pieces(splits->row(me), row_bytes);
  sizes.output = Pieces(splits->row(0), ranks * row_bytes);
  sizes.timeout_s = call.timeout_s;
  call.splits = std::move(splits);
  return sizes;
}

WorkPtr deliver_with_splits(Request& request, Delivery& delivery) {
  auto& [group, call, checked, has_splits] = request;
  Call sizes;
  checked = or_out_of_memory([&] { return sizes = call_for_splits(*group, call), Status::success(); });
  if (!checked.ok()) throw_if_error(group->refuse(call.kind, checked));
  if (delivery.async_op) return group->post(std::move(sizes), std::move(call), std::move(delivery.keep_alive));
  throw_if_error(group->run(std::move(sizes), std::move(call)));
  return nullptr;
}

}  // namespace

Status check_tensor(const char* argument, const TensorView& tensor) {
  if (element_bytes(tensor.dtype) == 0) return wrong("{} has the unknown dtype number {}", argument, static_cast<int>(tensor.dtype));
  int64_t count = tensor.count();
  if (count < 0 || count > INT64_MAX / element_bytes(tensor.dtype))
    return wrong("{} has shape {}, which cannot be", argument, tensor.shape.text());
  if (count > 0 && !tensor.data) return wrong("{} of shape {} is a null pointer", argument, tensor.shape.text());
  return Status::success();
}

Status check_writable(const char* argument, const TensorView& tensor) {
  RETURN_IF_ERROR(check_tensor(argument, tensor));
  return tensor.read_only ? wrong("{} is written to and was made from const memory", argument) : Status::success();
}

Status check_same_dtype(const char* argument, const TensorView& tensor, DType wanted) {
  if (tensor.dtype == wanted) return Status::success();
  return wrong("{} is {} where {} is needed", argument, name_of(tensor.dtype), name_of(wanted));
}

Status check_count(const char* argument, const TensorView& tensor, int64_t wanted, const char* because) {
  if (tensor.count() == wanted) return Status::success();
  return wrong("{} has {} elements, shape {}; {} are needed: {}", argument, tensor.count(), tensor.shape.text(), wanted, because);
}

Status check_list_length(const char* argument, size_t length, int ranks) {
  if (length == static_cast<size_t>(ranks)) return Status::success();
  return wrong("{} has {} tensors; it needs one for each of the group's {} ranks", argument, length, ranks);
}

Status check_divisible(const char* argument, const TensorView& tensor, int ranks) {
  if (tensor.shape.dims() == 0) return wrong("{} has no dim 0 to divide among the group's {} ranks", argument, ranks);
  if (tensor.shape[0] % ranks == 0) return Status::success();
  return wrong("dim 0 of {} is {}, which is not divisible by the group's {} ranks", argument, tensor.shape[0], ranks);
}

Status check_member(const char* argument, int rank, const Group& group) {
  if (group.index_of(rank) >= 0) return Status::success();
  return wrong("{} is rank {}, which is not in group \"{}\" of ranks [{}]", argument, rank, group.name(), fmt::join(group.ranks(), ", "));
}

Status check_reducible(const Call& call, const Group& group) {
  const bool scans = call.kind == Collective::scan || call.kind == Collective::exscan;
  if (call.op.kind == ReduceKind::avg && scans)
    return wrong("avg of a {}: every rank's result has another number of parts, so there is no one number to divide by; "
                 "use sum and divide", name_of(call.kind));
  return check_reduction(call.reduction(group.size()));
}

Status check_apart(const char* one, const TensorView& first, const char* other, const TensorView& second) {
  auto *a = static_cast<const std::byte*>(first.data), *b = static_cast<const std::byte*>(second.data);
  if (first.bytes() <= 0 || second.bytes() <= 0 || a + first.bytes() <= b || b + second.bytes() <= a) return Status::success();
  return wrong("{} and {} overlap in memory", one, other);
}

Status check_parts_apart(const char* argument, std::span<const TensorView> list) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : list)
    if (tensor.bytes() > 0) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](auto* one, auto* other) { return std::less<>()(one->data, other->data); });
  for (size_t index = 1; index < order.size(); ++index)
    if (static_cast<const std::byte*>(order[index - 1]->data) + order[index - 1]->bytes() > order[index]->data)
      return wrong("two tensors of {} overlap in memory", argument);
  return Status::success();
}

Pieces pieces(const TensorView& tensor) { return Pieces(tensor.data, tensor.bytes()); }

Pieces pieces(std::span<const TensorView> list) {
  std::vector<Bytes> parts;
  parts.reserve(list.size());
  for (const TensorView& tensor : list) parts.push_back({static_cast<std::byte*>(tensor.data), tensor.bytes()});
  return Pieces(parts);
}

Status split(const char* argument, const TensorView& tensor, std::span<const int64_t> sizes, int ranks, Pieces& parts) {
  if (sizes.empty()) {
    RETURN_IF_ERROR(check_divisible(argument, tensor, ranks));
    parts = pieces(tensor);
    return Status::success();
  }
  if (tensor.shape.dims() == 0) return wrong("{} has no dim 0 to be split", argument);
  if (sizes.size() != static_cast<size_t>(ranks))
    return wrong("{}_split_sizes has {} sizes; it needs one for each of the group's {} ranks", argument, sizes.size(), ranks);
  const int64_t row = tensor.shape[0] > 0 ? tensor.bytes() / tensor.shape[0] : 0;
  int64_t left = tensor.shape[0];
  auto* at = static_cast<std::byte*>(tensor.data);
  std::vector<Bytes> list;
  for (int64_t size : sizes) {
    if (size < 0 || size > left)
      return wrong("{}_split_sizes is [{}], which does not fit dim 0 of {}, {}", argument, fmt::join(sizes, ", "), argument, tensor.shape[0]);
    list.push_back({at, size * row});
    at += size * row;
    left -= size;
  }
  if (left != 0)
    return wrong("{}_split_sizes is [{}], which leaves {} of dim 0 of {} over", argument, fmt::join(sizes, ", "), left, argument);
  parts = Pieces(list);
  return Status::success();
}

uint64_t sizes_hash(std::span<const TensorView> list) {
  uint64_t hash = 0;
  for (const TensorView& tensor : list) hash = hash_combine(hash, static_cast<uint64_t>(tensor.count()));
  return hash;
}

bool equal_sizes(std::span<const TensorView> list) {
  return std::all_of(list.begin(), list.end(), [&](const TensorView& tensor) { return tensor.count() == list.front().count(); });
}

WorkPtr deliver(Request&& request, Delivery&& delivery) {
  if (!request.group) return nullptr;
  auto& [group, call, checked, has_splits] = request;
  try {
    if (checked.ok() && delivery.timeout_s) checked = check_timeout(*delivery.timeout_s);
    if (!checked.ok()) throw_if_error(group->refuse(call.kind, checked));
    call.timeout_s = delivery.timeout_s.value_or(0);
    if (has_splits) return deliver_with_splits(request, delivery);
    if (delivery.async_op) return group->post(std::move(call), std::move(delivery.keep_alive));
    throw_if_error(group->run(std::move(call)));
  } catch (const std::bad_alloc&) {  // the group has told the others
    throw_if_error(out_of_memory());
  }
  return nullptr;
}

Envelope envelope_of(const Group& group, const LetterParts& parts) {
  const bool sends = parts.kind == Envelope::Kind::send;
  const char* argument = sends ? "dst" : "src";
  Envelope envelope;
  envelope.kind = parts.kind;
  envelope.dtype = parts.tensor.dtype;
  envelope.tag = parts.tag;
  auto check = [&]() -> Status {
    RETURN_IF_ERROR(sends ? check_tensor("tensor", parts.tensor) : check_writable("tensor", parts.tensor));
    if (parts.timeout_s) RETURN_IF_ERROR(check_timeout(*parts.timeout_s));
    if (parts.group_peer) {
      if (parts.peer) return wrong("give {} or group_peer, not both", argument);
      if (*parts.group_peer < 0 || *parts.group_peer >= group.size())
        return wrong("group_peer is {}, and group \"{}\" has {} ranks", *parts.group_peer, group.name(), group.size());
      envelope.peer = *parts.group_peer;
    } else if (parts.peer) {
      RETURN_IF_ERROR(check_member(argument, *parts.peer, group));
      envelope.peer = group.index_of(*parts.peer);
    } else if (sends) {
      return wrong("dst is missing: a letter is sent to one rank");
    } else if (group.size() == 1) {
      return wrong("src is missing, and nobody but this rank is in group \"{}\"", group.name());
    }
    if (envelope.peer == group.me()) return wrong("{} is rank {}, this rank itself; copy the tensor instead", argument, group.world_rank(group.me()));
    return Status::success();
  };
  throw_if_error(check());
  envelope.data = {static_cast<std::byte*>(parts.tensor.data), parts.tensor.bytes()};
  envelope.timeout_s = parts.timeout_s.value_or(0);
  return envelope;
}

Prepared prepare(Request&& request, std::optional<double> timeout_s) {
  if (!request.group) return {};
  throw_if_error(request.checked);
  if (timeout_s) throw_if_error(check_timeout(*timeout_s));
  auto standing = std::make_shared<StandingCall>();
  standing->call = std::move(request.call);
  standing->call.timeout_s = timeout_s.value_or(0);
  if (request.has_splits) standing->before = call_for_splits(*request.group, standing->call);
  throw_if_error(request.group->prepare(*standing));
  return Prepared(request.group->shared_from_this(), std::move(standing));
}

}  // namespace unisono
