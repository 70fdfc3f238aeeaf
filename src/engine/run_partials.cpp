// The steps of a Run on sums of 8- and 16-bit floats that are not rounded yet: they lie in this rank's private memory, in float32, where the
// schedule carries partials (schedule/schedule.hpp), or in stage slots that are for them. Whatever else such a schedule names is of the call's
// dtype. Of other dtypes there is nothing of the kind: `widened_` is 1, and a partial is a part of the output.
#include <algorithm>

#include "engine/run.hpp"

namespace unisono {
namespace {

constexpr int64_t widened_at_once = 8_KiB;  // of one rank's part, as float32: those of a host's ranks together stay in the cache

}  // namespace

void Run::prepare_partials() {
  const size_t needed = static_cast<size_t>(lanes_.members() * widened_at_once);
  if (assignment_.schedule->stage_slots > 0 && landing_.size() < needed) landing_.resize(needed);
}

Reduction Run::reduction_at(ChunkRef ref) const {
  const Reduction reduction = call_->reduction(lanes_.members());
  return is_partial(ref) ? of_partials(reduction) : reduction;
}

// Partials lie in a row, and the other side from span to span. A stage slot takes what there is.
void Run::convert(const Step& step, const Stretch& narrow_side, const Stretch& wide) {
  const Reduction reduction = call_->reduction(lanes_.members());
  std::byte* at = wide.data;
  for (Stretch left = narrow_side.from(0, wide.bytes / widened_); left.bytes > 0; left.drop(left.here)) {
    const int64_t count = left.here / element_bytes(call_->dtype);
    if (is_partial(step.target)) widen(reduction, at, left.data, count);
    else narrow(reduction, left.data, at, count);
    at += left.here * widened_;
  }
}

// What ranks of a host give, combined as in one pass of the kernels but for the rounding: each part is widened, a piece at a time, and the
// pieces are combined by the same tree. Only what is as it was given comes here, so that widening may scale it.
void Run::combine_to_partial(const Step& step, const Stretch& target, std::span<Stretch> operands) {
  const Reduction reduction = call_->reduction(lanes_.members());
  const std::span<const void*> pieces = std::span(sources_).first(operands.size());
  for (int64_t done = 0, bytes = 0; done < target.bytes; done += bytes * widened_) {
    bytes = std::min(widened_at_once, target.bytes - done) / widened_;
    for (const Stretch& operand : operands) bytes = std::min(bytes, operand.here);
    const int64_t count = bytes / element_bytes(call_->dtype);
    for (size_t index = 0; index < operands.size(); ++index) {
      std::byte* piece = landing_.data() + static_cast<int64_t>(index) * widened_at_once;
      widen(reduction, piece, operands[index].data, count);
      pieces[index] = piece;
      operands[index].drop(bytes);
    }
    reduce(of_partials(reduction),
           {.target = target.data + done, .sources = pieces, .count = count, .contributions = false, .complete = step.completes});
  }
}

}  // namespace unisono
