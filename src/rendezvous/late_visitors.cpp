// See late_visitors.hpp. Who comes before the world is complete is host.cpp's guest.
#include "rendezvous/late_visitors.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/join_messages.hpp"

namespace unisono {
namespace {

constexpr double patience_s = 5;
constexpr size_t most_visitors = 64;  // the oldest makes room for the next

JoinMessage answer_to(const JoinMessage& hello, const Joined& joined, const JoinRequest& request) {
  const bool known = hello.rank > 0 && hello.rank < request.size;
  const Neighbour* member = known ? &joined.neighbours[static_cast<size_t>(hello.rank)] : nullptr;
  const bool left = member && member->head().goodbye.load(std::memory_order_acquire) != 0;
  JoinMessage answer;
  answer.kind = left ? JoinKind::retry : JoinKind::refuse;
  answer.code = static_cast<uint32_t>(ErrorCode::init);
  answer.say(fmt::format("job \"{}\" is already running with {} ranks (rank 0 is pid {}{}); wait for it to end or choose "
                         "another UNISONO_JOB", request.job, request.size, getpid(),
                         known ? fmt::format(", rank {} is pid {}", hello.rank, member->pid) : std::string()));
  return answer;
}

}  // namespace

std::vector<int> LateVisitors::welcome() {
  std::vector<int> sockets;
  for (Descriptor socket = accept_from(joined_.listener); socket; socket = accept_from(joined_.listener)) {
    auto who = identity_of(socket);
    if (!who.ok() || who->uid != geteuid()) continue;  // a stranger learns nothing, not even whose job this is
    if (visitors_.size() == most_visitors) visitors_.erase(visitors_.begin());
    sockets.push_back(socket.number());
    visitors_.push_back({std::move(socket), Deadline::in_seconds(patience_s)});
  }
  return sockets;
}

bool LateVisitors::answer(int socket) {
  auto visitor = std::find_if(visitors_.begin(), visitors_.end(), [&](const Visitor& one) { return one.socket.number() == socket; });
  if (visitor == visitors_.end()) return false;
  if (auto received = receive(visitor->socket); received.ok())
    static_cast<void>(send(visitor->socket, answer_to(received->message, joined_, request_)).ok());  // it may be gone
  visitors_.erase(visitor);
  return true;
}

void LateVisitors::dismiss_silent() {
  std::erase_if(visitors_, [](const Visitor& visitor) { return visitor.deadline.passed(); });
}

}  // namespace unisono
