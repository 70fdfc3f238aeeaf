// Tensors, operations and roots that cannot be. See argument_rows.hpp.
#include "tests/argument_rows.hpp"

namespace unisono::testing {
namespace {

using namespace distributed;
using enum Collective;

// Not null, and never to be read.
TensorView somewhere(DType dtype, Shape shape) { return {reinterpret_cast<void*>(4096), dtype, shape}; }
TensorView nowhere(Shape shape) { return {nullptr, DType::float32, shape}; }

const std::vector<float> constant(8);

}  // namespace

std::vector<Refusal> tensor_refusals() {
  const int64_t huge = int64_t{1} << 40;
  return {
      {"a null pointer", all_reduce, {"tensor", "(4)", "null"},
       [](TestWorld&, Scratch&) { distributed::all_reduce(nowhere({4})); }},
      {"a negative size", all_reduce, {"tensor", "(-1)"},
       [](TestWorld&, Scratch&) { distributed::all_reduce(somewhere(DType::float32, {-1})); }},
      {"a negative size hidden by another", all_reduce, {"tensor", "(-2, -3)"},
       [](TestWorld&, Scratch&) { distributed::all_reduce(somewhere(DType::float32, {-2, -3})); }},
      {"more elements than can be counted", all_reduce, {"tensor", "cannot be"},
       [=](TestWorld&, Scratch&) { distributed::all_reduce(somewhere(DType::int8, {huge, huge})); }},
      {"more bytes than can be counted", all_reduce, {"tensor", "cannot be"},
       [](TestWorld&, Scratch&) { distributed::all_reduce(somewhere(DType::complex128, {INT64_MAX / 15})); }},
      {"more bytes than can be counted, once gathered", all_gather, {"output", "cannot be"},
       [](TestWorld&, Scratch& scratch) {
         all_gather_into_tensor(scratch.tensor(DType::int8, {3}), somewhere(DType::int8, {INT64_MAX / 2}));
       }},
      {"more bytes than can be counted, before scattering", reduce_scatter, {"input", "cannot be"},
       [](TestWorld&, Scratch& scratch) {
         reduce_scatter_tensor(somewhere(DType::int8, {INT64_MAX / 2}), scratch.tensor(DType::int8, {3}));
       }},
      {"const memory to reduce into", all_reduce, {"tensor", "const"},
       [](TestWorld&, Scratch&) { distributed::all_reduce(view(constant)); }},
      {"const memory to gather into", all_gather, {"output", "const"},
       [](TestWorld& world, Scratch& scratch) {
         std::vector<float> input(8);
         TensorView output = scratch.tensor(DType::float32, {8 * world.ranks()});
         output.read_only = true;
         all_gather_into_tensor(output, view(input));
       }},
      {"const memory to receive into", broadcast, {"tensor", "const"},
       [](TestWorld&, Scratch&) { distributed::broadcast(view(constant)); }},
      {"const memory as the destination of a reduction", reduce, {"tensor", "const"},
       [](TestWorld&, Scratch&) { distributed::reduce(view(constant), 1); }},
      {"const memory to scatter into", scatter, {"tensor", "const"},
       [](TestWorld&, Scratch&) { distributed::scatter(view(constant)); }},
      {"an output of the wrong size", all_gather, {"output", "8", "24"},
       [](TestWorld&, Scratch& scratch) {
         all_gather_into_tensor(scratch.tensor(DType::float32, {8}), scratch.tensor(DType::float32, {8}));
       }},
      {"an output of the wrong dtype", all_gather, {"output", "int32", "float32"},
       [](TestWorld&, Scratch& scratch) {
         all_gather_into_tensor(scratch.tensor(DType::int32, {24}), scratch.tensor(DType::float32, {8}));
       }},
      {"an input of the wrong size", reduce_scatter, {"input", "23", "24"},
       [](TestWorld&, Scratch& scratch) {
         reduce_scatter_tensor(scratch.tensor(DType::float32, {8}), scratch.tensor(DType::float32, {23}));
       }},
  };
}

std::vector<Refusal> operation_refusals() {
  auto reducing = [](DType dtype, ReduceOp op) {
    return [=](TestWorld&, Scratch& scratch) { distributed::all_reduce(scratch.tensor(dtype, {8}), {.op = op}); };
  };
  return {
      {"band of floats", all_reduce, {"band", "float32"}, reducing(DType::float32, ReduceOp::band)},
      {"bor of floats", all_reduce, {"bor", "float64"}, reducing(DType::float64, ReduceOp::bor)},
      {"bxor of complex numbers", all_reduce, {"bxor", "complex64"}, reducing(DType::complex64, ReduceOp::bxor)},
      {"min of complex numbers", all_reduce, {"min", "complex64"}, reducing(DType::complex64, ReduceOp::min)},
      {"max of complex numbers", all_reduce, {"max", "complex128"}, reducing(DType::complex128, ReduceOp::max)},
      {"sum of numbers that only move", all_reduce, {"sum", "float8_e8m0fnu"}, reducing(DType::float8_e8m0fnu, ReduceOp::sum)},
      {"a fraction of integers", all_reduce, {"premul_sum", "int32", "0.5"}, reducing(DType::int32, ReduceOp::premul_sum(0.5))},
      {"band of floats in reduce", reduce, {"band", "float32"},
       [](TestWorld&, Scratch& scratch) { distributed::reduce(scratch.tensor(DType::float32, {8}), 0, {.op = ReduceOp::band}); }},
      {"band of floats in reduce_scatter", reduce_scatter, {"band", "float32"},
       [](TestWorld&, Scratch& scratch) {
         reduce_scatter_tensor(scratch.tensor(DType::float32, {8}), scratch.tensor(DType::float32, {24}), {.op = ReduceOp::band});
       }},
  };
}

std::vector<Refusal> root_refusals() {
  return {
      {"a destination after the last rank", reduce, {"dst", "rank 3", "[0, 1, 2]"},
       [](TestWorld&, Scratch& scratch) { distributed::reduce(scratch.tensor(DType::float32, {8}), 3); }},
      {"a negative destination", reduce, {"dst", "rank -1"},
       [](TestWorld&, Scratch& scratch) { distributed::reduce(scratch.tensor(DType::float32, {8}), -1); }},
      {"a destination outside, counted in the group", reduce, {"group_dst", "7", "3 ranks"},
       [](TestWorld&, Scratch& scratch) { distributed::reduce(scratch.tensor(DType::float32, {8}), 0, {.group_dst = 7}); }},
      {"a source after the last rank", scatter, {"src", "rank 9"},
       [](TestWorld&, Scratch& scratch) { distributed::scatter(scratch.tensor(DType::float32, {8}), {}, {.src = 9}); }},
      {"a source outside, counted in the group", broadcast, {"group_src", "-2"},
       [](TestWorld&, Scratch& scratch) { distributed::broadcast(scratch.tensor(DType::float32, {8}), {.group_src = -2}); }},
      {"a source outside for a broadcast", broadcast, {"src", "rank 3"},
       [](TestWorld&, Scratch& scratch) { distributed::broadcast(scratch.tensor(DType::float32, {8}), {.src = 3}); }},
  };
}

}  // namespace unisono::testing
