// What memory the system would still give, read from trees as the kernel shows them: both versions of cgroups, every
// ancestor, and none.
#include "transport/headroom.hpp"

#include <gtest/gtest.h>

#include "base/sizes.hpp"
#include "tests/support/file_tree.hpp"

namespace unisono {
namespace {

using testing::FileTree;

const std::string plenty = "MemTotal:       16384000 kB\nMemFree:         1024000 kB\nMemAvailable:    8192000 kB\nBuffers:  1 kB\n";
constexpr int64_t plenty_bytes = 8192000 * 1_KiB;

Headroom headroom(const FileTree& tree) { return memory_headroom(tree.root()); }

TEST(Headroom, is_what_the_system_has_available) {
  FileTree tree({{"proc/meminfo", plenty}});
  EXPECT_EQ(headroom(tree).bytes, plenty_bytes);
  EXPECT_EQ(headroom(tree).limited_by, "MemAvailable");
}

TEST(Headroom, is_unlimited_where_nothing_can_be_read) { EXPECT_EQ(headroom(FileTree({})).bytes, INT64_MAX); }

TEST(Headroom, of_a_version_2_group_is_its_limit_less_its_use) {
  FileTree tree({{"proc/meminfo", plenty},
                 {"proc/self/cgroup", "0::/user.slice/job\n"},
                 {"sys/fs/cgroup/user.slice/job/memory.max", "1073741824\n"},
                 {"sys/fs/cgroup/user.slice/job/memory.current", "73741824\n"}});
  EXPECT_EQ(headroom(tree).bytes, 1'000'000'000);
  EXPECT_NE(headroom(tree).limited_by.find("user.slice/job/memory.max"), std::string::npos) << headroom(tree).limited_by;
}

TEST(Headroom, of_a_version_2_group_without_a_limit_is_its_parents) {
  FileTree tree({{"proc/meminfo", plenty},
                 {"proc/self/cgroup", "0::/a/b/c\n"},
                 {"sys/fs/cgroup/a/b/c/memory.max", "max\n"},
                 {"sys/fs/cgroup/a/b/c/memory.current", "1000\n"},
                 {"sys/fs/cgroup/a/memory.max", "5000\n"},
                 {"sys/fs/cgroup/a/memory.current", "2000\n"}});
  EXPECT_EQ(headroom(tree).bytes, 3000);
  EXPECT_NE(headroom(tree).limited_by.find("/a/memory.max"), std::string::npos) << headroom(tree).limited_by;
}

TEST(Headroom, is_the_tightest_of_all_ancestors) {
  FileTree tree({{"proc/meminfo", plenty},
                 {"proc/self/cgroup", "0::/a/b\n"},
                 {"sys/fs/cgroup/a/b/memory.max", "900000\n"},
                 {"sys/fs/cgroup/a/b/memory.current", "100000\n"},
                 {"sys/fs/cgroup/a/memory.max", "1000000\n"},
                 {"sys/fs/cgroup/a/memory.current", "990000\n"},
                 {"sys/fs/cgroup/memory.max", "2000000\n"},
                 {"sys/fs/cgroup/memory.current", "1000000\n"}});
  EXPECT_EQ(headroom(tree).bytes, 10'000);
}

// Inside a container the group is named as the host sees it, and only the mount's root can be found.
TEST(Headroom, looks_at_the_root_of_the_mount_too) {
  FileTree tree({{"proc/meminfo", plenty},
                 {"proc/self/cgroup", "0::/docker/0123456789\n"},
                 {"sys/fs/cgroup/memory.max", "700000\n"},
                 {"sys/fs/cgroup/memory.current", "100000\n"}});
  EXPECT_EQ(headroom(tree).bytes, 600'000);
}

TEST(Headroom, of_a_version_1_group_is_its_limit_less_its_use) {
  FileTree tree({{"proc/meminfo", plenty},
                 {"proc/self/cgroup", "9:name=systemd:/\n5:cpu,cpuacct:/other\n4:memory:/process/job\n0::/\n"},
                 {"sys/fs/cgroup/memory/process/job/memory.limit_in_bytes", "1000000\n"},
                 {"sys/fs/cgroup/memory/process/job/memory.usage_in_bytes", "400000\n"},
                 {"sys/fs/cgroup/memory/process/memory.limit_in_bytes", "9223372036854771712\n"},
                 {"sys/fs/cgroup/memory/process/memory.usage_in_bytes", "999\n"}});
  EXPECT_EQ(headroom(tree).bytes, 600'000);
  EXPECT_NE(headroom(tree).limited_by.find("process/job/memory.limit_in_bytes"), std::string::npos) << headroom(tree).limited_by;
}

TEST(Headroom, pages_of_files_that_the_kernel_can_take_back_do_not_count_as_used) {
  const FileTree second({{"proc/self/cgroup", "0::/job\n"},
                         {"sys/fs/cgroup/job/memory.max", "67108864\n"},
                         {"sys/fs/cgroup/job/memory.current", "66060288\n"},
                         {"sys/fs/cgroup/job/memory.stat", "anon 1000\nfile 60000000\ninactive_file 30000000\nactive_file 20000000\n"}});
  EXPECT_EQ(headroom(second).bytes, 67108864 - (66060288 - 50000000));
  const FileTree first({{"proc/self/cgroup", "4:memory:/job\n"},
                        {"sys/fs/cgroup/memory/job/memory.limit_in_bytes", "67108864\n"},
                        {"sys/fs/cgroup/memory/job/memory.usage_in_bytes", "66060288\n"},
                        {"sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\nactive_file 1\ntotal_inactive_file 40000000\ntotal_active_file 8\n"}});
  EXPECT_EQ(headroom(first).bytes, 67108864 - (66060288 - 40000008));
}

TEST(Headroom, of_a_version_1_ancestor_counts) {
  FileTree tree({{"proc/self/cgroup", "4:memory,hugetlb:/a/b/c\n"},
                 {"sys/fs/cgroup/memory/a/b/c/memory.limit_in_bytes", "1000000\n"},
                 {"sys/fs/cgroup/memory/a/b/c/memory.usage_in_bytes", "400000\n"},
                 {"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000\n"},
                 {"sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1999000\n"}});
  EXPECT_EQ(headroom(tree).bytes, 1000);
}

TEST(Headroom, with_both_versions_at_once_is_the_tighter) {
  FileTree tree({{"proc/self/cgroup", "4:memory:/one\n0::/two\n"},
                 {"sys/fs/cgroup/memory/one/memory.limit_in_bytes", "3000\n"},
                 {"sys/fs/cgroup/memory/one/memory.usage_in_bytes", "1000\n"},
                 {"sys/fs/cgroup/unified/two/memory.max", "1500\n"},
                 {"sys/fs/cgroup/unified/two/memory.current", "100\n"}});
  EXPECT_EQ(headroom(tree).bytes, 1400);
}

TEST(Headroom, is_never_negative) {
  FileTree tree({{"proc/self/cgroup", "0::/full\n"}, {"sys/fs/cgroup/full/memory.max", "1000\n"}, {"sys/fs/cgroup/full/memory.current", "5000\n"}});
  EXPECT_EQ(headroom(tree).bytes, 0);
}

TEST(Headroom, files_that_say_nothing_sensible_limit_nothing) {
  FileTree tree({{"proc/meminfo", "nonsense\n\nMemAvailable: lots kB\n"},
                 {"proc/self/cgroup", "no colons\n1:memory\n:\n4:memory:relative/path\n0::/a\n"},
                 {"sys/fs/cgroup/a/memory.max", "many\n"},
                 {"sys/fs/cgroup/a/memory.current", "\n"}});
  EXPECT_EQ(headroom(tree).bytes, INT64_MAX);
}

TEST(Headroom, of_this_machine_lets_a_page_through_and_names_what_stops_a_petabyte) {
  EXPECT_TRUE(require_headroom(4096, "a page").ok());
  Status status = require_headroom(int64_t{1} << 50, "a petabyte");
  EXPECT_EQ(status.code(), ErrorCode::memory);
  for (const char* word : {"a petabyte needs 1024 TiB", "may still be taken", "limited by", "raise the limit"})
    EXPECT_NE(status.text().find(word), std::string::npos) << status.text();
}

}  // namespace
}  // namespace unisono
