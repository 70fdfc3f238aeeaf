// Reductions of one's own, for all_reduce, reduce, reduce_scatter, scan and exscan in both dialects:
//
//   const ReduceOp last = make_reduction<float>("last that is not 0", [](std::span<const float> lower, std::span<float> upper) {
//     for (size_t index = 0; index < upper.size(); ++index)
//       if (upper[index] == 0) upper[index] = lower[index];
//   }, Commutative::no);
//   distributed::all_reduce(view(data), {.op = last});
//
// The function combines what lower ranks gave with what higher ranks gave, element by element, and leaves the result in
// `upper`. It has to be associative; one that is not commutative is given its operands in the order of the ranks, by whatever
// algorithm. It is called for stretches of the data of any length, in the thread that makes the call, or that waits for it, or
// in a thread of the library; it must not call the library. One that throws breaks the group, on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "unisono/tensor.hpp"
#include "unisono/types.hpp"

#pragma GCC visibility push(default)
namespace unisono {

enum class Commutative : bool { no, yes };

inline constexpr size_t longest_reduction_name = 63;
inline constexpr int64_t largest_reduction_unit = 64;  // bytes

// What a ReduceOp of kind `user` stands for. All ranks have to give equal names, and Commutative alike.
struct UserReduction {
  std::string name;
  Commutative commutative = Commutative::no;
  std::optional<DType> dtype = {};  // the only one it takes; none: any
  int64_t unit_bytes = 1;           // the data is never cut inside a unit; divides largest_reduction_unit
  std::function<void(const void* lower, void* upper, int64_t count, DType dtype)> combine = {};  // count is in elements
};

// Any function, for any dtype or for one. ArgumentError where there is no function, no name, or too long a name.
ReduceOp make_reduction(UserReduction reduction);

// A function of two spans of T: the C++ type of the dtype, or any type that several elements or their bits make up, as
// uint8_t for float8_e8m0fnu, or a 2x2 matrix for four float64. Pointers are aligned for T.
template <typename T, typename Combine>
ReduceOp make_reduction(std::string name, Combine combine, Commutative commutative, DType dtype = dtype_of<T>()) {
  static_assert(std::is_trivially_copyable_v<T> && largest_reduction_unit % sizeof(T) == 0,
                "elements are copied byte by byte, and so many make up a cache line");
  static_assert(std::is_invocable_v<const Combine&, std::span<const T>, std::span<T>>,
                "the function is void(std::span<const T> lower, std::span<T> upper)");
  auto untyped = [combine = std::move(combine)](const void* lower, void* upper, int64_t count, DType given) {
    const auto units = static_cast<size_t>(count * element_bytes(given)) / sizeof(T);
    combine(std::span<const T>(static_cast<const T*>(lower), units), std::span<T>(static_cast<T*>(upper), units));
  };
  return make_reduction(UserReduction{std::move(name), commutative, dtype, sizeof(T), std::move(untyped)});
}

}  // namespace unisono
#pragma GCC visibility pop
