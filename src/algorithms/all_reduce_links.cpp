// all_reduce among ranks that send messages.
#include "algorithms/algorithms.hpp"
#include "algorithms/collect.hpp"
#include "algorithms/neighbours.hpp"
#include "algorithms/rows.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Ring all_reduce: see add_by_ring.
//
// Rounds: 2(n-1).  Sent per rank: 2(n-1)/n of the data; 16-bit floats take twice the bytes in the first half of the rounds.  Best when the
// data is large and the group is small. All ranks get the same bits, but not in the canonical order.
Schedule ring_all_reduce(Place me) {
  Builder plan(Collective::all_reduce, "ring", me, /*chunks=*/me.ranks);
  if (me.ranks == 1) {
    plan.reduce_peers(input(0), input(0), output(0));
    return plan.finish();
  }
  plan.carry_partials();
  add_by_ring(plan, row_of_all(me), /*first_chunk=*/0, [&](int chunk) { plan.contribute(input(chunk), partial(chunk)); });
  return plan.finish();
}

// Collecting all_reduce: rank r owns chunk r.
//
//   phase 1  give every chunk to its owner, who adds all contributions in one pass
//   phase 2  owners give the sums to everybody
//
// Rounds: 2.  Sent per rank: 2(n-1)/n of the data, in messages to everybody. Nothing is rounded on the way: every dtype keeps the bits
// of one pass.
Schedule collecting_all_reduce(Place me) {
  Builder plan(Collective::all_reduce, "collecting", me, /*chunks=*/me.ranks);
  const int mine = me.rank;
  collect(plan, me, output(mine));
  for_each_peer(me, [&](int peer) { plan.send(peer, output(mine)); });
  for_each_peer(me, [&](int owner) { plan.receive(owner, output(owner)); });
  return plan.finish();
}

// Doubling all_reduce: see add_by_doubling.
//
// Rounds: ⌈log2 n⌉.  Sent per rank: ⌈log2 n⌉ times the data.  Best when the data is small. The order is the canonical one for every n, and
// sums travel as partials, so that every dtype keeps the bits of one pass; 16-bit floats take twice the bytes for that.
Schedule doubling_all_reduce(Place me) {
  Builder plan(Collective::all_reduce, "doubling", me);
  if (me.ranks == 1) {
    plan.reduce_peers(input(0), input(0), output(0));
    return plan.finish();
  }
  const Row everybody = row_of_all(me);
  const Turns turns{.last = scratch(0), .other = scratch(1)};
  plan.carry_partials();
  plan.contribute(input(0), start_of_doubling(everybody, turns));
  add_by_doubling(plan, everybody, turns);
  plan.copy(scratch(0), output(0));
  return plan.finish();
}

// Halving all_reduce: see add_by_halving.
//
// Rounds: 2 log2 n where n is a power of two.  Sent per rank: 2(n-1)/n of the data then; 16-bit floats take twice the bytes while they are
// added up.  Not the canonical order.
Schedule halving_all_reduce(Place me) {
  const int parts = parts_of_halving(me.ranks);
  Builder plan(Collective::all_reduce, "halving", me, parts);
  if (me.ranks == 1) {
    plan.reduce_peers(input(0), input(0), output(0));
    return plan.finish();
  }
  plan.carry_partials();
  for (int part = 0; part < parts; ++part) plan.contribute(input(part), partial(part));
  add_by_halving(plan, row_of_all(me), /*first_chunk=*/0);
  return plan.finish();
}

}  // namespace unisono
