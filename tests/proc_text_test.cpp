// Files that cannot be read to their end, as those of /proc whose process ends meanwhile, are no exception.
#include "base/proc_text.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace unisono {
namespace {

TEST(ProcText, is_what_stands_there) { EXPECT_TRUE(proc_text("/proc/self/stat").starts_with(std::to_string(getpid()) + " (")); }

TEST(ProcText, is_empty_where_there_is_nothing) { EXPECT_EQ(proc_text("/proc/self/nothing"), ""); }

TEST(ProcText, is_empty_where_reading_fails) { EXPECT_EQ(proc_text("/proc/self"), "") << "a directory can be opened and not be read"; }

}  // namespace
}  // namespace unisono
