// Point to point; see ping_pong.hpp.
#include "tools/bench/ping_pong.hpp"

#include <algorithm>

#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono::tools {
namespace {

// Different for all ranks and for thousands of calls in a row, and a whole number that a float holds.
float mark(int rank, int64_t call) { return static_cast<float>(call % 8192 * 1024 + rank % 1024 + 1); }

}  // namespace

PingPong::PingPong(const SubjectRequest& request)
    : functional_(request.dialect == "comm_func"), rank_(request.rank), peer_(request.rank ^ 1) {
  const int64_t count = std::max<int64_t>(request.bytes / 4, 1);
  written_ = make_buffer(request, count);
  if (!functional_) received_ = make_buffer(request, count);
  refresh();
}

void PingPong::refresh() {
  refreshed_before_ = calls_ + 1;
  std::ranges::fill(numbers_of(written_), mark(rank_, refreshed_before_));
  wrong_ends_ = 0;
  called_ = false;
}

void PingPong::call(int) {
  ++calls_;
  called_ = true;
  const std::span<float> mine = numbers_of(written_);
  mine.front() = mine.back() = mark(rank_, calls_);
  if (rank_ % 2 == 0) send();
  receive();
  if (rank_ % 2 == 1) send();
}

void PingPong::send() {
  if (functional_)
    comm_func::send(written_, peer_);
  else
    distributed::send(written_, peer_);
}

void PingPong::receive() {
  if (functional_)
    received_ = comm_func::recv(written_, peer_);
  else
    distributed::recv(received_, peer_);
  const std::span<const float> theirs = numbers_of(received_);
  const float wanted = mark(peer_, calls_);
  wrong_ends_ += (theirs.front() != wanted) + (theirs.size() > 1 && theirs.back() != wanted);
}

int64_t PingPong::wrong() const {
  const std::span<const float> theirs = numbers_of(received_);
  if (!called_ || theirs.size() <= 2) return wrong_ends_;
  const float wanted = mark(peer_, refreshed_before_);
  const std::span<const float> between = theirs.subspan(1, theirs.size() - 2);
  return wrong_ends_ + std::ranges::count_if(between, [wanted](float value) { return value != wanted; });
}

}  // namespace unisono::tools
