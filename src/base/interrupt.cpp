// Who writes: set_interrupt_check(), any thread; each thread its own two flags. Order: release and acquire, so that what the check needs was made before it.
#include "base/interrupt.hpp"

#include <atomic>

#include "base/clock.hpp"
#include "unisono/binding.hpp"

namespace unisono {
namespace {

std::atomic<InterruptCheck> interrupt_check{nullptr};
thread_local bool checking = false, is_never_asked = false;

}  // namespace

void never_interrupt_this_thread() { is_never_asked = true; }

void set_interrupt_check(InterruptCheck check) { interrupt_check.store(check, std::memory_order_release); }

bool InterruptWatch::tripped() {
  constexpr int64_t first_ns = 10'000'000, between_ns = 100'000'000;
  const InterruptCheck check = interrupt_check.load(std::memory_order_acquire);
  if (!check || is_never_asked) return false;
  const int64_t now = now_ns();
  if (next_ns_ == 0) next_ns_ = now + first_ns;
  if (now < next_ns_) return false;
  next_ns_ = now + between_ns;
  checking = true;
  const bool interrupted = check();
  checking = false;
  next_ns_ = now_ns() + between_ns;
  return interrupted;
}

Status outside_interrupt_check() {
  if (!checking) [[likely]] return Status::success();
  return {ErrorCode::state, "a signal's handler called the library while this thread waits in another call of it, which would wait for "
                            "ever: raise an exception in the handler, which ends that call, or abort() its group there"};
}

}  // namespace unisono
