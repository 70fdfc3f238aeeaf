// See breaking.hpp. Order: argued there.
#include "group/breaking.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace unisono {
namespace {

constexpr uint64_t pack_fault(ErrorCode code, int member, uint32_t blamed) {
  return static_cast<uint64_t>(code) << 56 | static_cast<uint64_t>(member & 0xffff) << 32 | blamed;
}

}  // namespace

Breaking::Report Breaking::report(const Status& fault) {
  std::lock_guard lock(mutex_);
  if (closed_) return Report::closed;
  if (is_broken()) return Report::too_late;
  LaneControl& mine = lanes_.mine();
  if (mine.cause[0] == 0) {
    const std::string& text = fault.message();
    const size_t length = std::min(text.size(), static_cast<size_t>(cause_bytes - 1));
    std::memcpy(mine.cause, text.data(), length);
    mine.cause[length] = 0;
  }
  const uint64_t packed = pack_fault(fault.code(), lanes_.me(), static_cast<uint32_t>(fault.peer()));
  uint64_t first = 0;
  const bool stands = lanes_.shared().fault.compare_exchange_strong(first, packed, std::memory_order_acq_rel);
  if (stands) first = packed;
  mine.abort.store(first, std::memory_order_release);
  for (int mate : lanes_.mates()) lanes_.control(mate).abort.store(first, std::memory_order_release);
  return stands ? Report::stands : Report::too_late;
}

bool Breaking::learn() {
  if (is_broken()) return true;
  const uint64_t first = lanes_.shared().fault.load(std::memory_order_acquire);
  if (first != 0) lanes_.mine().abort.store(first, std::memory_order_release);
  return first != 0;
}

Status Breaking::fault() const {
  const uint64_t packed = lanes_.mine().abort.load(std::memory_order_acquire);
  const int reporter = static_cast<int>(packed >> 32 & 0xffff);
  const auto code = static_cast<ErrorCode>(packed >> 56);
  if (reporter >= lanes_.members() || static_cast<size_t>(code) > static_cast<size_t>(ErrorCode::internal))
    return {ErrorCode::protocol, "an invalid abort word"};
  const char* text = lanes_.control(reporter).cause;
  return {code, std::string(text, strnlen(text, cause_bytes)), static_cast<int32_t>(packed & 0xffffffff)};
}

std::optional<Status> Breaking::open_fault() {
  std::lock_guard lock(mutex_);
  return closed_ || !learn() ? std::nullopt : std::optional(fault());
}

bool Breaking::close() {
  std::lock_guard lock(mutex_);
  return !std::exchange(closed_, true);
}

}  // namespace unisono
