// A stream of bytes between two threads: in order, none lost, in granules that are never torn, across the ring's end.
#include "transport/byte_ring.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <thread>

#include "tests/support/children.hpp"

namespace unisono {
namespace {

constexpr int64_t whole_ring = static_cast<int64_t>(ring_bytes);

std::byte byte_at(int64_t position) { return static_cast<std::byte>(position * 131 >> 3 ^ position); }

std::vector<std::byte> bytes_from(int64_t first, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (int64_t index = 0; index < count; ++index) bytes[static_cast<size_t>(index)] = byte_at(first + index);
  return bytes;
}

// Takes what is ready, at most `wanted`; returns how much, after checking every byte.
int64_t take(ByteRing& ring, int64_t position, int64_t wanted, int64_t granule) {
  std::byte bounce[16];
  const std::byte* data = nullptr;
  int64_t count = ring.ready(wanted, granule, bounce, data);
  for (int64_t index = 0; index < count; ++index) EXPECT_EQ(data[index], byte_at(position + index)) << "at " << position + index;
  ring.consume(count);
  return count;
}

TEST(ByteRing, is_empty_at_first_and_full_after_its_size) {
  auto ring = std::make_unique<ByteRing>();
  EXPECT_EQ(take(*ring, 0, 100, 1), 0);
  auto bytes = bytes_from(0, whole_ring + 10);
  EXPECT_EQ(ring->send(bytes.data(), whole_ring + 10), whole_ring);
  EXPECT_EQ(ring->send(bytes.data(), 1), 0);
  EXPECT_EQ(take(*ring, 0, 7, 1), 7);
  EXPECT_EQ(ring->send(bytes.data() + whole_ring, 10), 7);
}

TEST(ByteRing, sending_nothing_changes_nothing) {
  auto ring = std::make_unique<ByteRing>();
  std::byte byte{7};
  EXPECT_EQ(ring->send(&byte, 0), 0);
  EXPECT_EQ(take(*ring, 0, 1, 1), 0);
}

TEST(ByteRing, gives_only_whole_granules) {
  auto ring = std::make_unique<ByteRing>();
  auto bytes = bytes_from(0, 23);
  EXPECT_EQ(ring->send(bytes.data(), 3), 3);
  EXPECT_EQ(take(*ring, 0, 100, 4), 0);
  EXPECT_EQ(ring->send(bytes.data() + 3, 20), 20);
  EXPECT_EQ(take(*ring, 0, 100, 4), 20);
  EXPECT_EQ(take(*ring, 20, 100, 4), 0);
  EXPECT_EQ(take(*ring, 20, 100, 1), 3);
}

// A granule that lies across the end, at every place where the end can cut it.
TEST(ByteRing, puts_granules_across_the_end_together) {
  for (int64_t granule : {2, 4, 8, 16})
    for (int64_t before = 1; before < granule; ++before) {
      auto ring = std::make_unique<ByteRing>();
      const int64_t start = whole_ring - before;
      auto bytes = bytes_from(0, start + 3 * granule);
      ASSERT_EQ(ring->send(bytes.data(), start), start);
      ASSERT_EQ(take(*ring, 0, start, 1), start);
      ASSERT_EQ(ring->send(bytes.data() + start, 3 * granule), 3 * granule);
      EXPECT_EQ(take(*ring, start, 3 * granule, granule), granule) << "first the one across the end";
      EXPECT_EQ(take(*ring, start + granule, 2 * granule, granule), 2 * granule);
    }
}

TEST(ByteRing, does_not_count_a_granule_whose_second_half_has_not_come) {
  auto ring = std::make_unique<ByteRing>();
  const int64_t start = whole_ring - 8;
  auto bytes = bytes_from(0, start + 16);
  ASSERT_EQ(ring->send(bytes.data(), start + 12), start + 12 > whole_ring ? whole_ring : start + 12);
  ASSERT_EQ(take(*ring, 0, start, 1), start);
  ASSERT_EQ(ring->send(bytes.data() + whole_ring, 4), 4);
  EXPECT_EQ(take(*ring, start, 16, 16), 0);
  ASSERT_EQ(ring->send(bytes.data() + whole_ring + 4, 4), 4);
  EXPECT_EQ(take(*ring, start, 16, 16), 16);
}

void stream(int64_t total, int64_t granule, uint32_t seed) {
  auto ring = std::make_unique<ByteRing>();
  std::thread sender([&] {
    std::mt19937 random(seed);
    for (int64_t sent = 0; sent < total;) {
      const int64_t wanted = std::min<int64_t>(static_cast<int64_t>(random() % (seed % 2 ? 70'000 : 300)) + 1, total - sent);
      auto bytes = bytes_from(sent, wanted);
      for (int64_t done = 0; done < wanted;) done += ring->send(bytes.data() + done, wanted - done);
      sent += wanted;
    }
  });
  std::mt19937 random(seed + 1);
  for (int64_t received = 0; received < total;) {
    const int64_t wanted = std::min<int64_t>((static_cast<int64_t>(random() % 5000) + 1) * granule, total - received);
    const int64_t count = take(*ring, received, wanted, granule);
    ASSERT_EQ(count % granule, 0);
    received += count;
  }
  sender.join();
}

TEST(ByteRing, carries_odd_sizes_between_two_threads_in_order) {
  const int64_t total = (testing::small_run() ? 3 : 20) * whole_ring + 48;
  uint32_t seed = 1;
  for (int64_t granule : {1, 2, 4, 8, 16}) stream(total, granule, seed++);
}

}  // namespace
}  // namespace unisono
