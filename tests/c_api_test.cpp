// The C header: the program of tests/c_api, which is C99, as ranks; and what is easier to ask from C++.
#include <gtest/gtest.h>
#include <unistd.h>

#include <new>
#include <regex>
#include <thread>

#include "dialects/c_parts.hpp"
#include "tests/support/children.hpp"
#include "tests/support/file_tree.hpp"
#include "tests/support/scale.hpp"
#include "unisono/unisono.h"

namespace unisono::testing {
namespace {

#ifdef UNISONO_C_PROGRAM
// Started as by hand, so that the command need not be built for this under the sanitizers.
void become_the_program(int rank, int size, const std::string& job, const std::string& meeting) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "1", 1);  // nobody opens it
  setenv("UNISONO_JOB", job.c_str(), 1);
  execl(UNISONO_C_PROGRAM, UNISONO_C_PROGRAM, meeting.c_str(), nullptr);
  FAIL() << "cannot start " << UNISONO_C_PROGRAM;
}

TEST(TheCHeader, does_what_it_says_from_c_on_every_number_of_ranks) {
  const std::vector<int> sizes = scale() == Scale::small ? std::vector{1, 3} : std::vector{1, 2, 3, 4};
  const FileTree tree({});
  for (int size : sizes) {
    const std::string job = unique_job();
    Children children(size, [&](int rank) { become_the_program(rank, size, job, "file://" + tree.root() + "meeting"); });
    for (const Ending& ending : children.wait()) {
      EXPECT_TRUE(ending.succeeded()) << ending.output;
      EXPECT_EQ(ending.output.find("does not hold"), std::string::npos) << ending.output;
      std::smatch numbers;
      ASSERT_TRUE(std::regex_search(ending.output, numbers, std::regex(R"((\d+) of (\d+) checks held)"))) << ending.output;
      EXPECT_EQ(numbers[1], numbers[2]);
      EXPECT_GT(std::stoi(numbers[1].str()), 1000) << "it has lost most of its checks";
    }
  }
}
#else
TEST(TheCHeader, does_what_it_says_from_c_on_every_number_of_ranks) {
  GTEST_SKIP() << "there was no C compiler when the tests were configured";
}
#endif

TEST(TheCHeader, has_a_number_for_every_error_dtype_and_op) {
  int codes = 0;
  while (std::string_view(unisono_error_name(codes)) != "no such error") {
    EXPECT_EQ(unisono_error_name(codes), error_name(static_cast<ErrorCode>(codes)));
    ++codes;
  }
  EXPECT_EQ(codes, static_cast<int>(ErrorCode::internal) + 1);
  for (DType dtype : all_dtypes())
    EXPECT_EQ(unisono_dtype_bytes(static_cast<int>(dtype)), element_bytes(dtype)) << name_of(dtype);
  EXPECT_EQ(UNISONO_FLOAT8_E8M0FNU + 1, static_cast<int>(all_dtypes().size())) << "a dtype has no name in unisono.h";
  constexpr int made = 2;  // premul_sum and user have no number of their own
  EXPECT_EQ(UNISONO_BXOR + 1 + made, static_cast<int>(all_reduce_kinds().size())) << "an op has no name in unisono.h";
}

TEST(TheCHeader, lets_nothing_that_is_thrown_out) {
  EXPECT_EQ(c::guarded([] { throw std::bad_alloc(); }), UNISONO_MEMORY_ERROR);
  EXPECT_STREQ(unisono_last_error(), "MemoryError: memory ran out");
  EXPECT_EQ(c::guarded([] { throw std::runtime_error("odd"); }), UNISONO_INTERNAL_ERROR);
  EXPECT_STREQ(unisono_last_error(), "InternalError: odd");
  EXPECT_EQ(c::guarded([] { throw 3; }), UNISONO_INTERNAL_ERROR);
  EXPECT_STREQ(unisono_last_error(), "InternalError: something unknown was thrown");
  EXPECT_EQ(c::guarded([] { throw_if_error(Status(ErrorCode::peer_lost, "rank 3 died", 3)); }), UNISONO_PEER_LOST_ERROR);
  EXPECT_STREQ(unisono_last_error(), "PeerLostError: rank 3 died");
}

TEST(TheCHeader, has_a_last_error_for_every_thread) {
  EXPECT_EQ(unisono_op_free(UNISONO_SUM), UNISONO_ARGUMENT_ERROR);
  std::thread([] {
    EXPECT_STREQ(unisono_last_error(), "");
    EXPECT_EQ(unisono_work_wait(nullptr, 0), UNISONO_ARGUMENT_ERROR);
    EXPECT_STREQ(unisono_last_error(), "ArgumentError: work is a null pointer");
  }).join();
  EXPECT_STREQ(unisono_last_error(), "ArgumentError: op is number 0, which was not made, or freed already");
}

}  // namespace
}  // namespace unisono::testing
