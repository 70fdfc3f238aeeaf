// Lists that do not fit, memory that overlaps, and the other dialect. See argument_rows.hpp.
#include "tests/argument_rows.hpp"

namespace unisono::testing {
namespace {

using namespace distributed;
using enum Collective;

std::vector<TensorView> list_of(Scratch& scratch, int length, DType dtype = DType::float32, int64_t count = 8) {
  std::vector<TensorView> list;
  for (int index = 0; index < length; ++index) list.push_back(scratch.tensor(dtype, {count}));
  return list;
}

TensorView eight(Scratch& scratch) { return scratch.tensor(DType::float32, {8}); }

TensorView part_of(const TensorView& whole, int64_t first, int64_t count) {
  return {static_cast<float*>(whole.data) + first, whole.dtype, Shape{count}};
}

using WrongList = std::function<void(std::vector<TensorView>&, Scratch&)>;

// A list of three that `spoil` has made wrong, given to each function that takes one.
std::function<void(TestWorld&, Scratch&)> gathering(WrongList spoil) {
  return [spoil](TestWorld&, Scratch& scratch) {
    auto list = list_of(scratch, 3);
    spoil(list, scratch);
    distributed::all_gather(list, eight(scratch));
  };
}
std::function<void(TestWorld&, Scratch&)> reducing(WrongList spoil) {
  return [spoil](TestWorld&, Scratch& scratch) {
    auto list = list_of(scratch, 3);
    spoil(list, scratch);
    distributed::reduce_scatter(eight(scratch), list);
  };
}
std::function<void(TestWorld&, Scratch&)> scattering(WrongList spoil) {
  return [spoil](TestWorld&, Scratch& scratch) {
    auto list = list_of(scratch, 3);
    spoil(list, scratch);
    distributed::scatter(eight(scratch), list);
  };
}

void shorten(std::vector<TensorView>& list, Scratch&) { list.pop_back(); }
void lengthen(std::vector<TensorView>& list, Scratch& scratch) { list.push_back(eight(scratch)); }
void empty(std::vector<TensorView>& list, Scratch&) { list.clear(); }
void change_dtype(std::vector<TensorView>& list, Scratch& scratch) { list[2] = scratch.tensor(DType::int32, {8}); }
void change_own_size(std::vector<TensorView>& list, Scratch& scratch) { list[1] = scratch.tensor(DType::float32, {9}); }
void change_size(std::vector<TensorView>& list, Scratch& scratch) { list[2] = scratch.tensor(DType::float32, {9}); }
void lose_memory(std::vector<TensorView>& list, Scratch&) { list[2].data = nullptr; }
void make_const(std::vector<TensorView>& list, Scratch&) { list[2].read_only = true; }

}  // namespace

std::vector<Refusal> list_refusals() {
  return {
      {"a list too short to gather into", all_gather, {"tensor_list", "2 tensors", "3 ranks"}, gathering(shorten)},
      {"a list too long to gather into", all_gather, {"tensor_list", "4 tensors", "3 ranks"}, gathering(lengthen)},
      {"no list to gather into", all_gather, {"tensor_list", "0 tensors"}, gathering(empty)},
      {"another dtype in the list to gather into", all_gather, {"tensor_list", "int32", "float32"}, gathering(change_dtype)},
      {"an own element of another size", all_gather, {"tensor", "8", "9"}, gathering(change_own_size)},
      {"a null pointer in the list to gather into", all_gather, {"tensor_list", "null"}, gathering(lose_memory)},
      {"const memory in the list to gather into", all_gather, {"tensor_list", "const"}, gathering(make_const)},
      {"a list too short to reduce", reduce_scatter, {"input_list", "2 tensors"}, reducing(shorten)},
      {"a list too long to reduce", reduce_scatter, {"input_list", "4 tensors"}, reducing(lengthen)},
      {"another dtype in the list to reduce", reduce_scatter, {"input_list", "int32", "float32"}, reducing(change_dtype)},
      {"an own element that does not fit the output", reduce_scatter, {"output", "8", "9"}, reducing(change_own_size)},
      {"a null pointer in the list to reduce", reduce_scatter, {"input_list", "null"}, reducing(lose_memory)},
      {"a list where there is nothing to scatter", scatter, {"scatter_list", "source only", "rank 0"},
       scattering([](std::vector<TensorView>&, Scratch&) {})},
      {"no list on the source", scatter, {"scatter_list", "must be given"}, scattering(empty), 0},
      {"a list too short to scatter", scatter, {"scatter_list", "2 tensors"}, scattering(shorten), 0},
      {"a list too long to scatter", scatter, {"scatter_list", "4 tensors"}, scattering(lengthen), 0},
      {"an element of another size to scatter", scatter, {"scatter_list", "9 elements", "8"}, scattering(change_size), 0},
      {"another dtype in the list to scatter", scatter, {"scatter_list", "int32", "float32"}, scattering(change_dtype), 0},
      {"a null pointer in the list to scatter", scatter, {"scatter_list", "null"}, scattering(lose_memory), 0},
  };
}

std::vector<Refusal> overlap_refusals() {
  return {
      {"two elements of the list to gather into", all_gather, {"tensor_list", "overlap"},
       [](TestWorld&, Scratch& scratch) {
         TensorView whole = scratch.tensor(DType::float32, {23});
         std::vector<TensorView> list = {part_of(whole, 0, 8), part_of(whole, 15, 8), part_of(whole, 8, 8)};
         distributed::all_gather(list, eight(scratch));
       }},
      {"the input and another's place in the list", all_gather, {"tensor_list", "tensor", "overlap"},
       [](TestWorld&, Scratch& scratch) {
         auto list = list_of(scratch, 3);
         distributed::all_gather(list, list[2]);
       }},
      {"the input and another's place in the output", all_gather, {"output", "input", "overlap"},
       [](TestWorld&, Scratch& scratch) {
         TensorView output = scratch.tensor(DType::float32, {24});
         all_gather_into_tensor(output, part_of(output, 0, 8));
       }},
      {"the input and half of its own place in the output", all_gather, {"output", "input", "overlap"},
       [](TestWorld&, Scratch& scratch) {
         TensorView output = scratch.tensor(DType::float32, {24});
         all_gather_into_tensor(output, part_of(output, 12, 8));
       }},
      {"the output and another's part of the input", reduce_scatter, {"output", "input", "overlap"},
       [](TestWorld&, Scratch& scratch) {
         TensorView input = scratch.tensor(DType::float32, {24});
         reduce_scatter_tensor(part_of(input, 16, 8), input);
       }},
      {"the output and half of an element", reduce_scatter, {"output", "input_list", "overlap"},
       [](TestWorld&, Scratch& scratch) {
         TensorView whole = scratch.tensor(DType::float32, {12});
         std::vector<TensorView> list = {part_of(whole, 4, 8), eight(scratch), eight(scratch)};
         distributed::reduce_scatter(part_of(whole, 0, 8), list);
       }},
      {"the output and another's element", reduce_scatter, {"output", "input_list", "overlap"},
       [](TestWorld& world, Scratch& scratch) {
         std::vector<TensorView> list = {eight(scratch), eight(scratch), eight(scratch)};
         distributed::reduce_scatter(list[static_cast<size_t>((world.rank() + 1) % 3)], list);
       }},
      {"what the source keeps and another's element", scatter, {"tensor", "scatter_list", "overlap"},
       [](TestWorld&, Scratch& scratch) {
         std::vector<TensorView> list = {eight(scratch), eight(scratch), eight(scratch)};
         distributed::scatter(list[2], list);
       }, 0},
      {"what the source keeps and half of an element", scatter, {"tensor", "scatter_list", "overlap"},
       [](TestWorld&, Scratch& scratch) {
         TensorView whole = scratch.tensor(DType::float32, {12});
         std::vector<TensorView> list = {eight(scratch), eight(scratch), part_of(whole, 4, 8)};
         distributed::scatter(part_of(whole, 0, 8), list);
       }, 0},
  };
}

std::vector<Refusal> comm_func_refusals() {
  const TensorView nowhere{nullptr, DType::float32, Shape{6}};
  const TensorView too_long{reinterpret_cast<void*>(4096), DType::int8, Shape{INT64_MAX / 3 * 3}};
  return {
      {"all_reduce of a null pointer", all_reduce, {"tensor", "null"}, [=](TestWorld&, Scratch&) { comm_func::all_reduce(nowhere); }},
      {"all_reduce of const memory is right, of floats by bits is not", all_reduce, {"bxor", "float32"},
       [](TestWorld&, Scratch& scratch) { comm_func::all_reduce(eight(scratch), {.op = ReduceOp::bxor}); }},
      {"a result too long for any memory", all_reduce, {"tensor"}, [=](TestWorld&, Scratch&) { comm_func::all_reduce(too_long); }},
      {"a gathered result too long for any memory", all_gather, {"tensor"},
       [=](TestWorld&, Scratch&) { comm_func::all_gather_into_tensor(too_long); }},
      {"a part too long for any memory", scatter, {"tensor"}, [=](TestWorld&, Scratch&) { comm_func::scatter_tensor(too_long); }},
      {"a dim 0 that three do not divide", reduce_scatter, {"dim 0", "tensor", "8", "3 ranks"},
       [](TestWorld&, Scratch& scratch) { comm_func::reduce_scatter_tensor(eight(scratch)); }},
      {"a dim 0 that three do not divide, to scatter", scatter, {"dim 0", "tensor", "8", "3 ranks"},
       [](TestWorld&, Scratch& scratch) { comm_func::scatter_tensor(eight(scratch)); }},
      {"no dim 0 at all", scatter, {"tensor", "no dim 0"},
       [](TestWorld&, Scratch& scratch) { comm_func::scatter_tensor(scratch.tensor(DType::float32, Shape{})); }},
      {"a destination outside", reduce, {"dst", "rank 3"}, [](TestWorld&, Scratch& scratch) { comm_func::reduce(eight(scratch), 3); }},
      {"a source outside", broadcast, {"src", "rank -4"},
       [](TestWorld&, Scratch& scratch) { comm_func::broadcast(eight(scratch), -4); }},
      {"a negative size", reduce, {"tensor", "(-3)"},
       [](TestWorld&, Scratch&) { comm_func::reduce({reinterpret_cast<void*>(4096), DType::float32, Shape{-3}}, 0); }},
  };
}

}  // namespace unisono::testing
