// Reading a peer's own memory is a courtesy of the kernel. Where it refuses, from the beginning or later, on one rank or on all, data
// goes by way of the arenas.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/sizes.hpp"
#include "group/group.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/refuse_system_call.hpp"

namespace unisono::testing {
namespace {

constexpr size_t long_count = (4 << 20) / sizeof(int32_t);  // a size at which two ranks read each other's memory

void refuse_reading(unsigned error) { ASSERT_EQ(refuse_system_call(SYS_process_vm_readv, error), 0); }

void expect_sum(const GroupHandle& group, int ranks) {
  std::vector<int32_t> data(long_count, 1);
  distributed::all_reduce(view(data), {.group = group});
  ASSERT_EQ(data, std::vector<int32_t>(long_count, ranks));
}

void expect_message(const GroupHandle& group, int me) {
  std::vector<int32_t> data(long_count, me == 0 ? 7 : 0);
  if (me == 0) distributed::send(view(data), 1, {.group = group});
  if (me == 1) distributed::recv(view(data), 0, {.group = group});
  EXPECT_EQ(data, std::vector<int32_t>(long_count, me < 2 ? 7 : 0));
}

bool reads(const TestWorld& world, int rank) { return world.world().may_read(rank); }

TEST(PeerReads, that_are_refused_on_one_rank_or_all_are_done_without) {
  for (unsigned error : {EPERM, ENOSYS})
    for (int refused : {0, 1, -1})
      for (int size : {2, 3}) {
        SCOPED_TRACE(fmt::format("errno {} on rank {} of {}", error, refused, size));
        WorldChoice choice{.size = size};
        expect_all_succeeded(Children(size, [&](int rank) {
          if (refused < 0 || refused == rank) refuse_reading(error);
          as_rank(rank, choice, [&](TestWorld& world) {
            EXPECT_EQ(reads(world, 1 - rank % 2), refused >= 0 && refused != rank);
            expect_sum(world.group(), size);
            expect_message(world.group(), rank);
          });
        }).wait());
      }
}

// Not dumpable: an ordinary user may not even be read by itself; root may.
TEST(PeerReads, of_ranks_that_are_not_dumpable_are_done_without) {
  WorldChoice choice{.size = 2};
  expect_all_succeeded(Children(2, [&](int rank) {
    if (geteuid() == 0) { ASSERT_EQ(setresuid(65534, 65534, 65534), 0); }
    ASSERT_EQ(prctl(PR_SET_DUMPABLE, rank == 0 ? 0 : 1), 0);
    as_rank(rank, choice, [&](TestWorld& world) {
      if (rank == 1) { EXPECT_FALSE(reads(world, 0)); }
      expect_sum(world.group(), 2);
      expect_message(world.group(), rank);
    });
  }).wait());
}

TEST(PeerReads, that_are_refused_later_break_a_group_once_and_groups_made_afterwards_work) {
  Outcomes outcomes(2);
  WorldChoice choice{.size = 2};
  expect_all_succeeded(Children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_sum(world.group(), 2);
      ASSERT_TRUE(reads(world, 1 - rank));
      GroupHandle before = distributed::new_group({0, 1}, {.name = "before"});
      if (rank == 1) refuse_reading(EPERM);
      outcomes.note(rank, [&] { expect_sum(before, 2); });
      GroupHandle after = distributed::new_group({0, 1}, {.name = "after"});
      expect_sum(after, 2);
      expect_message(after, rank);
    });
  }).wait());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::resource) << outcomes.of(rank).text();
    EXPECT_NE(outcomes.of(rank).text().find("groups made from now on do without"), std::string::npos) << outcomes.of(rank).text();
    EXPECT_LT(outcomes.of(rank).took_s(), 2.0);
  }
}

TEST(PeerReads, that_are_refused_later_do_not_hinder_long_messages) {
  WorldChoice choice{.size = 2};
  expect_all_succeeded(Children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_message(world.group(), rank);
      if (rank == 1) refuse_reading(EPERM);
      for (int times = 0; times < 3; ++times) expect_message(world.group(), rank);
    });
  }).wait());
}

}  // namespace
}  // namespace unisono::testing
