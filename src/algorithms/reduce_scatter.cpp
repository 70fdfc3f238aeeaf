// reduce_scatter: rank r gets the sum of everybody's piece r.
#include "algorithms/algorithms.hpp"
#include "algorithms/collect.hpp"
#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Direct reduce_scatter: show every piece to its owner, wait until everybody has, add up your own in one pass.
//
// Rounds: 1.  Read per rank: n-1 pieces.  The first half of a two-shot all_reduce.
Schedule direct_reduce_scatter(Place me) {
  Builder plan(Collective::reduce_scatter, "direct", me);
  for_each_peer(me, [&](int owner) { plan.copy(input(owner), stage(owner)); });
  plan.publish(0);
  plan.await(everyone, 0);
  plan.reduce_peers(input(me.rank), stage(me.rank), output(0));
  return plan.finish(/*stage_slots=*/me.ranks);
}

// Direct reduce_scatter without staging: owners read the pieces where they lie.
//
// Rounds: 2, the second so that nobody returns while a peer still reads.  Read per rank: n-1 pieces.
Schedule direct_read_reduce_scatter(Place me) {
  Builder plan(Collective::reduce_scatter, "direct_read", me);
  plan.publish(0);
  plan.await(everyone, 0);
  plan.reduce_peers(input(me.rank), input(me.rank), output(0));
  plan.publish(1);
  plan.await(everyone, 1);
  return plan.finish();
}

// Ring reduce_scatter: pieces go round to the right, everybody adds to them, and each ends at its owner.
//
// Rounds: n-1.  Sent per rank: n-1 pieces; as partials, so that 16-bit floats take twice the bytes.  Best when pieces are large. Not the
// canonical order.
Schedule ring_reduce_scatter(Place me) {
  Builder plan(Collective::reduce_scatter, "ring", me);
  if (me.ranks == 1) {
    plan.reduce_peers(input(0), input(0), output(0));
    return plan.finish();
  }
  const auto sum_of = [&](int piece) { return piece == me.rank ? partial(0) : scratch(piece); };
  plan.carry_partials();
  plan.contribute(input(left_of(me)), scratch(left_of(me)));
  for (int round = 0; round < me.ranks - 1; ++round) {
    const int added = chunk_at(me.rank - round - 2, me);
    plan.send(right_of(me), scratch(chunk_at(me.rank - round - 1, me)));
    plan.contribute(input(added), sum_of(added));
    plan.receive_reduce(left_of(me), sum_of(added), added == me.rank ? Sum::complete : Sum::partial);
  }
  plan.copy(partial(0), output(0));
  return plan.finish();
}

// Pairwise reduce_scatter: in round d everybody sends the piece of the rank d places to the right, and adds what comes from the left.
//
// Rounds: n-1, none of which waits for another.  Sent per rank: n-1 pieces; 16-bit floats take twice the bytes.  Best over links when
// pieces are small. Every rank adds in an order of its own.
Schedule pairwise_reduce_scatter(Place me) {
  Builder plan(Collective::reduce_scatter, "pairwise", me);
  if (me.ranks == 1) {
    plan.reduce_peers(input(0), input(0), output(0));
    return plan.finish();
  }
  plan.carry_partials();
  plan.contribute(input(me.rank), partial(0));
  for (int distance = 1; distance < me.ranks; ++distance) {
    const int to = wrapped(me.rank + distance, me);
    plan.contribute(input(to), scratch(to));
    plan.send(to, scratch(to));
    plan.receive_reduce(wrapped(me.rank - distance, me), partial(0), distance == me.ranks - 1 ? Sum::complete : Sum::partial);
  }
  plan.copy(partial(0), output(0));
  return plan.finish();
}

// Collecting reduce_scatter: give every piece to its owner, who adds all contributions in one pass.
//
// Rounds: 1.  Sent per rank: n-1 pieces.  Nothing is rounded on the way: every dtype keeps the bits of one pass.
Schedule collecting_reduce_scatter(Place me) {
  Builder plan(Collective::reduce_scatter, "collecting", me);
  collect(plan, me, output(0));
  return plan.finish();
}

}  // namespace unisono
