// What the collecting algorithms share: everybody gives each owner its chunk as it is, and the owner combines all in one pass.
#pragma once

#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

inline void collect(Builder& plan, const Place& me, ChunkRef target) {
  for_each_peer(me, [&](int owner) { plan.send(owner, input(owner)); });
  for_each_peer(me, [&](int giver) { plan.receive(giver, gathered(giver)); });
  plan.reduce_peers(input(me.rank), all_gathered, target);
}

}  // namespace unisono
