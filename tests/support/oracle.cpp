// Making patterns; see oracle.hpp. The sums are those of kernels_reference.hpp, which shares nothing with src/kernels.
#include "tests/support/oracle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <tuple>

#include "kernels/kernels.hpp"
#include "tests/kernels_reference.hpp"

namespace unisono::testing {
namespace {

using Content = std::vector<std::byte>;

// Whole numbers that `ranks` of may be added up, or multiplied, in any order without rounding.
int number_for(ReduceKind kind, int exact_up_to, int ranks, uint64_t random) {
  if (kind == ReduceKind::product) return random % 8 == 0 ? 2 : random % 3 == 0 ? -1 : 1;
  const int largest = std::clamp(exact_up_to / ranks, 1, 50);
  return static_cast<int>(random % static_cast<uint64_t>(2 * largest + 1)) - largest;
}

template <class Codec>
Content small_numbers(ReduceKind kind, int exact_up_to, int ranks, std::mt19937_64& random) {
  Content content(pattern_period * sizeof(typename Codec::Stored));
  for (int64_t index = 0; index < pattern_period; ++index) {
    const int number = number_for(kind, exact_up_to, ranks, random() >> 8);
    const typename Codec::Stored stored = Codec::write(static_cast<typename Codec::Value>(number));
    std::memcpy(content.data() + index * static_cast<int64_t>(sizeof(stored)), &stored, sizeof(stored));
  }
  return content;
}

// Products of these never have a part that is zero, whose sign would depend on the order.
template <class Codec>
Content small_complex_numbers(ReduceKind kind, int exact_up_to, int ranks, std::mt19937_64& random) {
  using Value = typename Codec::Value;
  const Value factors[] = {{1, 0}, {2, 1}, {3, 2}};
  Content content(pattern_period * sizeof(Value));
  for (int64_t index = 0; index < pattern_period; ++index) {
    const uint64_t bits = random() >> 8;
    Value value = factors[bits % 3];
    if (kind != ReduceKind::product)
      value = Value(static_cast<float>(number_for(kind, exact_up_to, ranks, bits)),
                    static_cast<float>(number_for(kind, exact_up_to, ranks, bits >> 16)));
    std::memcpy(content.data() + index * static_cast<int64_t>(sizeof(value)), &value, sizeof(value));
  }
  return content;
}

struct Numbers {
  DType dtype;
  int exact_up_to;  // every whole number up to here is one of the dtype's
  Content (*make)(ReduceKind kind, int exact_up_to, int ranks, std::mt19937_64& random);
};

// The dtypes that are not integers; those take any bits, since they wrap.
constexpr Numbers numbers[] = {
    {DType::float16, 2048, small_numbers<reference::Float16>},
    {DType::bfloat16, 256, small_numbers<reference::Bfloat16>},
    {DType::float32, 1 << 24, small_numbers<reference::Plain<float>>},
    {DType::float64, 1 << 24, small_numbers<reference::Plain<double>>},
    {DType::complex64, 1 << 24, small_complex_numbers<reference::Complex<float>>},
    {DType::complex128, 1 << 24, small_complex_numbers<reference::Complex<double>>},
    {DType::float8_e4m3fn, 16, small_numbers<reference::E4m3>},
    {DType::float8_e5m2, 8, small_numbers<reference::E5m2>},
};

Content any_bits(DType dtype, std::mt19937_64& random) {
  Content content(static_cast<size_t>(pattern_period * element_bytes(dtype)));
  const auto mask = static_cast<std::byte>(dtype == DType::boolean ? 1 : 0xff);
  for (std::byte& byte : content) byte = static_cast<std::byte>(random() >> 8) & mask;
  return content;
}

Content contribution(DType dtype, ReduceKind kind, int ranks, std::mt19937_64& random) {
  for (const Numbers& row : numbers) {
    if (row.dtype != dtype) continue;
    EXPECT_LE(ranks, row.exact_up_to) << name_of(dtype) << " cannot hold exact sums of so many ranks";
    return row.make(kind, row.exact_up_to, ranks, random);
  }
  return any_bits(dtype, random);
}

Content reduced(const Reduction& reduction, const std::vector<Content>& sources) {
  for (const reference::Row& row : reference::rows)
    if (row.dtype == reduction.dtype) return row.reduce(reduction, sources, true, true);
  return {};
}

Patterns make_patterns(DType dtype, const ReduceOp* op, int ranks) {
  std::mt19937_64 random(static_cast<uint64_t>(dtype) * 1000 + static_cast<uint64_t>(ranks));
  std::vector<Content> sources;
  Patterns patterns;
  for (int rank = 0; rank < ranks; ++rank) {
    sources.push_back(op ? contribution(dtype, op->kind, ranks, random) : any_bits(dtype, random));
    patterns.given.emplace_back(sources.back(), element_bytes(dtype));
  }
  for (int ranks_up_to = 1; op && op->kind != ReduceKind::avg && ranks_up_to <= ranks; ++ranks_up_to) {
    const std::vector<Content> lower(sources.begin(), sources.begin() + ranks_up_to);
    patterns.partial.emplace_back(reduced({dtype, *op, ranks}, lower), element_bytes(dtype));
  }
  if (op) patterns.reduced = std::make_unique<Pattern>(reduced({dtype, *op, ranks}, sources), element_bytes(dtype));
  return patterns;
}

// Made once: ranks that are threads share them, and ranks that are processes inherit what was made before the fork.
const Patterns& kept_patterns(DType dtype, const ReduceOp* op, int ranks) {
  using Key = std::tuple<DType, int, double, int>;
  static std::mutex mutex;
  static std::map<Key, Patterns> kept;
  std::lock_guard lock(mutex);
  Key key{dtype, op ? static_cast<int>(op->kind) : -1, op ? op->factor : 0, ranks};
  auto found = kept.find(key);
  if (found == kept.end()) found = kept.emplace(key, make_patterns(dtype, op, ranks)).first;
  return found->second;
}

}  // namespace

Pattern::Pattern(std::vector<std::byte> period, int64_t element_bytes)
    : element_bytes_(element_bytes), period_(std::move(period)), twice_(period_) {
  twice_.insert(twice_.end(), period_.begin(), period_.end());
}

void Pattern::write(std::byte* target, int64_t first, int64_t count) const {
  for (int64_t done = 0, step = 0; done < count; done += step) {
    step = std::min(pattern_period, count - done);
    const std::byte* from = twice_.data() + (first + done) % pattern_period * element_bytes_;
    std::memcpy(target + done * element_bytes_, from, static_cast<size_t>(step * element_bytes_));
  }
}

int64_t Pattern::difference(const std::byte* found, int64_t first, int64_t count) const {
  for (int64_t done = 0, step = 0; done < count; done += step) {
    step = std::min(pattern_period, count - done);
    const std::byte* wanted = twice_.data() + (first + done) % pattern_period * element_bytes_;
    const std::byte* there = found + done * element_bytes_;
    if (std::memcmp(wanted, there, static_cast<size_t>(step * element_bytes_)) == 0) continue;
    for (int64_t byte = 0;; ++byte)
      if (wanted[byte] != there[byte]) return done + byte / element_bytes_;
  }
  return -1;
}

const Patterns& moving_patterns(DType dtype, int ranks) { return kept_patterns(dtype, nullptr, ranks); }

const Patterns& reducing_patterns(DType dtype, ReduceOp op, int ranks) { return kept_patterns(dtype, &op, ranks); }

std::vector<ReduceOp> meaningful_ops(DType dtype) {
  std::vector<ReduceOp> ops;
  for (ReduceKind kind : all_reduce_kinds())
    for (double factor : {0.5, 3.0}) {
      ReduceOp op{kind, kind == ReduceKind::premul_sum ? factor : 1.0};
      if (!check_reduction({dtype, op, 2}).ok()) continue;
      ops.push_back(op);
      break;
    }
  return ops;
}

std::vector<DType> reducible_dtypes() {
  std::vector<DType> dtypes;
  for (DType dtype : all_dtypes())
    if (!meaningful_ops(dtype).empty()) dtypes.push_back(dtype);
  return dtypes;
}

}  // namespace unisono::testing
