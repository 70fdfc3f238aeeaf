// That pmix_abi.hpp has what PMIx's headers have, where those are; and what becomes of a program that finds no PMIx.
#include "rendezvous/pmix_abi.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#ifdef UNISONO_PMIX_HEADER
#include <pmix.h>
#endif

namespace unisono {
namespace {

#ifdef UNISONO_PMIX_HEADER
TEST(PmixAbi, is_that_of_the_headers) {
  namespace abi = pmix_abi;
  static_assert(sizeof(abi::Process) == sizeof(pmix_proc_t) && offsetof(abi::Process, rank) == offsetof(pmix_proc_t, rank));
  static_assert(sizeof(abi::Value) == sizeof(pmix_value_t) && offsetof(abi::Value, text) == offsetof(pmix_value_t, data));
  static_assert(sizeof(abi::Info) == sizeof(pmix_info_t) && offsetof(abi::Info, flags) == offsetof(pmix_info_t, flags) && offsetof(abi::Info, value) == offsetof(pmix_info_t, value));
  static_assert(abi::boolean == PMIX_BOOL && abi::string == PMIX_STRING && abi::integer == PMIX_INT && abi::unsigned_16 == PMIX_UINT16 && abi::unsigned_32 == PMIX_UINT32);
  static_assert(abi::success == PMIX_SUCCESS && abi::everybody == PMIX_RANK_WILDCARD && abi::to_all == PMIX_GLOBAL);
  EXPECT_EQ(std::string(abi::job_size), PMIX_JOB_SIZE);
  EXPECT_EQ(std::string(abi::local_size), PMIX_LOCAL_SIZE);
  EXPECT_EQ(std::string(abi::local_rank), PMIX_LOCAL_RANK);
  EXPECT_EQ(std::string(abi::collect), PMIX_COLLECT_DATA);
}
#else
TEST(PmixAbi, is_that_of_the_headers) { GTEST_SKIP() << "pmix.h is not here (Debian: libpmix-dev)"; }
#endif

}  // namespace
}  // namespace unisono
