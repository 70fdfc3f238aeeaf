// See served_meeting.hpp.
#include "rendezvous/served_meeting.hpp"

#include <algorithm>
#include <system_error>
#include <thread>

#include "base/all_signals_blocked.hpp"
#include "base/interrupt.hpp"
#include "rendezvous/roster.hpp"

namespace unisono {
namespace {

using distributed::StoreAnswer;
using distributed::StoreRequest;
using distributed::TCPStore;
using Kind = StoreRequest::Kind;

// Asks the store that is there already to end, if it is that of an attempt of this job that failed. True: it has.
bool end_failed_meeting(TcpStoreRequest request, const std::string& prefix) {
  constexpr double reach_s = 0.5, end_s = 2;
  request.options.is_master = false;
  request.options.timeout_s = reach_s;
  auto old = make_tcp_store(request);
  if (!old.ok()) return false;
  auto found = (*old)->perform({{.kind = Kind::check, .key = meeting_key(prefix, "gave_up", 0)}, {.kind = Kind::check, .key = meeting_key(prefix, "complete", 0)}});
  if (!found.ok() || !found->front().found || found->back().found) return false;
  if (!(*old)->perform({{.kind = Kind::set, .key = meeting_key(prefix, "next", 0), .value = "yes"}}).ok()) return true;  // it has ended by itself
  return (*old)->await_values({meeting_key(prefix, "the end", 0)}, end_s).status().code() == ErrorCode::store_lost;
}

// True once there is nobody left to tell.
bool is_told_to_all(TCPStore& served, const FailedMeeting& failed) {
  constexpr double look_again_s = 0.2;
  const Status next = served.await_values({meeting_key(failed.prefix, "next", 0)}, look_again_s).status();
  if (next.code() != ErrorCode::timeout) return true;
  std::vector<StoreRequest> requests;
  for (int rank = 0; rank < failed.size; ++rank) requests.push_back({.kind = Kind::check, .key = meeting_key(failed.prefix, "heard", rank)});
  auto heard = served.perform(requests);
  return !heard.ok() || std::ranges::all_of(*heard, &StoreAnswer::found);
}

}  // namespace

Result<std::shared_ptr<TCPStore>> serve_meeting(const TcpStoreRequest& request, const std::string& prefix) {
  auto store = make_tcp_store(request);
  if (store.status().code() != ErrorCode::init || !end_failed_meeting(request, prefix)) return store;
  return make_tcp_store(request);
}

// Where the world was complete before it failed, whoever comes is to hear nothing of this: its members have.
void tell_latecomers(std::shared_ptr<TCPStore> served, FailedMeeting failed) {
  constexpr double patience_s = 1;
  note_in(*served, meeting_key(failed.prefix, "gave_up", 0), text_of_reason(failed.why));  // unless it stands there
  note_in(*served, meeting_key(failed.prefix, "heard", 0), "yes");
  await_left(*served, earlier(Deadline::in_seconds(patience_s), failed.deadline.later_by(joining_overtime_s)));
  auto complete = served->perform({{.kind = Kind::check, .key = meeting_key(failed.prefix, "complete", 0)}});
  if (!complete.ok() || complete->front().found || failed.deadline.passed()) return;
  try {
    const AllSignalsBlocked blocked;
    std::thread([served = std::move(served), failed = std::move(failed)]() mutable {
      never_interrupt_this_thread();
      try {
        while (!failed.deadline.passed() && !is_told_to_all(*served, failed)) continue;
      } catch (const std::bad_alloc&) {  // then whoever comes later waits
      }
      served.reset();
    }).detach();
  } catch (const std::system_error&) {  // likewise
  }
}

}  // namespace unisono
