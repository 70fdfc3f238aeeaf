// The vocabulary of numbers and ranks: what element types and reductions exist, and what they are called.
// Every name here is spelled the same in Python, on the command line, in the docs and in the tests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace unisono {

using Rank = int;  // global in the dialects, relative to the group below them

enum class DType : uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  float8_e4m3fn,
  float8_e5m2,
  float8_e4m3fnuz,  // the last three move, but do not add
  float8_e5m2fnuz,
  float8_e8m0fnu,
};

enum class ReduceKind : uint8_t { sum, avg, product, min, max, band, bor, bxor, premul_sum, user };

struct UserReduction;  // reduction.hpp

// A reduction: its kind and, for premul_sum, the factor that each contribution is multiplied by first. One of your own is
// made by make_reduction() in reduction.hpp; two of those are equal when one is a copy of the other.
struct ReduceOp {
  ReduceKind kind = ReduceKind::sum;
  double factor = 1.0;
  std::shared_ptr<const UserReduction> user_defined = nullptr;

  static const ReduceOp sum, avg, product, min, max, band, bor, bxor;
  static ReduceOp premul_sum(double factor);

  bool operator==(const ReduceOp&) const = default;
};

inline const ReduceOp ReduceOp::sum{ReduceKind::sum, 1.0};
inline const ReduceOp ReduceOp::avg{ReduceKind::avg, 1.0};
inline const ReduceOp ReduceOp::product{ReduceKind::product, 1.0};
inline const ReduceOp ReduceOp::min{ReduceKind::min, 1.0};
inline const ReduceOp ReduceOp::max{ReduceKind::max, 1.0};
inline const ReduceOp ReduceOp::band{ReduceKind::band, 1.0};
inline const ReduceOp ReduceOp::bor{ReduceKind::bor, 1.0};
inline const ReduceOp ReduceOp::bxor{ReduceKind::bxor, 1.0};
inline ReduceOp ReduceOp::premul_sum(double factor) { return {ReduceKind::premul_sum, factor}; }

enum class Collective : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  reduce,
  scatter,
  gather,
  broadcast,
  all_to_all,
  scan,
  exscan,
  barrier,
};

// One row a dtype, one a reduction, one a collective: every other place asks these functions.
constexpr int64_t element_bytes(DType dtype) {
  constexpr uint8_t bytes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 1, 1, 1, 1, 1};
  const auto index = static_cast<uint8_t>(dtype);
  return index < sizeof(bytes) ? bytes[index] : 0;
}
std::string_view name_of(DType dtype);
std::string_view name_of(ReduceKind kind);
std::string_view name_of(Collective collective);
std::optional<DType> dtype_named(std::string_view name);
std::optional<ReduceKind> reduce_kind_named(std::string_view name);  // also "prod", as MindSpore writes it
std::optional<Collective> collective_named(std::string_view name);
std::span<const DType> all_dtypes();
std::span<const ReduceKind> all_reduce_kinds();
std::span<const Collective> all_collectives();

}  // namespace unisono
#pragma GCC visibility pop
