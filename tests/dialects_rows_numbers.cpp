// The rows of docs/dialects.md on dtypes and reductions.
#include <cmath>
#include <complex>
#include <limits>
#include <random>

#include "tests/dialects_rows.hpp"

namespace unisono::testing {
namespace {

const ReduceOp every_op[] = {ReduceOp::sum, ReduceOp::avg,  ReduceOp::product, ReduceOp::min,
                                 ReduceOp::max, ReduceOp::band, ReduceOp::bor,     ReduceOp::bxor};

bool only_moved(DType dtype) { return dtype >= DType::float8_e4m3fnuz; }
bool whole_numbers(DType dtype) { return dtype >= DType::int8 && dtype <= DType::uint64; }
bool complex_numbers(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128; }

// The page's rule, in code.
bool means_something(DType dtype, ReduceKind op) {
  if (only_moved(dtype)) return false;
  const bool bitwise = op == ReduceKind::band || op == ReduceKind::bor || op == ReduceKind::bxor;
  if (bitwise) return dtype == DType::boolean || whole_numbers(dtype);
  if (op == ReduceKind::min || op == ReduceKind::max) return !complex_numbers(dtype);
  if (op == ReduceKind::avg || op == ReduceKind::premul_sum) return dtype != DType::boolean;
  return true;
}

void reduces_what_means_something(TestWorld&) {
  for (DType dtype : all_dtypes()) {
    std::vector<std::byte> zeros(32);
    TensorView tensor{zeros.data(), dtype, Shape{2}};
    for (ReduceOp op : every_op) {
      if (means_something(dtype, op.kind)) {
        distributed::all_reduce(tensor, {.op = op});
        comm_func::all_reduce(tensor, {.op = op});
      } else {
        std::vector<std::string> words = {std::string(name_of(op.kind)), std::string(name_of(dtype))};
        expect_all_refuse([&] { distributed::all_reduce(tensor, {.op = op}); }, words);
        expect_all_refuse([&] { comm_func::all_reduce(tensor, {.op = op}); }, words);
      }
    }
  }
}

void moves_every_dtype(TestWorld& world) {
  for (DType dtype : all_dtypes()) {
    std::vector<uint8_t> bytes(size_t(element_bytes(dtype)) * 6, uint8_t(0xff - world.rank()));  // NaN, in a float
    TensorView tensor{bytes.data(), dtype, Shape{6}};
    auto all_are = [&](const Tensor& result, uint8_t byte) {
      auto* first = static_cast<const uint8_t*>(result.data());
      return std::all_of(first, first + result.bytes(), [byte](uint8_t one) { return one == byte; });
    };
    EXPECT_TRUE(all_are(comm_func::broadcast(tensor, 1), 0xfe)) << name_of(dtype);
    EXPECT_TRUE(all_are(comm_func::scatter_tensor(tensor, 2), 0xfd)) << name_of(dtype);
    Tensor gathered = comm_func::all_gather_into_tensor(tensor).first;
    EXPECT_EQ(static_cast<const uint8_t*>(gathered.data())[gathered.bytes() - 1], 0xfd) << name_of(dtype);
    distributed::broadcast(tensor, {.src = 1});
    EXPECT_EQ(bytes, std::vector<uint8_t>(bytes.size(), 0xfe)) << name_of(dtype);
  }
}

// As bools, which std::vector does not hold one by one.
void booleans(TestWorld& world) {
  auto reduced = [&](ReduceOp op) {
    bool data[3] = {world.rank() == 0, true, false};  // one says so, all do, none does
    distributed::all_reduce(view(std::span<bool>(data)), {.op = op});
    return std::vector<int>(data, data + 3);
  };
  const std::vector<int> any = {1, 1, 0}, all = {0, 1, 0};
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bor}) EXPECT_EQ(reduced(op), any) << name_of(op.kind);
  for (ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::band}) EXPECT_EQ(reduced(op), all) << name_of(op.kind);
  EXPECT_EQ(reduced(ReduceOp::bxor), (std::vector<int>{1, 1, 0}));
  bool data[1] = {true};
  expect_all_refuse([&] { distributed::all_reduce(view(std::span<bool>(data)), {.op = ReduceOp::avg}); }, {"avg of bool"});
}

// 256 + 1 + 1 in bfloat16: adding one at a time gives 256 again and again, since 257 is not in the format.
void rounds_once(TestWorld& world) {
  std::vector<uint16_t> data(3, world.rank() == 0 ? 0x4380 : 0x3f80);
  distributed::all_reduce({data.data(), DType::bfloat16, Shape{3}});
  EXPECT_EQ(data, std::vector<uint16_t>(3, 0x4381));  // 258
  std::vector<uint16_t> half(3, world.rank() == 0 ? 0x6800 : 0x3c00);  // 2048 + 1 + 1 in float16, likewise
  distributed::all_reduce({half.data(), DType::float16, Shape{3}});
  EXPECT_EQ(half, std::vector<uint16_t>(3, 0x6801));  // 2050
  std::vector<uint8_t> e4m3(3, world.rank() == 0 ? 0x58 : 0x38);  // 16 + 1 + 1 in float8_e4m3fn, whose next number is 18
  distributed::all_reduce({e4m3.data(), DType::float8_e4m3fn, Shape{3}});
  EXPECT_EQ(e4m3, std::vector<uint8_t>(3, 0x59));
  std::vector<uint8_t> e5m2(3, world.rank() == 0 ? 0x48 : 0x3c);  // 8 + 1 + 1 in float8_e5m2, whose next number is 10
  distributed::all_reduce({e5m2.data(), DType::float8_e5m2, Shape{3}});
  EXPECT_EQ(e5m2, std::vector<uint8_t>(3, 0x49));
}

void nan_propagates(TestWorld& world) {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
    Floats data = {world.rank() == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0f, 2};
    distributed::all_reduce(view(data), {.op = op});
    EXPECT_TRUE(std::isnan(data[0])) << name_of(op.kind);
    EXPECT_FALSE(std::isnan(data[1])) << name_of(op.kind);
  }
}

void same_bits(TestWorld& world) {
  for (int64_t count : {3, 3000, 300'000}) {
    std::mt19937 random(static_cast<unsigned>(world.rank() + 1));
    std::uniform_real_distribution<float> numbers(-1e6f, 1e6f);
    Floats data = repeated<float>(count, 0);
    for (float& number : data) number = numbers(random);
    Floats functional = comm_func::all_reduce(view(data)).first.to_vector<float>();
    distributed::all_reduce(view(data));
    EXPECT_EQ(data, functional) << count;
    EXPECT_EQ(data, comm_func::broadcast(view(data)).to_vector<float>()) << count;  // rank 0's
  }
}

constexpr Row rows[] = {
    {"dtype.list", nullptr, [] {
       std::string names;
       for (DType dtype : all_dtypes()) names += std::string(name_of(dtype)) + " ";
       EXPECT_EQ(names, "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 "
                        "complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu ");
       for (DType dtype : all_dtypes()) EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
     }},
    {"dtype.moves", moves_every_dtype},
    {"dtype.reduces", reduces_what_means_something},
    {"dtype.bool", booleans},
    {"dtype.integers", [](TestWorld&) {
       std::vector<int8_t> data = {100, -100};
       distributed::all_reduce(view(data));
       EXPECT_EQ(data, (std::vector<int8_t>{44, -44}));  // 300 - 256
       std::vector<uint16_t> product = {300};
       distributed::all_reduce(view(product), {.op = ReduceOp::product});
       EXPECT_EQ(product, std::vector<uint16_t>{uint16_t(300 * 300 * 300)});
     }},
    {"dtype.small_floats", rounds_once},
    {"dtype.complex", [](TestWorld&) {
       std::vector<std::complex<float>> data = {{0, 1}};
       EXPECT_EQ(comm_func::all_reduce(view(data)).first.to_vector<std::complex<float>>()[0], (std::complex<float>{0, 3}));
       EXPECT_EQ(comm_func::all_reduce(view(data), {.op = ReduceOp::avg}).first.to_vector<std::complex<float>>(), data);
       distributed::all_reduce(view(data), {.op = ReduceOp::product});
       EXPECT_EQ(data[0], (std::complex<float>{0, -1}));
       distributed::all_reduce(view(data), {.op = ReduceOp::premul_sum(0.5)});
       EXPECT_EQ(data[0], (std::complex<float>{0, -1.5f}));
       expect_all_refuse([&] { distributed::all_reduce(view(data), {.op = ReduceOp::max}); }, {"complex numbers have no order"});
     }},
    {"dtype.only_moved", [](TestWorld&) {
       for (DType dtype : {DType::float8_e4m3fnuz, DType::float8_e5m2fnuz, DType::float8_e8m0fnu}) {
         std::vector<uint8_t> data(3);
         TensorView tensor{data.data(), dtype, Shape{3}};
         expect_all_refuse([&] { distributed::all_reduce(tensor); }, {"can be moved, not reduced"});
         distributed::broadcast(tensor);
       }
     }},

    {"op.list", nullptr, [] {
       std::string names;
       for (ReduceKind kind : all_reduce_kinds()) names += std::string(name_of(kind)) + " ";
       EXPECT_EQ(names, "sum avg product min max band bor bxor premul_sum user ");
       EXPECT_EQ(reduce_kind_named("prod"), ReduceKind::product);
       EXPECT_EQ(reduce_kind_named("mean"), std::nullopt);
     }},
    {"op.avg", [](TestWorld& world) {
       Ints data = {world.rank(), -world.rank() - 1, std::numeric_limits<int32_t>::max()};
       distributed::all_reduce(view(data), {.op = ReduceOp::avg});
       EXPECT_EQ(data, (Ints{1, -2, (std::numeric_limits<int32_t>::max() - 2) / 3}));  // 3 × max wraps to max - 2
       Ints toward_zero = {world.rank() == 0 ? -5 : 0};
       distributed::all_reduce(view(toward_zero), {.op = ReduceOp::avg});
       EXPECT_EQ(toward_zero, Ints{-1});
       Floats floats = {float(world.rank()) + 0.5f};
       EXPECT_EQ(comm_func::all_reduce(view(floats), {.op = ReduceOp::avg}).first.to_vector<float>(), Floats{1.5f});
     }},
    {"op.bitwise", [](TestWorld& world) {
       Ints data = {1 << world.rank() | 8};
       EXPECT_EQ(comm_func::all_reduce(view(data), {.op = ReduceOp::bor}).first.to_vector<int32_t>(), Ints{15});
       EXPECT_EQ(comm_func::all_reduce(view(data), {.op = ReduceOp::band}).first.to_vector<int32_t>(), Ints{8});
       EXPECT_EQ(comm_func::all_reduce(view(data), {.op = ReduceOp::bxor}).first.to_vector<int32_t>(), Ints{15});
       Floats floats = {1};
       expect_all_refuse([&] { distributed::all_reduce(view(floats), {.op = ReduceOp::bor}); }, {"bitwise", "integers or bool"});
     }},
    {"op.premul_sum", [](TestWorld& world) {
       Floats floats = {1.0f + float(world.rank())};
       distributed::all_reduce(view(floats), {.op = ReduceOp::premul_sum(0.25)});
       EXPECT_EQ(floats, Floats{1.5f});
       Ints ints = {1 + world.rank()};
       EXPECT_EQ(comm_func::all_reduce(view(ints), {.op = ReduceOp::premul_sum(-2)}).first.to_vector<int32_t>(), Ints{-12});
       expect_all_refuse([&] { distributed::all_reduce(view(ints), {.op = ReduceOp::premul_sum(0.5)}); }, {"whole factor"});
       expect_mismatch([&] { distributed::all_reduce(view(floats), {.op = ReduceOp::premul_sum(world.rank())}); }, {"op", "premul_sum"});
     }},
    {"op.nan", nan_propagates},
    {"op.same_bits", same_bits},
};

}  // namespace

std::span<const Row> number_rows() { return rows; }

}  // namespace unisono::testing
