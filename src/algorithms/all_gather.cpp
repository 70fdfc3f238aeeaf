// all_gather: everybody gets everybody's piece.
#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Direct all_gather: show your piece, wait until everybody has, read all the others.
//
// Rounds: 1.  Read per rank: n-1 pieces.  The own piece is put in place while the others arrive.
Schedule direct_all_gather(Place me) {
  Builder plan(Collective::all_gather, "direct", me);
  plan.copy(input(0), stage(0));
  plan.publish(0);
  plan.copy(input(0), output(me.rank));
  plan.await(everyone, 0);
  for_each_peer(me, [&](int peer) { plan.read_peer(peer, stage(0), output(peer)); });
  return plan.finish(/*stage_slots=*/1);
}

// Direct all_gather without staging: pieces are read where they lie.
//
// Rounds: 2, the second so that nobody returns while a peer still reads.  Read per rank: n-1 pieces.
Schedule direct_read_all_gather(Place me) {
  Builder plan(Collective::all_gather, "direct_read", me);
  plan.publish(0);
  plan.copy(input(0), output(me.rank));
  plan.await(everyone, 0);
  for_each_peer(me, [&](int peer) { plan.read_peer(peer, input(0), output(peer)); });
  plan.publish(1);
  plan.await(everyone, 1);
  return plan.finish();
}

// Ring all_gather: pass on to the right what came from the left.
//
// Rounds: n-1.  Sent per rank: n-1 pieces.  Best when pieces are large: every link is busy all the time.
Schedule ring_all_gather(Place me) {
  Builder plan(Collective::all_gather, "ring", me);
  plan.copy(input(0), output(me.rank));
  for (int round = 0; round < me.ranks - 1; ++round) {
    const ChunkRef passed = round == 0 ? input(0) : output(chunk_at(me.rank - round, me));
    plan.send(right_of(me), passed);
    plan.receive(left_of(me), output(chunk_at(me.rank - round - 1, me)));
  }
  return plan.finish();
}

// Bruck's all_gather: everybody gives all that it has to the left, to one twice as far away in every round.
//
// Rounds: ⌈log2 n⌉.  Sent per rank: n-1 pieces.  Best over links when pieces are small.
// Before the round of distance d rank r has the pieces r to r + d - 1, counted round the group.
Schedule bruck_all_gather(Place me) {
  Builder plan(Collective::all_gather, "bruck", me);
  plan.copy(input(0), output(me.rank));
  for (int distance = 1; distance < me.ranks; distance *= 2) {
    const int pieces = std::min(distance, me.ranks - distance);  // the last round gives only what is still missing
    for (int piece = 0; piece < pieces; ++piece)
      plan.send(wrapped(me.rank - distance, me), piece == 0 ? input(0) : output(chunk_at(me.rank + piece, me)));
    for (int piece = 0; piece < pieces; ++piece)
      plan.receive(wrapped(me.rank + distance, me), output(chunk_at(me.rank + distance + piece, me)));
  }
  return plan.finish();
}

}  // namespace unisono
