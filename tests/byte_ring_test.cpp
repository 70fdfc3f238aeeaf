// A stream of bytes between two threads: in order, none lost, across the ring's end.
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

int64_t send(ByteRing& ring, std::span<const std::byte> data) {
  data = data.first(std::min(data.size(), static_cast<size_t>(ring.room())));
  ring.write(0, data);
  ring.publish(static_cast<int64_t>(data.size()));
  return static_cast<int64_t>(data.size());
}

// Takes what is there, at most `wanted`; returns how much, after checking every byte.
int64_t take(ByteRing& ring, int64_t position, int64_t wanted) {
  std::vector<std::byte> taken(static_cast<size_t>(std::min(ring.filled(), wanted)));
  ring.take(taken);
  EXPECT_EQ(taken, bytes_from(position, static_cast<int64_t>(taken.size()))) << "at " << position;
  return static_cast<int64_t>(taken.size());
}

TEST(ByteRing, is_empty_at_first_and_full_after_its_size) {
  auto ring = std::make_unique<ByteRing>();
  EXPECT_EQ(take(*ring, 0, 100), 0);
  auto bytes = bytes_from(0, whole_ring + 10);
  EXPECT_EQ(send(*ring, bytes), whole_ring);
  EXPECT_EQ(send(*ring, bytes), 0);
  EXPECT_EQ(take(*ring, 0, 7), 7);
  EXPECT_EQ(send(*ring, std::span(bytes).subspan(static_cast<size_t>(whole_ring))), 7);
}

TEST(ByteRing, sending_nothing_changes_nothing) {
  auto ring = std::make_unique<ByteRing>();
  EXPECT_EQ(send(*ring, {}), 0);
  EXPECT_EQ(take(*ring, 0, 1), 0);
}

// Two parts that are written one behind the other and published together, at every place where the ring's end can cut them.
TEST(ByteRing, shows_nothing_of_what_is_written_before_it_is_published) {
  constexpr int64_t head = 16, body = 40;
  for (int64_t before = 0; before <= head + body; ++before) {
    auto ring = std::make_unique<ByteRing>();
    const int64_t start = whole_ring - before;
    auto bytes = bytes_from(0, start + head + body);
    const std::span<const std::byte> all(bytes);
    ASSERT_EQ(send(*ring, all.first(static_cast<size_t>(start))), start);
    ASSERT_EQ(take(*ring, 0, start), start);
    ring->write(0, all.subspan(static_cast<size_t>(start), head));
    ring->write(head, all.subspan(static_cast<size_t>(start + head), body));
    ASSERT_EQ(take(*ring, start, head + body), 0);
    ring->publish(head + body);
    ASSERT_EQ(take(*ring, start, 3), 3);
    ASSERT_EQ(take(*ring, start + 3, head + body), head + body - 3);
  }
}

TEST(ByteRing, tells_of_counts_that_cannot_be) {
  auto ring = std::make_unique<ByteRing>();
  ring->head = ring_bytes + 1;
  EXPECT_EQ(ring->filled(), ByteRing::broken);
  EXPECT_EQ(ring->room(), ByteRing::broken);
  ring->tail = 1;
  EXPECT_EQ(ring->filled(), whole_ring);
  EXPECT_EQ(ring->room(), 0);
}

void stream(int64_t total, uint32_t seed) {
  auto ring = std::make_unique<ByteRing>();
  std::thread sender([&] {
    std::mt19937 random(seed);
    for (int64_t sent = 0; sent < total;) {
      const int64_t wanted = std::min<int64_t>(static_cast<int64_t>(random() % (seed % 2 ? 70'000 : 300)) + 1, total - sent);
      auto bytes = bytes_from(sent, wanted);
      for (int64_t done = 0; done < wanted;) done += send(*ring, std::span(bytes).subspan(static_cast<size_t>(done)));
      sent += wanted;
    }
  });
  std::mt19937 random(seed + 1);
  for (int64_t received = 0; received < total;) received += take(*ring, received, static_cast<int64_t>(random() % 5000) + 1);
  sender.join();
}

TEST(ByteRing, carries_odd_sizes_between_two_threads_in_order) {
  const int64_t total = (testing::small_run() ? 3 : 20) * whole_ring + 48;
  for (uint32_t seed = 1; seed <= 4; ++seed) stream(total, seed);
}

}  // namespace
}  // namespace unisono
