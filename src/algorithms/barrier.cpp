// barrier: nobody leaves before everybody has come.
#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
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

// Dissemination barrier: tell a rank twice as far away in every round; what you tell stands for all that was told to you.
//
// Rounds: ⌈log2 n⌉.  Nothing is moved but the messages themselves.
Schedule dissemination_barrier(Place me) {
  Builder plan(Collective::barrier, "dissemination", me);
  for (int distance = 1; distance < me.ranks; distance *= 2) {
    plan.send(wrapped(me.rank + distance, me), nothing);
    plan.receive(wrapped(me.rank - distance, me), nothing);
  }
  return plan.finish();
}

}  // namespace unisono
