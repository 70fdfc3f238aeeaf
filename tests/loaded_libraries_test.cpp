// That pmix_abi.hpp and munge_abi.hpp have what the headers of PMIx and munge have, where those are.
#include "rendezvous/pmix_abi.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "trust/munge_abi.hpp"

#ifdef UNISONO_PMIX_HEADER
#include <pmix.h>
#endif
#ifdef UNISONO_MUNGE_HEADER
#include <munge.h>
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
  static_assert(abi::lost_connection == PMIX_ERR_LOST_CONNECTION && abi::event_is_dealt_with == PMIX_EVENT_ACTION_COMPLETE);
  EXPECT_EQ(std::string(abi::job_size), PMIX_JOB_SIZE);
  EXPECT_EQ(std::string(abi::local_size), PMIX_LOCAL_SIZE);
  EXPECT_EQ(std::string(abi::local_rank), PMIX_LOCAL_RANK);
  EXPECT_EQ(std::string(abi::collect), PMIX_COLLECT_DATA);
}
#else
TEST(PmixAbi, is_that_of_the_headers) { GTEST_SKIP() << "pmix.h is not here (Debian: libpmix-dev)"; }
#endif

#ifdef UNISONO_MUNGE_HEADER
TEST(MungeAbi, is_that_of_the_header) {
  namespace abi = munge_abi;
  static_assert(abi::success == EMUNGE_SUCCESS && abi::replayed == EMUNGE_CRED_REPLAYED && abi::seconds_to_live == MUNGE_OPT_TTL && abi::only_for_user == MUNGE_OPT_UID_RESTRICTION && abi::cipher == MUNGE_OPT_CIPHER_TYPE && abi::aes_128 == MUNGE_CIPHER_AES128);
  static_assert(sizeof(munge_err_t) == sizeof(abi::Code) && sizeof(munge_opt_t) == sizeof(abi::Option));
  using Encode = munge_err_t (*)(char**, munge_ctx_t, const void*, int);
  using Decode = munge_err_t (*)(const char*, munge_ctx_t, void**, int*, uid_t*, gid_t*);
  static_assert(std::is_same_v<decltype(&munge_encode), Encode> && std::is_same_v<decltype(&munge_decode), Decode>);
}
#else
TEST(MungeAbi, is_that_of_the_header) { GTEST_SKIP() << "munge.h is not here (Debian: libmunge-dev)"; }
#endif

}  // namespace
}  // namespace unisono
