// See shortage.hpp.
#include "base/shortage.hpp"

namespace unisono {
namespace {

const Status memory_ran_out(ErrorCode::memory, "memory ran out");

}  // namespace

const Status& out_of_memory() { return memory_ran_out; }

}  // namespace unisono
