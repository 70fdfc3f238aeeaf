// barrier: nobody leaves before everybody has come.
#include "algorithms/algorithms.hpp"
#include "algorithms/rows.hpp"
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

// Dissemination barrier: see tell_everybody.
//
// Rounds: ⌈log2 n⌉.  Nothing is moved but the messages themselves.
Schedule dissemination_barrier(Place me) {
  Builder plan(Collective::barrier, "dissemination", me);
  tell_everybody(plan, row_of_all(me));
  return plan.finish();
}

}  // namespace unisono
