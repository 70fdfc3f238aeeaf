// all_reduce among ranks that send messages.
#include <algorithm>

#include "algorithms/algorithms.hpp"
#include "algorithms/collect.hpp"
#include "algorithms/neighbours.hpp"
#include "schedule/builder.hpp"

namespace unisono {

// Ring all_reduce.
//
//   phase 1  pass chunks to the right, adding as they go      (ranks - 1 rounds)
//   phase 2  pass the finished chunks to the right, copying   (ranks - 1 rounds)
//
// Rounds: 2(n-1).  Sent per rank: 2(n-1)/n of the data.  Best when the data is large and the group is small.
// After phase 1, rank r holds the finished chunk r + 1. Every chunk is added up along the ring from where it started,
// so all ranks get the same bits, but not the canonical order.
Schedule ring_all_reduce(Place me) {
  Builder plan(Collective::all_reduce, "ring", me, /*chunks=*/me.ranks);
  if (me.ranks == 1)
    plan.reduce_peers(input(0), input(0), output(0));
  else
    plan.contribute(input(me.rank), output(me.rank));
  for (int round = 0; round < me.ranks - 1; ++round) {
    const int added = chunk_at(me.rank - round - 1, me);
    plan.send(right_of(me), output(chunk_at(me.rank - round, me)));
    plan.contribute(input(added), output(added));
    plan.receive_reduce(left_of(me), output(added), round == me.ranks - 2 ? Sum::complete : Sum::partial);
  }
  for (int round = 0; round < me.ranks - 1; ++round) {
    plan.send(right_of(me), output(chunk_at(me.rank + 1 - round, me)));
    plan.receive(left_of(me), output(chunk_at(me.rank - round, me)));
  }
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

namespace {

// The ranks [first, first + size) that have added up their data together after some rounds of doubling.
struct Block {
  int first, size;
};

Block block_at(int number, int full_size, int ranks) {
  const int first = number * full_size;
  return {first, std::clamp(ranks - first, 0, full_size)};
}

Block block_of(const Place& me, int full_size) { return block_at(me.rank / full_size, full_size, me.ranks); }
Block block_beside(const Place& me, int full_size) { return block_at((me.rank / full_size) ^ 1, full_size, me.ranks); }

// In how many rounds this rank has somebody to exchange with.
int rounds_of(const Place& me) {
  int rounds = 0;
  for (int full_size = 1; full_size < me.ranks; full_size *= 2) rounds += block_beside(me, full_size).size > 0;
  return rounds;
}

// The rank of `partners` that gives to `rank`: the one at the same place in the block, or where the block is too short,
// its ranks in turn.
int giver_to(int rank, const Block& own, const Block& partners) {
  return partners.first + (rank - own.first) % partners.size;
}

}  // namespace

// Recursive doubling all_reduce, for any number of ranks.
//
//   round k  blocks of 2^k ranks that know their own sum exchange it with the block beside them, rank by rank
//
// Rounds: ⌈log2 n⌉.  Sent per rank: ⌈log2 n⌉ times the data; where the last block is short, its ranks give to several.
// Best when the data is small. Blocks that have no block beside them sit a round out, so the additions follow the
// canonical tree for every n. Output and scratch take turns: one sum is on its way while the next is made of a copy.
Schedule doubling_all_reduce(Place me) {
  Builder plan(Collective::all_reduce, "doubling", me);
  if (me.ranks == 1) {
    plan.reduce_peers(input(0), input(0), output(0));
    return plan.finish();
  }
  const int rounds = rounds_of(me);
  const auto sum_after = [&](int round) { return (rounds - round) % 2 == 0 ? output(0) : scratch(0); };
  plan.contribute(input(0), sum_after(0));
  int round = 0;
  for (int full_size = 1; full_size < me.ranks; full_size *= 2) {
    const Block own = block_of(me, full_size), partners = block_beside(me, full_size);
    if (partners.size == 0) continue;
    for (int taker = partners.first; taker < partners.first + partners.size; ++taker)
      if (giver_to(taker, partners, own) == me.rank) plan.send(taker, sum_after(round));
    plan.copy(sum_after(round), sum_after(round + 1));
    ++round;
    plan.receive_reduce(giver_to(me.rank, own, partners), sum_after(round), round == rounds ? Sum::complete : Sum::partial);
  }
  return plan.finish();
}

}  // namespace unisono
