// Sizes as people write them, and as they are written for people.
#include "base/sizes.hpp"

#include <gtest/gtest.h>

namespace unisono {
namespace {

TEST(Sizes, are_read_in_every_way_people_write_them) {
  const std::pair<std::string, int64_t> good[] = {
      {"0", 0},          {"1", 1},           {"64K", 64_KiB},   {"64k", 64_KiB},   {"64KB", 64_KiB}, {"64KiB", 64_KiB},
      {"1.5K", 1536},    {"1M", 1_MiB},      {"1MiB", 1_MiB},   {"2G", 2_GiB},     {"1T", 1024_GiB}, {"100B", 100},
      {"0.25M", 256_KiB}, {"1e3", 1000},     {"4194303T", int64_t{4194303} << 40}};
  for (const auto& [text, bytes] : good) EXPECT_EQ(parse_size(text), bytes) << text;
}

TEST(Sizes, that_are_none_are_refused) {
  for (const char* text : {"", " ", "K", "abc", "-1", "-1K", "1Q", "1KK", "1Kx", "1 K", "1.3", "0.3K", "1e40", "4194304T", "nan", "inf", "0x10", "1kib "})
    EXPECT_FALSE(parse_size(text).has_value()) << text;
}

TEST(Sizes, are_written_exactly_and_read_back) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(100), "100");
  EXPECT_EQ(format_size(1023), "1023");
  EXPECT_EQ(format_size(1024), "1K");
  EXPECT_EQ(format_size(1536), "1536");
  EXPECT_EQ(format_size(64_KiB), "64K");
  EXPECT_EQ(format_size(3_MiB), "3M");
  EXPECT_EQ(format_size(1_GiB), "1G");
  EXPECT_EQ(format_size(2048_GiB), "2T");
  for (int64_t bytes : {int64_t{1}, int64_t{999}, 1_KiB + 1, 1_MiB - 1, 5_GiB, int64_t{1} << 50, (int64_t{1} << 61)})
    EXPECT_EQ(parse_size(format_size(bytes)), bytes);
}

TEST(Sizes, are_readable_for_people) {
  EXPECT_EQ(readable_size(0), "0 B");
  EXPECT_EQ(readable_size(1023), "1023 B");
  EXPECT_EQ(readable_size(1024), "1 KiB");
  EXPECT_EQ(readable_size(1536), "1.5 KiB");
  EXPECT_EQ(readable_size(1_MiB), "1 MiB");
  EXPECT_EQ(readable_size(1_MiB + 512_KiB), "1.5 MiB");
  EXPECT_EQ(readable_size(256_MiB), "256 MiB");
  EXPECT_EQ(readable_size(1_GiB), "1 GiB");
}

TEST(Sizes, are_rounded_up_to_multiples) {
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(1, 64), 64);
  EXPECT_EQ(round_up(64, 64), 64);
  EXPECT_EQ(round_up(65, 64), 128);
}

}  // namespace
}  // namespace unisono
