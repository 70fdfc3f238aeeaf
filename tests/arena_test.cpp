// Taking and giving back parts of an arena: zeroed, aligned, never overlapping, joined together again, and full with numbers.
#include "transport/arena.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "base/sizes.hpp"
#include "tests/support/children.hpp"
#include "transport/headroom.hpp"

namespace {

std::atomic<int64_t> most_asked_of_the_kernel = 0, too_much = INT64_MAX;

}  // namespace

// What the library asks the kernel for, seen on the way. Too much is never asked for in earnest: the kernel would begin to
// give it, and end by killing.
extern "C" int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  const bool takes = mode == 0;  // otherwise memory is given back
  if (takes && bytes > most_asked_of_the_kernel) most_asked_of_the_kernel = bytes;
  if (!takes || bytes < too_much) return static_cast<int>(syscall(SYS_fallocate, descriptor, mode, offset, bytes));
  errno = ENOSPC;
  return -1;
}

namespace unisono {
namespace {

constexpr int64_t page = 4096;

std::unique_ptr<Arena> arena_of(int64_t bytes) {
  auto arena = Arena::create(bytes);
  EXPECT_TRUE(arena.ok()) << arena.status().text();
  return std::move(*arena);
}

int64_t take(Arena& arena, int64_t bytes) {
  auto offset = arena.take(bytes, "a test");
  EXPECT_TRUE(offset.ok()) << offset.status().text();
  return offset.ok() ? *offset : -1;
}

bool is_zero(const Arena& arena, int64_t offset, int64_t bytes) {
  const std::byte* first = arena.mapping()->data() + offset;
  return std::all_of(first, first + bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

void scribble(const Arena& arena, int64_t offset, int64_t bytes) {
  std::memset(arena.mapping()->data() + offset, 0xee, static_cast<size_t>(bytes));
}

TEST(Arena, parts_are_zeroed_aligned_to_pages_and_apart) {
  auto arena = arena_of(1_MiB);
  int64_t one = take(*arena, 1), two = take(*arena, page), three = take(*arena, page + 1);
  EXPECT_EQ(one % page, 0);
  EXPECT_EQ(two - one, page);
  EXPECT_EQ(three - two, page);
  EXPECT_EQ(arena->taken_bytes(), 4 * page);
  for (int64_t offset : {one, two, three}) {
    EXPECT_TRUE(is_zero(*arena, offset, page));
    scribble(*arena, offset, page);
  }
}

TEST(Arena, a_size_that_is_no_multiple_of_a_page_is_rounded_up) { EXPECT_EQ(arena_of(page + 1)->mapping()->bytes(), 2 * page); }

TEST(Arena, a_part_given_back_is_zero_when_it_is_taken_again) {
  auto arena = arena_of(64 * page);
  int64_t offset = take(*arena, 3 * page);
  scribble(*arena, offset, 3 * page);
  arena->give_back(offset);
  EXPECT_EQ(arena->taken_bytes(), 0);
  EXPECT_EQ(take(*arena, 3 * page), offset);
  EXPECT_TRUE(is_zero(*arena, offset, 3 * page));
}

TEST(Arena, parts_given_back_in_any_order_become_one_again) {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    auto arena = arena_of(16 * page);
    int64_t parts[4];
    for (int64_t& part : parts) part = take(*arena, 4 * page);
    EXPECT_FALSE(arena->take(page, "one more").ok());
    for (int index : order) arena->give_back(parts[index]);
    EXPECT_EQ(take(*arena, 16 * page), 0) << order[0] << order[1] << order[2] << order[3];
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Arena, a_full_one_says_what_was_wanted_and_what_there_is) {
  auto arena = arena_of(1_MiB);
  take(*arena, 256_KiB);
  auto more = arena->take(2_MiB, "a group's tiles");
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.status().code(), ErrorCode::memory);
  for (const char* word : {"a group's tiles", "2 MiB", "1 MiB", "256 KiB are taken", "UNISONO_ARENA"})
    EXPECT_NE(more.status().text().find(word), std::string::npos) << more.status().text();
  EXPECT_EQ(arena->taken_bytes(), 256_KiB) << "what could not be had is not taken";
  take(*arena, 768_KiB);
}

TEST(Arena, holes_that_are_too_small_are_passed_over) {
  auto arena = arena_of(8 * page);
  int64_t parts[8];
  for (int64_t& part : parts) part = take(*arena, page);
  for (int index : {1, 3, 5, 6}) arena->give_back(parts[index]);
  EXPECT_EQ(take(*arena, 2 * page), parts[5]);
  EXPECT_FALSE(arena->take(2 * page, "a test").ok());
  EXPECT_EQ(take(*arena, page), parts[1]);
}

TEST(Arena, dropped_pages_keep_their_place_and_come_back_zeroed) {
  auto arena = arena_of(64 * page);
  int64_t before = take(*arena, page), offset = take(*arena, 2 * page), after = take(*arena, page);
  for (int64_t part : {before, offset, after}) scribble(*arena, part, page);
  arena->drop_pages(offset);
  EXPECT_EQ(arena->taken_bytes(), 4 * page);
  ASSERT_TRUE(arena->refill(offset, "a test").ok());
  EXPECT_TRUE(is_zero(*arena, offset, 2 * page));
  EXPECT_FALSE(is_zero(*arena, before, page));
  EXPECT_FALSE(is_zero(*arena, after, page));
}

TEST(Arena, is_sealed_so_that_nobody_can_shrink_grow_or_unseal_it) {
  auto arena = arena_of(1_MiB);
  EXPECT_EQ(ftruncate(arena->descriptor(), page), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(arena->descriptor(), 2_MiB), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(fcntl(arena->descriptor(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_EQ(fcntl(arena->descriptor(), F_GET_SEALS) & seals, seals);
}

TEST(Arena, is_mapped_once_however_often_it_is_asked_for) {
  auto arena = arena_of(1_MiB);
  auto again = Mapping::of(arena->descriptor());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, arena->mapping());
  auto other = arena_of(1_MiB);
  EXPECT_NE(other->mapping()->data(), arena->mapping()->data());
}

TEST(Arena, only_what_is_taken_costs_memory) {
  auto arena = arena_of(64_GiB);
  struct stat file = {};
  take(*arena, 1_MiB);
  ASSERT_EQ(fstat(arena->descriptor(), &file), 0);
  EXPECT_EQ(file.st_blocks * 512, 1_MiB);
}

// Under a memory limit the kernel kills whoever takes too much, so it must not even be asked.
TEST(Arena, more_than_the_system_can_give_is_refused_before_it_is_taken) {
  const int64_t there = memory_headroom().bytes;
  if (there > 16 * 1024_GiB) GTEST_SKIP() << "the system does not say what it has";
  too_much = round_up(2 * there, page);
  auto arena = arena_of(too_much + page);
  most_asked_of_the_kernel = 0;
  auto offset = arena->take(too_much, "a test");
  ASSERT_FALSE(offset.ok());
  EXPECT_EQ(offset.status().code(), ErrorCode::memory);
  for (const char* word : {"a test needs ", "may still be taken", "limited by"})
    EXPECT_NE(offset.status().text().find(word), std::string::npos) << offset.status().text();
  EXPECT_EQ(most_asked_of_the_kernel, 0) << "fallocate was called to take it";
  EXPECT_EQ(arena->taken_bytes(), 0) << "what could not be had is not taken";
  EXPECT_EQ(take(*arena, page), 0);
  EXPECT_EQ(most_asked_of_the_kernel, page) << "fallocate is not seen by this test";
}

TEST(Arena, what_others_are_about_to_take_is_not_there_for_this_one) {
  const int64_t there = memory_headroom().bytes;
  if (there > 16 * 1024_GiB) GTEST_SKIP() << "the system does not say what it has";
  auto arena = arena_of(1_MiB);
  std::atomic<int64_t> mine = 0, other = there - 20_MiB, third = 15_MiB;
  arena->take_beside({&mine, &other, &third});
  EXPECT_EQ(arena->take(page, "a test").status().code(), ErrorCode::memory);
  EXPECT_EQ(mine, 0);
  other = third = 0;
  EXPECT_TRUE(arena->take(page, "a test").ok());
  EXPECT_EQ(mine, 0);
}

TEST(Arena, a_forked_child_has_not_got_it) {
  if (testing::under_thread_sanitizer()) GTEST_SKIP() << "forks";
  auto arena = arena_of(1_MiB);
  take(*arena, page);
  testing::expect_all_succeeded(testing::Children(1, [&](int) {
    unsigned char resident = 0;
    EXPECT_EQ(mincore(arena->mapping()->data(), page, &resident), -1);
    EXPECT_EQ(errno, ENOMEM);
  }).wait());
}

// Against a model: parts never overlap, and when all are given back everything can be taken at once.
TEST(Arena, any_sequence_of_taking_and_giving_back_keeps_parts_apart) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    auto arena = arena_of(256 * page);
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (int step = 0; step < 300; ++step) {
      if (parts.empty() || random() % 2 == 0) {
        int64_t bytes = static_cast<int64_t>(random() % 16 + 1) * page;
        auto offset = arena->take(bytes, "a test");
        if (!offset.ok()) continue;
        for (auto [other, length] : parts) ASSERT_TRUE(*offset + bytes <= other || other + length <= *offset);
        ASSERT_LE(*offset + bytes, 256 * page);
        parts.emplace_back(*offset, bytes);
      } else {
        std::swap(parts[random() % parts.size()], parts.back());
        arena->give_back(parts.back().first);
        parts.pop_back();
      }
    }
    for (auto [offset, bytes] : parts) arena->give_back(offset);
    EXPECT_EQ(take(*arena, 256 * page), 0);
  }
}

TEST(Arena, threads_may_take_and_give_back_at_once) {
  auto arena = arena_of(4_MiB);
  std::vector<std::thread> threads;
  for (int index = 0; index < 4; ++index)
    threads.emplace_back([&arena, index] {
      for (int round = 0; round < 100; ++round) {
        int64_t offset = take(*arena, (index + 1) * page);
        ASSERT_TRUE(is_zero(*arena, offset, (index + 1) * page));
        scribble(*arena, offset, (index + 1) * page);
        arena->give_back(offset);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(take(*arena, 4_MiB), 0);
}

}  // namespace
}  // namespace unisono
