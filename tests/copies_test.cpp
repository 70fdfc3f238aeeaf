// Copies past the caches: the same bytes as any other copy, wherever they begin and end, and no byte beside them.
#include "kernels/copies.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace unisono {
namespace {

TEST(CopiesPastCaches, are_copies_wherever_they_begin_and_end) {
  constexpr size_t room = 700, beside = 64;
  constexpr std::byte untouched{0xee};
  std::minstd_rand random(1);
  std::vector<std::byte> source(room + 2 * beside);
  for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  for (size_t from = 0; from < beside; from += 5)
    for (size_t to = 0; to < beside; ++to)
      for (size_t bytes : {0, 1, 15, 16, 63, 64, 65, 128, 200, 640}) {
        std::vector<std::byte> target(room + 2 * beside, untouched), expected = target;
        std::copy_n(source.begin() + static_cast<ptrdiff_t>(from), bytes, expected.begin() + static_cast<ptrdiff_t>(to));
        copy_past_caches(target.data() + to, source.data() + from, static_cast<int64_t>(bytes));
        ASSERT_EQ(target, expected) << bytes << " bytes from " << from << " to " << to;
      }
}

}  // namespace
}  // namespace unisono
