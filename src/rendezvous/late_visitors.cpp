// See late_visitors.hpp. Who comes before the world is complete is a guest of host.cpp.
#include "rendezvous/late_visitors.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/join_messages.hpp"

namespace unisono {
namespace {

constexpr double patience_s = 5;
constexpr size_t most_guests = 64;  // the oldest makes room for the next

JoinMessage answer_to(const JoinMessage& hello, const Joined& joined, const JoinRequest& request) {
  const bool known = hello.rank >= 0 && hello.rank < request.size && hello.rank != request.rank;
  const Neighbour* member = known ? &joined.neighbours[static_cast<size_t>(hello.rank)] : nullptr;
  const bool left = member && member->head().goodbye.load(std::memory_order_acquire) != 0;
  JoinMessage answer;
  answer.kind = left ? JoinKind::retry : JoinKind::refuse;
  answer.code = static_cast<uint32_t>(ErrorCode::init);
  answer.say(fmt::format("job \"{}\" is already running with {} ranks (rank {} is pid {}{}); wait for it to end or choose "
                         "another UNISONO_JOB", request.job, request.size, request.rank, getpid(),
                         known ? fmt::format(", rank {} is pid {}", hello.rank, member->pid) : std::string()));
  return answer;
}

}  // namespace

std::vector<int> LateVisitors::welcome() {
  std::vector<int> sockets;
  for (Visitor& visitor : joined_.door.admit()) {
    if (guests_.size() == most_guests) guests_.erase(guests_.begin());
    sockets.push_back(visitor.socket.number());
    guests_.push_back({std::move(visitor.socket), Deadline::in_seconds(patience_s)});
  }
  return sockets;
}

bool LateVisitors::answer(int socket) {
  auto guest = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& one) { return one.socket.number() == socket; });
  if (guest == guests_.end()) return false;
  if (auto received = receive(guest->socket); received.ok()) mention(guest->socket, answer_to(received->message, joined_, request_));
  guests_.erase(guest);
  return true;
}

void LateVisitors::dismiss_silent() {
  std::erase_if(guests_, [](const Guest& guest) { return guest.deadline.passed(); });
}

}  // namespace unisono
