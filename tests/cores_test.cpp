// How many cores may really be used: the affinity mask, and the quotas of both versions of cgroups.
#include "base/cores.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "tests/support/file_tree.hpp"

namespace unisono {
namespace {

using testing::FileTree;

int quota(const std::map<std::string, std::string>& files) { return quota_cores(FileTree(files).root()); }

TEST(Cores, without_a_quota_are_not_limited) {
  EXPECT_EQ(quota({}), 0);
  EXPECT_EQ(quota({{"proc/self/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/cpu.max", "max 100000\n"}}), 0);
  EXPECT_EQ(quota({{"proc/self/cgroup", "3:cpu,cpuacct:/a\n"},
                   {"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n"},
                   {"sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n"}}),
            0);
}

TEST(Cores, of_a_version_2_quota_are_rounded_up) {
  for (auto [text, cores] : {std::pair("200000 100000\n", 2), std::pair("150000 100000\n", 2), std::pair("100000 100000\n", 1),
                             std::pair("10000 100000\n", 1), std::pair("50000 25000\n", 2)})
    EXPECT_EQ(quota({{"proc/self/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/cpu.max", text}}), cores) << text;
}

TEST(Cores, of_a_version_1_quota_are_rounded_up) {
  for (const char* mount : {"sys/fs/cgroup/cpu/", "sys/fs/cgroup/"})
    EXPECT_EQ(quota({{"proc/self/cgroup", "7:memory:/b\n3:cpu,cpuacct:/a\n"},
                     {std::string(mount) + "a/cpu.cfs_quota_us", "250000\n"},
                     {std::string(mount) + "a/cpu.cfs_period_us", "100000\n"}}),
              3);
}

TEST(Cores, are_those_of_the_tightest_ancestor) {
  EXPECT_EQ(quota({{"proc/self/cgroup", "0::/a/b/c\n"},
                   {"sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n"},
                   {"sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
                   {"sys/fs/cgroup/a/cpu.max", "300000 100000\n"}}),
            3);
  EXPECT_EQ(quota({{"proc/self/cgroup", "0::/a/b\n"}, {"sys/fs/cgroup/cpu.max", "100000 100000\n"}}), 1) << "the root counts, too";
}

TEST(Cores, in_lines_that_say_nothing_sensible_limit_nothing) {
  EXPECT_EQ(quota({{"proc/self/cgroup", "no colons\n:\n3:cpu\n3:cpuset:/a\n3:cpu:relative/path\n"}, {"sys/fs/cgroup/a/cpu.max", "1 1\n"}}), 0);
  EXPECT_EQ(quota({{"proc/self/cgroup", "0::/a\n"}, {"sys/fs/cgroup/a/cpu.max", "many few\n"}}), 0);
}

TEST(Cores, of_the_mask_are_counted) {
  CoreMask mask;
  EXPECT_EQ(count(mask), 0);
  mask.words[0] = 0b1011;
  mask.words[15] = uint64_t{1} << 63;
  EXPECT_EQ(count(mask), 4);
}

TEST(Cores, of_this_process_follow_its_affinity) {
  const int all = count(affinity());
  EXPECT_GE(all, 1);
  std::thread([] {
    cpu_set_t before, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
    int first = 0;
    while (!CPU_ISSET(first, &before)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(count(affinity()), 1);
  }).join();
  EXPECT_EQ(count(affinity()), all);
}

}  // namespace
}  // namespace unisono
