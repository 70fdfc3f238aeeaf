// The torch.distributed dialect: many tensors in one call. A list becomes one stretch of bytes, or one a rank, whose spans are
// the tensors: see engine/pieces.hpp.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "dialects/default_world.hpp"
#include "dialects/distributed_parts.hpp"

namespace unisono::distributed {
namespace {

using Spans = std::vector<Bytes>;

Bytes span_of(const TensorView& tensor) { return {static_cast<std::byte*>(tensor.data), tensor.bytes()}; }

Spans spans_of(TensorList list) {
  Spans spans;
  spans.reserve(list.size());
  for (const TensorView& tensor : list) spans.push_back(span_of(tensor));
  return spans;
}

TensorView first_of(TensorList list) { return list.empty() ? TensorView{} : list.front(); }  // an empty list is refused

// Of every tensor of a list, by `check(name, index)`. Names of single ones are made only for the one that is wrong.
template <typename Check>
Status check_each(const std::string& argument, size_t length, Check check) {
  for (size_t index = 0; index < length; ++index)
    if (!check(argument.c_str(), index).ok()) return check(fmt::format("{}[{}]", argument, index).c_str(), index);
  return Status::success();
}

Status check_list(const std::string& argument, TensorList list, DType dtype, bool written) {
  if (list.empty()) return {ErrorCode::argument, fmt::format("{} is empty; it needs one tensor at least", argument)};
  return check_each(argument, list.size(), [&](const char* name, size_t index) {
    RETURN_IF_ERROR(written ? check_writable(name, list[index]) : check_tensor(name, list[index]));
    return check_same_dtype(name, list[index], dtype);
  });
}

Status check_length(const std::string& argument, size_t length, size_t wanted, const char* other) {
  if (length == wanted) return Status::success();
  return {ErrorCode::argument, fmt::format("{} has {} tensors where {} has {}", argument, length, other, wanted)};
}

// The side of a call that has a stretch for every rank, and the one that has a single one.
struct Sides {
  const char* parts_name;
  const char* whole_name;
  bool parts_are_written;         // all_gather; otherwise reduce_scatter
  std::vector<Spans> parts = {};  // [rank][tensor]
  Spans whole = {};               // [tensor]
};

// The n-th part of each of the larger tensors.
void cut_into_parts(Sides& sides, TensorList large, int ranks) {
  sides.parts.resize(static_cast<size_t>(ranks));
  for (const TensorView& tensor : large)
    for (int rank = 0; rank < ranks; ++rank) {
      const Stretch part = pieces(tensor).part(rank, ranks);
      sides.parts[static_cast<size_t>(rank)].push_back({part.data, part.bytes});
    }
}

// Nothing that is written may overlap anything else, but that a tensor may be its own place on the other side.
Status check_sides_apart(const Sides& sides, int me) {
  struct Region {
    const std::byte *begin, *end;
    bool written;
  };
  std::vector<Region> regions;
  auto add = [&](const Bytes& span, bool written) {
    if (span.bytes > 0) regions.push_back({span.data, span.data + span.bytes, written});
  };
  const Spans& own = sides.parts[static_cast<size_t>(me)];
  for (size_t index = 0; index < sides.whole.size(); ++index)
    if (!sides.parts_are_written || sides.whole[index].data != own[index].data) add(sides.whole[index], !sides.parts_are_written);
  for (const Spans& part : sides.parts)
    for (size_t index = 0; index < part.size(); ++index)
      if (sides.parts_are_written || &part != &own || part[index].data != sides.whole[index].data)
        add(part[index], sides.parts_are_written);
  std::sort(regions.begin(), regions.end(),
            [](const Region& one, const Region& other) { return std::less<>()(one.begin, other.begin); });
  const std::byte *written_until = nullptr, *read_until = nullptr;
  for (const Region& region : regions) {
    const char* written_name = sides.parts_are_written ? sides.parts_name : sides.whole_name;
    if (region.written && region.begin < written_until)
      return {ErrorCode::argument, fmt::format("two tensors of {} overlap in memory", written_name)};
    if (region.begin < (region.written ? read_until : written_until))
      return {ErrorCode::argument, fmt::format("{} and {} overlap in memory", sides.parts_name, sides.whole_name)};
    const std::byte*& until = region.written ? written_until : read_until;
    until = std::max(until, region.end);
  }
  return Status::success();
}

Status check_sizes(const Sides& sides, int me, int64_t element) {
  for (size_t index = 0; index < sides.whole.size(); ++index) {
    const int64_t one = sides.whole[index].bytes, part = sides.parts[static_cast<size_t>(me)][index].bytes;
    if (one != part)
      return {ErrorCode::argument, fmt::format("tensor {} of {} has {} elements; this rank's part of {} has {}", index,
                                               sides.whole_name, one / element, sides.parts_name, part / element)};
  }
  return Status::success();
}

// What has to be the same on all ranks. Parts of one tensor are what the functions without lists of lists give, and say the same.
void describe_sizes(Call& call, const std::vector<Spans>& parts) {
  const int64_t element = element_bytes(call.dtype);
  call.tensors = static_cast<uint32_t>(parts.front().size());
  const bool even = std::all_of(parts.begin(), parts.end(), [&](const Spans& part) {
    return std::equal(part.begin(), part.end(), parts.front().begin(),
                      [](const Bytes& one, const Bytes& other) { return one.bytes == other.bytes; });
  });
  uint64_t hash = call.coalesced() ? call.tensors : 0;
  call.count = 0;
  for (const Spans& part : std::span(parts).first(even ? 1 : parts.size()))
    for (const Bytes& span : part) {
      hash = hash_combine(hash, static_cast<uint64_t>(span.bytes / element));
      call.count += span.bytes / element;
    }
  if (call.coalesced() || !even) call.sizes_hash = hash;
}

Pieces stretch_of(const Spans& spans) {
  return spans.size() == 1 ? Pieces(spans.front().data, spans.front().bytes) : Pieces(std::vector<Spans>{spans});
}

Pieces stretches_of(const std::vector<Spans>& parts) {
  if (parts.front().size() > 1) return Pieces(parts);
  Spans list;
  for (const Spans& part : parts) list.push_back(part.front());
  const int64_t each = list.front().bytes;
  for (size_t index = 0; index < list.size(); ++index)  // a tensor that was cut into parts is whole again
    if (list[index].bytes != each || list[index].data != list.front().data + static_cast<int64_t>(index) * each)
      return Pieces(list);
  return Pieces(list.front().data, each * static_cast<int64_t>(list.size()));
}

Status use_sides(const Sides& sides, const Group& group, Call& call) {
  RETURN_IF_ERROR(check_sizes(sides, group.me(), element_bytes(call.dtype)));
  RETURN_IF_ERROR(check_sides_apart(sides, group.me()));
  describe_sizes(call, sides.parts);
  (sides.parts_are_written ? call.output : call.input) = stretches_of(sides.parts);
  (sides.parts_are_written ? call.input : call.output) = stretch_of(sides.whole);
  return Status::success();
}

// What all_gather_into_tensor_coalesced and reduce_scatter_tensor_coalesced have in common.
Status use_tensors(Sides sides, TensorList large, TensorList small, const Group& group, Call& call) {
  RETURN_IF_ERROR(check_list(sides.whole_name, small, call.dtype, !sides.parts_are_written));
  RETURN_IF_ERROR(check_list(sides.parts_name, large, call.dtype, sides.parts_are_written));
  RETURN_IF_ERROR(check_length(sides.parts_name, large.size(), small.size(), sides.whole_name));
  RETURN_IF_ERROR(check_each(sides.parts_name, large.size(), [&](const char* name, size_t index) {
    return check_into(name, large[index], small[index], group.size());
  }));
  cut_into_parts(sides, large, group.size());
  sides.whole = spans_of(small);
  return use_sides(sides, group, call);
}

Status use_output_lists(TensorLists outputs, TensorList inputs, const Group& group, Call& call) {
  Sides sides{.parts_name = "output_tensor_lists", .whole_name = "input_tensor_list", .parts_are_written = true};
  RETURN_IF_ERROR(check_list(sides.whole_name, inputs, call.dtype, false));
  if (outputs.size() != static_cast<size_t>(group.size()))
    return {ErrorCode::argument, fmt::format("output_tensor_lists has {} lists; it needs one for each of the group's {} ranks",
                                             outputs.size(), group.size())};
  for (size_t rank = 0; rank < outputs.size(); ++rank) {
    const std::string name = fmt::format("output_tensor_lists[{}]", rank);
    RETURN_IF_ERROR(check_length(name, outputs[rank].size(), inputs.size(), sides.whole_name));
    RETURN_IF_ERROR(check_list(name, outputs[rank], call.dtype, true));
    sides.parts.push_back(spans_of(outputs[rank]));
  }
  sides.whole = spans_of(inputs);
  return use_sides(sides, group, call);
}

Status use_input_lists(TensorList outputs, TensorLists inputs, const Group& group, Call& call) {
  Sides sides{.parts_name = "input_lists", .whole_name = "outputs", .parts_are_written = false};
  RETURN_IF_ERROR(check_list(sides.whole_name, outputs, call.dtype, true));
  if (inputs.size() != outputs.size())
    return {ErrorCode::argument,
            fmt::format("input_lists has {} lists where outputs has {} tensors", inputs.size(), outputs.size())};
  sides.parts.resize(static_cast<size_t>(group.size()));
  for (size_t index = 0; index < inputs.size(); ++index) {
    const std::string name = fmt::format("input_lists[{}]", index);
    RETURN_IF_ERROR(check_list_length(name.c_str(), inputs[index].size(), group.size()));
    RETURN_IF_ERROR(check_list(name, inputs[index], call.dtype, false));
    for (size_t rank = 0; rank < sides.parts.size(); ++rank) sides.parts[rank].push_back(span_of(inputs[index][rank]));
  }
  sides.whole = spans_of(outputs);
  return use_sides(sides, group, call);
}

}  // namespace

Request all_reduce_coalesced_request(TensorList tensors, const ReduceOptions& options) {
  return request_for(group_of(options.group, "all_reduce_coalesced"), Collective::all_reduce,
                     [&](const Group& group, Call& call) -> Status {
    set_call(call, first_of(tensors), options.op);
    RETURN_IF_ERROR(check_list("tensors", tensors, call.dtype, true));
    RETURN_IF_ERROR(check_parts_apart("tensors", tensors));
    RETURN_IF_ERROR(check_reducible(call, group));
    const Spans spans = spans_of(tensors);
    describe_sizes(call, {spans});
    call.input = call.output = stretch_of(spans);
    return Status::success();
  });
}

Request all_gather_into_coalesced_request(TensorList outputs, TensorList inputs, const Options& options) {
  return request_for(group_of(options.group, "all_gather_into_tensor_coalesced"), Collective::all_gather,
                     [&](const Group& group, Call& call) {
    set_call(call, first_of(inputs));
    return use_tensors({.parts_name = "outputs", .whole_name = "inputs", .parts_are_written = true}, outputs, inputs, group, call);
  });
}

Request reduce_scatter_into_coalesced_request(TensorList outputs, TensorList inputs, const ReduceOptions& options) {
  return request_for(group_of(options.group, "reduce_scatter_tensor_coalesced"), Collective::reduce_scatter,
                     [&](const Group& group, Call& call) -> Status {
    set_call(call, first_of(outputs), options.op);
    RETURN_IF_ERROR(
        use_tensors({.parts_name = "inputs", .whole_name = "outputs", .parts_are_written = false}, inputs, outputs, group, call));
    return check_reducible(call, group);
  });
}

Request all_gather_coalesced_request(TensorLists output_tensor_lists, TensorList input_tensor_list, const Options& options) {
  return request_for(group_of(options.group, "all_gather_coalesced"), Collective::all_gather, [&](const Group& group, Call& call) {
    set_call(call, first_of(input_tensor_list));
    return use_output_lists(output_tensor_lists, input_tensor_list, group, call);
  });
}

Request reduce_scatter_coalesced_request(TensorList outputs, TensorLists input_lists, const ReduceOptions& options) {
  return request_for(group_of(options.group, "reduce_scatter_coalesced"), Collective::reduce_scatter,
                     [&](const Group& group, Call& call) -> Status {
    set_call(call, first_of(outputs), options.op);
    RETURN_IF_ERROR(use_input_lists(outputs, input_lists, group, call));
    return check_reducible(call, group);
  });
}

WorkPtr all_reduce_coalesced(TensorList tensors, const ReduceOptions& options) {
  return deliver(all_reduce_coalesced_request(tensors, options), delivery(options));
}

WorkPtr all_gather_into_tensor_coalesced(TensorList outputs, TensorList inputs, const Options& options) {
  return deliver(all_gather_into_coalesced_request(outputs, inputs, options), delivery(options));
}

WorkPtr reduce_scatter_tensor_coalesced(TensorList outputs, TensorList inputs, const ReduceOptions& options) {
  return deliver(reduce_scatter_into_coalesced_request(outputs, inputs, options), delivery(options));
}

WorkPtr all_gather_coalesced(TensorLists output_tensor_lists, TensorList input_tensor_list, const Options& options) {
  return deliver(all_gather_coalesced_request(output_tensor_lists, input_tensor_list, options), delivery(options));
}

WorkPtr reduce_scatter_coalesced(TensorList outputs, TensorLists input_lists, const ReduceOptions& options) {
  return deliver(reduce_scatter_coalesced_request(outputs, input_lists, options), delivery(options));
}

}  // namespace unisono::distributed
