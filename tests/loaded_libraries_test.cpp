// That pmix_abi.hpp, munge_abi.hpp and ucx_abi.hpp have what the headers of PMIx, munge and UCX have, where those are.
#include "rendezvous/pmix_abi.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "transport/ucx_abi.hpp"
#include "trust/munge_abi.hpp"

#ifdef UNISONO_PMIX_HEADER
#include <pmix.h>
#endif
#ifdef UNISONO_MUNGE_HEADER
#include <munge.h>
#endif
#ifdef UNISONO_UCX_HEADER
#include <ucp/api/ucp.h>
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

#ifdef UNISONO_UCX_HEADER
TEST(UcxAbi, is_that_of_the_headers) {
  namespace abi = ucx_abi;
  static_assert(sizeof(ucs_status_t) == sizeof(abi::Code) && abi::success == UCS_OK && abi::in_progress == UCS_INPROGRESS && abi::unreachable == UCS_ERR_UNREACHABLE && abi::last_code == UCS_ERR_LAST);
  static_assert(abi::tags == UCP_FEATURE_TAG && abi::wake_up == UCP_FEATURE_WAKEUP && abi::serialized == UCS_THREAD_MODE_SERIALIZED);
  static_assert(offsetof(abi::Parameters, features) == offsetof(ucp_params_t, features) && offsetof(abi::Parameters, expected_endpoints) == offsetof(ucp_params_t, estimated_num_eps));
  static_assert(abi::Parameters::has_features == UCP_PARAM_FIELD_FEATURES && abi::Parameters::has_expected_endpoints == UCP_PARAM_FIELD_ESTIMATED_NUM_EPS);
  static_assert(offsetof(abi::WorkerParameters, threads) == offsetof(ucp_worker_params_t, thread_mode) && abi::WorkerParameters::has_threads == UCP_WORKER_PARAM_FIELD_THREAD_MODE);
  static_assert(offsetof(abi::WorkerParameters, cores) == offsetof(ucp_worker_params_t, cpu_mask) && offsetof(abi::WorkerParameters, events) == offsetof(ucp_worker_params_t, events));
  static_assert(offsetof(abi::EndpointParameters, address) == offsetof(ucp_ep_params_t, address) && offsetof(abi::EndpointParameters, error_mode) == offsetof(ucp_ep_params_t, err_mode));
  static_assert(offsetof(abi::EndpointParameters, failed) == offsetof(ucp_ep_params_t, err_handler.cb) && offsetof(abi::EndpointParameters, argument) == offsetof(ucp_ep_params_t, err_handler.arg));
  static_assert(abi::EndpointParameters::has_address == UCP_EP_PARAM_FIELD_REMOTE_ADDRESS && abi::EndpointParameters::has_error_mode == UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
  static_assert(abi::EndpointParameters::has_error_handler == UCP_EP_PARAM_FIELD_ERR_HANDLER && abi::EndpointParameters::tells_of_failures == UCP_ERR_HANDLING_MODE_PEER);
  static_assert(sizeof(abi::TagInfo) == sizeof(ucp_tag_recv_info_t) && offsetof(abi::TagInfo, bytes) == offsetof(ucp_tag_recv_info_t, length));
  static_assert(offsetof(abi::RequestParameters, flags) == offsetof(ucp_request_param_t, flags) && offsetof(abi::RequestParameters, sent) == offsetof(ucp_request_param_t, cb));
  static_assert(offsetof(abi::RequestParameters, user_data) == offsetof(ucp_request_param_t, user_data));
  static_assert(abi::RequestParameters::has_callback == UCP_OP_ATTR_FIELD_CALLBACK && abi::RequestParameters::has_user_data == UCP_OP_ATTR_FIELD_USER_DATA);
  static_assert(abi::RequestParameters::has_flags == UCP_OP_ATTR_FIELD_FLAGS && abi::RequestParameters::at_once == UCP_EP_CLOSE_FLAG_FORCE);
  static_assert(std::is_same_v<decltype(&ucp_tag_send_nbx), ucs_status_ptr_t (*)(ucp_ep_h, const void*, size_t, ucp_tag_t, const ucp_request_param_t*)>);
  static_assert(std::is_same_v<decltype(&ucp_tag_msg_recv_nbx), ucs_status_ptr_t (*)(ucp_worker_h, void*, size_t, ucp_tag_message_h, const ucp_request_param_t*)>);
  static_assert(std::is_same_v<decltype(&ucp_tag_probe_nb), ucp_tag_message_h (*)(ucp_worker_h, ucp_tag_t, ucp_tag_t, int, ucp_tag_recv_info_t*)>);
  static_assert(UCP_API_MAJOR == abi::major_version && UCP_API_MINOR >= abi::minor_version);
}
#else
TEST(UcxAbi, is_that_of_the_headers) { GTEST_SKIP() << "ucp/api/ucp.h is not here (Debian: libucx-dev)"; }
#endif

}  // namespace
}  // namespace unisono
