// The tour: each of the five collectives in both dialects on small tensors, and the speed of all_reduce.
#pragma once

namespace unisono::tools {

int run_tour_rank();

}  // namespace unisono::tools
