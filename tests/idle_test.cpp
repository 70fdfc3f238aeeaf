// What a group gives back when nobody has called for a while, and takes again when somebody does.
#include <gtest/gtest.h>

#include "tests/support/children.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/used.hpp"

namespace unisono::testing {
namespace {

constexpr uint16_t one = 0x3f80, two = 0x4000;  // as bfloat16

// Between hosts sums of 16-bit floats are made in private memory.
void add(int64_t count) {
  std::vector<uint16_t> data(static_cast<size_t>(count), one);
  distributed::all_reduce({data.data(), DType::bfloat16, Shape{count}});
  EXPECT_EQ(data, std::vector<uint16_t>(data.size(), two));
}

TEST(Idle, groups_give_back_what_partials_took) {
  if (under_sanitizer()) GTEST_SKIP() << "counts the heap";
  constexpr int64_t partials_take = 512 << 10, little = 64 << 10;
  for_each_world(ranks(2).with(Kind::processes).with([](Settings& settings) {
    settings.pretend_hosts = "1,1";
    settings.idle_s = 0.5;
  }),
                 [](TestWorld&) {
                   distributed::barrier();
                   const int64_t before = Used::now().heap_bytes;
                   for (int round = 0; round < 2; ++round) {
                     add(1 << 20);
                     EXPECT_GT(Used::now().heap_bytes, before + partials_take);
                     EXPECT_TRUE(await([&] { return Used::now().heap_bytes < before + little; })) << Used::now().heap_bytes - before;
                   }
                 });
}

}  // namespace
}  // namespace unisono::testing
