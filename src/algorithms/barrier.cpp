// barrier: nobody leaves before everybody has come.
#include "algorithms/algorithms.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Direct barrier: say that you are here, wait for everybody.
//
// Rounds: 1.  Nothing is moved.
Schedule direct_barrier(Place me) {
  Builder plan(Collective::barrier, "direct", me);
  plan.publish(0);
  plan.await(everyone, 0);
  return plan.finish();
}

}  // namespace unisono
