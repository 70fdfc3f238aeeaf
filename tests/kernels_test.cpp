// Every reduction of every dtype against kernels_reference.hpp, bit for bit, on every instruction set of this machine.
#include "kernels/kernels.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/target.hpp"
#include "tests/kernels_reference.hpp"
#include "tests/support/scale.hpp"

namespace unisono {
namespace {

using reference::Buffer;
using reference::Bytes;
using reference::Row;
using reference::rows;

const Row& row_of(DType dtype) { return rows[static_cast<size_t>(dtype)]; }

size_t size_of(DType dtype) { return static_cast<size_t>(element_bytes(dtype)); }

void on_every_target(const std::function<void()>& body) {
  for (const std::string_view target : kernel_targets()) {
    ASSERT_TRUE(choose_kernel_target(target));
    ASSERT_EQ(kernel_target(), target);
    SCOPED_TRACE(target);
    body();
    if (::testing::Test::HasFailure()) break;
  }
  choose_kernel_target(kernel_targets().front());
}

// Every reduction that means something. The factors are whole, so that integers take them too.
std::vector<Reduction> all_reductions(int ranks) {
  std::vector<Reduction> found;
  for (const Row& each : rows) {
    for (const ReduceKind kind : all_reduce_kinds()) {
      const ReduceOp op = {kind, kind == ReduceKind::premul_sum ? -3.0 : 1.0};
      if (check_reduction({each.dtype, op, ranks}).ok()) found.push_back({each.dtype, op, ranks});
    }
  }
  return found;
}

std::string text_of(const Reduction& reduction, size_t source_count) {
  return std::string(name_of(reduction.op.kind)) + " of " + std::to_string(source_count) + " times " +
         std::string(name_of(reduction.dtype));
}

struct Input {
  std::vector<Bytes> contents;
  std::vector<Buffer> buffers;
  std::vector<const void*> pointers;
};

Input input_of(const Row& each, size_t source_count, size_t count, bool wild) {
  std::mt19937_64 random(source_count * 1000 + static_cast<size_t>(each.dtype) * 2 + wild);
  Input input;
  for (size_t index = 0; index < source_count; ++index) {
    input.contents.push_back(each.numbers(random, count, wild));
    input.buffers.emplace_back(input.contents.back(), 3 * index + 1);
  }
  for (Buffer& buffer : input.buffers) input.pointers.push_back(buffer.data());
  return input;
}

constexpr size_t source_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 33}, longest = 333;

TEST(Reduce, every_dtype_and_op_matches_a_plain_loop_at_every_length) {
  std::vector<size_t> counts = {127, 128, longest};
  for (size_t count = 0; count <= 70; count += testing::small_run() && count > 3 ? 5 : 1) counts.push_back(count);
  for (const size_t source_count : source_counts) {
    for (const Reduction& reduction : all_reductions(static_cast<int>(source_count))) {
      for (const bool wild : {false, true}) {
        SCOPED_TRACE(text_of(reduction, source_count) + (wild ? ", wild" : ", tame"));
        const Row& each = row_of(reduction.dtype);
        const Input input = input_of(each, source_count, longest, wild);
        const Bytes expected = each.reduce(reduction, input.contents, true, true);
        on_every_target([&] {
          for (const size_t count : counts) {
            const size_t size = count * size_of(reduction.dtype);
            Buffer target(size, count);
            reduce(reduction, {.target = target.data(), .sources = input.pointers, .count = int64_t(count)});
            ASSERT_TRUE(target.begins_with(expected, size)) << count << " elements";
            ASSERT_TRUE(target.is_untouched_outside(size)) << count << " elements";
          }
        });
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST(Reduce, large_odd_counts_match_a_plain_loop) {
  for (const Reduction& reduction : all_reductions(2)) {
    for (const size_t count : {4099, 20011}) {
      SCOPED_TRACE(text_of(reduction, 2));
      const Row& each = row_of(reduction.dtype);
      const Input input = input_of(each, 2, count, false);
      const Bytes expected = each.reduce(reduction, input.contents, true, true);
      on_every_target([&] {
        Buffer target(expected.size(), 5);
        reduce(reduction, {.target = target.data(), .sources = input.pointers, .count = int64_t(count)});
        ASSERT_TRUE(target.begins_with(expected, expected.size()));
      });
    }
  }
}

TEST(Reduce, alignment_does_not_matter) {
  for (const Row& each : rows) {
    const Reduction reduction = {each.dtype, ReduceOp::sum, 2};
    SCOPED_TRACE(text_of(reduction, 2));
    const Input input = input_of(each, 2, 67, true);
    const Bytes expected = each.reduce(reduction, input.contents, true, true);
    on_every_target([&] {
      for (size_t offset = 0; offset < 17 * 17; ++offset) {
        Buffer left(input.contents[0], offset), right(input.contents[1], offset / 17);
        Buffer target(expected.size(), offset / 5);
        const void* const sources[] = {left.data(), right.data()};
        reduce(reduction, {.target = target.data(), .sources = sources, .count = 67});
        ASSERT_TRUE(target.begins_with(expected, expected.size())) << offset;
      }
    });
  }
}

TEST(Reduce, either_target_may_be_one_of_the_sources) {
  for (const size_t source_count : {1, 2, 3, 5, 8, 9}) {
    for (const Reduction& reduction : all_reductions(static_cast<int>(source_count))) {
      SCOPED_TRACE(text_of(reduction, source_count));
      const Row& each = row_of(reduction.dtype);
      for (const size_t count : {1, 7, 18, 61, 131}) {
        const size_t size = count * size_of(reduction.dtype);
        const Input input = input_of(each, source_count, count, true);
        const Bytes expected = each.reduce(reduction, input.contents, true, true);
        on_every_target([&] {
          for (size_t same = 0; same < source_count; ++same) {
            Input own = input_of(each, source_count, count, true);
            Buffer other(size, same);
            void* const shared = own.buffers[same].data();
            const bool is_first = same % 2 == 0;
            reduce(reduction, {.target = is_first ? shared : other.data(),
                               .second_target = is_first ? other.data() : shared,
                               .sources = own.pointers,
                               .count = int64_t(count)});
            ASSERT_TRUE(own.buffers[same].begins_with(expected, size)) << count;
            ASSERT_TRUE(other.begins_with(expected, size)) << count;
            ASSERT_TRUE(own.buffers[same].is_untouched_outside(size) && other.is_untouched_outside(size)) << count;
          }
        });
      }
    }
  }
}

TEST(Reduce, nothing_outside_the_operands_is_read_or_written) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<std::byte*> ends;  // each the end of a page that nothing follows
  for (int index = 0; index < 3; ++index) {
    void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    ends.push_back(static_cast<std::byte*>(pages) + page);
    ASSERT_EQ(mprotect(ends.back(), page, PROT_NONE), 0);
  }
  for (const Reduction& reduction : all_reductions(2)) {
    on_every_target([&] {
      for (size_t count = 0; count <= 70; ++count) {
        const size_t size = count * size_of(reduction.dtype);
        const void* const sources[] = {ends[0] - size, ends[1] - size, ends[0] - size};
        for (const size_t source_count : {2, 3})
          reduce(reduction, {.target = ends[2] - size, .sources = {sources, source_count}, .count = int64_t(count)});
      }
    });
  }
  for (std::byte* end : ends) munmap(end - page, 2 * page);
}

TEST(Reduce, contributions_and_completeness_say_when_to_scale) {
  for (const Row& each : rows) {
    for (const ReduceOp& op : {ReduceOp::avg, ReduceOp::premul_sum(2)}) {
      if (!check_reduction({each.dtype, op, 5}).ok()) continue;
      const Input input = input_of(each, 3, 41, false);
      for (const int flags : {0, 1, 2, 3}) {
        const Bytes expected = each.reduce({each.dtype, op, 5}, input.contents, flags & 1, flags & 2);
        Buffer target(expected.size(), 0);
        reduce({each.dtype, op, 5}, {.target = target.data(), .sources = input.pointers, .count = 41,
                                     .contributions = (flags & 1) != 0, .complete = (flags & 2) != 0});
        EXPECT_TRUE(target.begins_with(expected, expected.size())) << name_of(each.dtype) << flags;
      }
    }
  }
}

TEST(Reduce, a_thousand_sources_follow_the_same_tree) {
  for (const size_t source_count : {100, 1023, 1000}) {
    const Input input = input_of(row_of(DType::float32), source_count, 19, false);
    const Reduction reduction = {DType::float32, ReduceOp::premul_sum(0.1), 1};
    const Bytes expected = row_of(DType::float32).reduce(reduction, input.contents, true, true);
    on_every_target([&] {
      Buffer target(expected.size(), 0);
      reduce(reduction, {.target = target.data(), .sources = input.pointers, .count = 19});
      EXPECT_TRUE(target.begins_with(expected, expected.size()));
    });
  }
}

// Reduces two lists of codes of a small float and compares with the reference.
template <typename Code>
void expect_as_the_reference(const Reduction& reduction, const std::vector<std::vector<Code>>& codes) {
  std::vector<Bytes> contents;
  std::vector<const void*> pointers;
  for (const std::vector<Code>& list : codes) {
    const auto bytes = std::as_bytes(std::span(list));
    contents.emplace_back(bytes.begin(), bytes.end());
    pointers.push_back(list.data());
  }
  const Bytes expected = row_of(reduction.dtype).reduce(reduction, contents, true, true);
  on_every_target([&] {
    std::vector<Code> result(codes[0].size());
    reduce(reduction, {.target = result.data(), .sources = pointers, .count = int64_t(result.size())});
    EXPECT_EQ(std::memcmp(result.data(), expected.data(), expected.size()), 0) << text_of(reduction, codes.size());
  });
}

template <typename Code>
std::vector<Code> every_code() {
  std::vector<Code> codes(size_t{1} << (8 * sizeof(Code)));
  for (size_t index = 0; index < codes.size(); ++index) codes[index] = static_cast<Code>(index);
  return codes;
}

TEST(SmallFloats, every_pair_of_8_bit_floats_is_reduced_with_one_rounding) {
  std::vector<uint8_t> left, right;
  for (const uint8_t code : every_code<uint8_t>()) {
    left.insert(left.end(), 256, code);
    for (const uint8_t other : every_code<uint8_t>()) right.push_back(other);
  }
  for (const DType dtype : {DType::float8_e4m3fn, DType::float8_e5m2})
    for (const ReduceOp& op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min, ReduceOp::max})
      expect_as_the_reference<uint8_t>({dtype, op, 3}, {left, right});
}

TEST(SmallFloats, every_16_bit_float_survives_and_is_rounded_to_the_nearest) {
  const std::vector<uint16_t> codes = every_code<uint16_t>();
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    for (const int ranks : {1, 2, 3, 7, 4096})
      expect_as_the_reference<uint16_t>({dtype, ReduceOp::avg, ranks}, {codes});
    std::mt19937_64 random(1);
    for (int round = 0; round < 24; ++round) {
      std::vector<uint16_t> near, far;  // within a few binades, where ties are, and anywhere
      for (const uint16_t code : codes) {
        near.push_back(static_cast<uint16_t>(code ^ (random() & 0x9FFF)));
        far.push_back(static_cast<uint16_t>(random()));
      }
      expect_as_the_reference<uint16_t>({dtype, round % 2 ? ReduceOp::sum : ReduceOp::product, 2}, {codes, near});
      expect_as_the_reference<uint16_t>({dtype, round % 2 ? ReduceOp::sum : ReduceOp::max, 2}, {codes, far});
    }
  }
}

TEST(SmallFloats, a_single_source_comes_back_as_it_was) {
  for (const DType dtype : {DType::float16, DType::bfloat16})
    expect_as_the_reference<uint16_t>({dtype, ReduceOp::sum, 1}, {every_code<uint16_t>()});
  for (const DType dtype : {DType::float8_e4m3fn, DType::float8_e5m2})
    expect_as_the_reference<uint8_t>({dtype, ReduceOp::sum, 1}, {every_code<uint8_t>()});
}

// One element, two sources, written out: what the loops above cannot make plain.
template <typename T>
T reduced(const Reduction& reduction, T left, T right) {
  T result;
  const void* const sources[] = {&left, &right};
  reduce(reduction, {.target = &result, .sources = sources, .count = 1});
  return result;
}

TEST(SmallFloats, too_large_is_nan_for_e4m3fn_and_infinite_for_the_others) {
  on_every_target([] {
    EXPECT_EQ(reduced<uint8_t>({DType::float8_e4m3fn}, 0x7E, 0x58), 0x7E);  // 448 + 16 is halfway and goes to even
    EXPECT_EQ(reduced<uint8_t>({DType::float8_e4m3fn}, 0x7E, 0x59), 0x7F);  // 448 + 18
    EXPECT_EQ(reduced<uint8_t>({DType::float8_e4m3fn}, 0xFE, 0xFE), 0x7F);  // -896: there is one NaN
    EXPECT_EQ(reduced<uint8_t>({DType::float8_e5m2}, 0x7B, 0x7B), 0x7C);
    EXPECT_EQ(reduced<uint8_t>({DType::float8_e5m2}, 0xFB, 0xFB), 0xFC);
    EXPECT_EQ(reduced<uint16_t>({DType::float16}, 0x7BFF, 0x4C00), 0x7C00);   // 65504 + 16
    EXPECT_EQ(reduced<uint16_t>({DType::bfloat16}, 0xFF7F, 0xFF7F), 0xFF80);
    EXPECT_EQ(reduced<uint16_t>({DType::bfloat16}, 0x7F81, 0x0000), 0x7FC0);  // a NaN whose payload rounding would lose
  });
}

TEST(Floats, nan_comes_out_of_whichever_side_it_went_in) {
  const float nan = std::bit_cast<float>(0xFFC12345);
  on_every_target([=] {
    for (const ReduceOp& op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product, ReduceOp::min, ReduceOp::max})
      for (const auto& [left, right] : {std::pair(nan, 1.0f), std::pair(1.0f, nan), std::pair(nan, -nan)})
        EXPECT_EQ(std::bit_cast<uint32_t>(reduced<float>({DType::float32, op, 2}, left, right)), 0x7FC00000u);
    const double infinity = std::numeric_limits<double>::infinity();
    EXPECT_EQ(std::bit_cast<uint64_t>(reduced<double>({DType::float64}, infinity, -infinity)), 0x7FF8000000000000u);
  });
}

TEST(Floats, minus_zero_is_less_than_zero) {
  on_every_target([] {
    for (const auto& [left, right] : {std::pair(0.0f, -0.0f), std::pair(-0.0f, 0.0f)}) {
      EXPECT_TRUE(std::signbit(reduced<float>({DType::float32, ReduceOp::min}, left, right)));
      EXPECT_FALSE(std::signbit(reduced<float>({DType::float32, ReduceOp::max}, left, right)));
    }
  });
}

TEST(Floats, products_are_rounded_before_they_are_added) {
  // Fused, (1 + e) * (1 + e) - (1 + 2e) would leave e * e.
  const float near_one = 1 + 0x1p-12f;
  const float minus_square = -(near_one * near_one) / near_one;
  const std::complex<double> value(1 + 0x1p-30, 1 + 0x1p-30);
  on_every_target([&] {
    const Reduction scaled = {DType::float32, ReduceOp::premul_sum(near_one), 2};
    EXPECT_EQ(reduced<float>(scaled, near_one, minus_square),
              reference::added(near_one * near_one, reference::multiplied(minus_square, near_one)));
    EXPECT_EQ(reduced<std::complex<double>>({DType::complex128, ReduceOp::product}, value, value).real(), 0.0);
  });
}

TEST(Floats, factors_are_rounded_to_the_width_that_is_computed_in) {
  EXPECT_EQ(reduced<float>({DType::float32, ReduceOp::premul_sum(0.1)}, 3, 0), 3 * 0.1f);
  EXPECT_EQ(reduced<double>({DType::float64, ReduceOp::premul_sum(0.1)}, 3, 0), 3 * 0.1);
  EXPECT_EQ(reduced<uint16_t>({DType::bfloat16, ReduceOp::premul_sum(0.5)}, 0x3F80, 0x3F80), 0x3F80);
}

TEST(Integers, sums_wrap_and_averages_round_toward_zero) {
  on_every_target([] {
    EXPECT_EQ(reduced<int8_t>({DType::int8}, 127, 1), -128);
    EXPECT_EQ(reduced<int8_t>({DType::int8, ReduceOp::avg, 3}, 127, 1), -42);
    EXPECT_EQ(reduced<uint8_t>({DType::uint8, ReduceOp::avg, 3}, 255, 2), 0);
    EXPECT_EQ(reduced<int64_t>({DType::int64, ReduceOp::avg, 2}, -4, -3), -3);
    EXPECT_EQ(reduced<int64_t>({DType::int64}, INT64_MIN, -1), INT64_MAX);
    EXPECT_EQ(reduced<uint64_t>({DType::uint64, ReduceOp::avg, 2}, UINT64_MAX, 0), UINT64_MAX / 2);
    EXPECT_EQ(reduced<int64_t>({DType::int64, ReduceOp::product}, INT64_MIN, -1), INT64_MIN);
    EXPECT_EQ(reduced<int32_t>({DType::int32, ReduceOp::premul_sum(-0x1p31)}, 1, 2), INT32_MIN);
    EXPECT_EQ(reduced<uint64_t>({DType::uint64, ReduceOp::premul_sum(0x1p64)}, 1, 2), 0u);
    EXPECT_EQ(reduced<uint64_t>({DType::uint64, ReduceOp::premul_sum(-0x1.8p63)}, 1, 0), uint64_t{1} << 62);
  });
}

TEST(Booleans, any_byte_but_zero_is_true) {
  on_every_target([] {
    for (const ReduceOp& op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bor})
      EXPECT_EQ(reduced<uint8_t>({DType::boolean, op}, 0, 0x80), 1);
    for (const ReduceOp& op : {ReduceOp::product, ReduceOp::min, ReduceOp::band})
      EXPECT_EQ(reduced<uint8_t>({DType::boolean, op}, 0x02, 0x80), 1);
    EXPECT_EQ(reduced<uint8_t>({DType::boolean, ReduceOp::bxor}, 0x02, 0x80), 0);
  });
}

TEST(CheckReduction, refuses_what_means_nothing_and_says_why) {
  const auto refusal = [](DType dtype, ReduceOp op, int ranks) { return check_reduction({dtype, op, ranks}).text(); };
  EXPECT_EQ(refusal(DType::float32, ReduceOp::band, 2),
            "ArgumentError: band of float32: bitwise operations need integers or bool");
  EXPECT_EQ(refusal(DType::complex64, ReduceOp::bxor, 2),
            "ArgumentError: bxor of complex64: bitwise operations need integers or bool");
  EXPECT_EQ(refusal(DType::complex128, ReduceOp::max, 2),
            "ArgumentError: max of complex128: complex numbers have no order");
  EXPECT_EQ(refusal(DType::float8_e8m0fnu, ReduceOp::sum, 2),
            "ArgumentError: sum of float8_e8m0fnu: numbers of this dtype can be moved, not reduced");
  EXPECT_EQ(refusal(DType::boolean, ReduceOp::avg, 2),
            "ArgumentError: avg of bool: use max for 'any' or min for 'all', or convert to a number first");
  EXPECT_EQ(refusal(DType::int32, ReduceOp::premul_sum(0.5), 2),
            "ArgumentError: premul_sum of int32: integers need a whole factor, not 0.5");
  EXPECT_EQ(refusal(DType::uint8, ReduceOp::premul_sum(std::numeric_limits<double>::infinity()), 2),
            "ArgumentError: premul_sum of uint8: integers need a whole factor, not inf");
  EXPECT_EQ(refusal(DType::float32, ReduceOp::avg, 0), "ArgumentError: avg of float32: cannot divide by 0 ranks");
  EXPECT_TRUE(check_reduction({DType::float16, ReduceOp::premul_sum(0.5), 2}).ok());
}

TEST(CheckReduction, allows_what_each_kind_of_number_can_do) {
  std::map<std::string_view, size_t> allowed;
  for (const DType dtype : all_dtypes())
    for (const ReduceKind kind : all_reduce_kinds())
      allowed[name_of(dtype)] += check_reduction({dtype, ReduceOp{kind, 2.0}, 2}).ok();
  for (const Row& each : rows) {
    const size_t size = allowed[name_of(each.dtype)];
    const std::string_view name = name_of(each.dtype);
    if (name == "bool") EXPECT_EQ(size, 7u);
    else if (name.starts_with("complex")) EXPECT_EQ(size, 4u);
    else EXPECT_EQ(size, name.find("float") == name.npos ? 9u : 6u) << name;
  }
  for (const char* name : {"float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"}) EXPECT_EQ(allowed[name], 0u);
}

}  // namespace
}  // namespace unisono
