// Reductions by a function of the user's, along the same tree as all others (kernels.hpp).
//
// The function sees neither the caller's memory nor a peer's, only aligned copies of a stretch that stays in the cache: it
// may be written for aligned memory, it can spoil nothing, and targets that are sources too need no thought.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "kernels/kernels.hpp"
#include "unisono/reduction.hpp"

namespace unisono {
namespace {

constexpr int64_t stretch_bytes = 8 << 10;  // a multiple of every unit

struct alignas(largest_reduction_unit) Stretch {
  std::byte bytes[stretch_bytes];
};

// What the function throws becomes an Error that says whose fault it was; src/group ends the call with it.
void combine(const UserReduction& user, DType dtype, int64_t count, const Stretch& lower, Stretch& upper) {
  std::string what;
  try {
    return user.combine(lower.bytes, upper.bytes, count, dtype);
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
    what = "something that is no std::exception";
  }
  throw Error({ErrorCode::revoked, fmt::format("the reduction \"{}\" threw an exception: {}", user.name, what)});
}

}  // namespace

// A binary counter, as in pass-inl.hpp: digit `level` holds the combination of 2^level sources.
void reduce_by_user(const Reduction& reduction, const Operands& operands) {
  const UserReduction& user = *reduction.op.user_defined;
  const int64_t element = element_bytes(reduction.dtype), bytes = operands.count * element;
  const size_t sources = operands.sources.size();
  const auto digits = std::make_unique_for_overwrite<Stretch[]>(static_cast<size_t>(std::bit_width(sources)) + 1);
  for (int64_t done = 0; done < bytes; done += stretch_bytes) {
    const int64_t length = std::min(stretch_bytes, bytes - done), count = length / element;
    for (size_t index = 0; index < sources; ++index) {
      const auto level = static_cast<size_t>(std::countr_one(index));  // where the carry ends
      const std::byte* source = static_cast<const std::byte*>(operands.sources[index]) + done;
      std::memcpy(digits[level].bytes, source, static_cast<size_t>(length));
      for (size_t lower = 0; lower < level; ++lower) combine(user, reduction.dtype, count, digits[lower], digits[level]);
    }
    size_t left = sources;
    Stretch& result = digits[static_cast<size_t>(std::countr_zero(left))];
    for (left &= left - 1; left != 0; left &= left - 1)
      combine(user, reduction.dtype, count, digits[static_cast<size_t>(std::countr_zero(left))], result);
    for (void* target : {operands.target, operands.second_target})
      if (target != nullptr) std::memcpy(static_cast<std::byte*>(target) + done, result.bytes, static_cast<size_t>(length));
  }
}

}  // namespace unisono
