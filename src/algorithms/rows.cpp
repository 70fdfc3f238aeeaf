// See rows.hpp.
#include "algorithms/rows.hpp"

#include <algorithm>
#include <bit>

namespace unisono {
namespace {

// The places [first, first + size) of a row whose ranks have added up their data together after some rounds of doubling.
struct Block {
  int first, size;
};

Block block_at(int number, int full_size, int ranks) {
  const int first = number * full_size;
  return {first, std::clamp(ranks - first, 0, full_size)};
}

Block block_of(const Row& row, int full_size) { return block_at(row.me / full_size, full_size, row.size()); }
Block block_beside(const Row& row, int full_size) { return block_at((row.me / full_size) ^ 1, full_size, row.size()); }

// In how many rounds this rank has somebody to exchange with.
int rounds_of(const Row& row) {
  int rounds = 0;
  for (int full_size = 1; full_size < row.size(); full_size *= 2) rounds += block_beside(row, full_size).size > 0;
  return rounds;
}

ChunkRef sum_after(int round, int rounds, const Turns& turns) { return (rounds - round) % 2 == 0 ? turns.last : turns.other; }

// The place among `partners` that gives to `place`: the one at the same distance from the start of its block, or where the block is too
// short, its places in turn.
int giver_to(int place, const Block& own, const Block& partners) { return partners.first + (place - own.first) % partners.size; }

Sum sum_after_last(bool last) { return last ? Sum::complete : Sum::partial; }

}  // namespace

Row row_of_all(const Place& me, int first) {
  Row row{.ranks = {}, .me = (me.rank - first + me.ranks) % me.ranks};
  for (int place = 0; place < me.ranks; ++place) row.ranks.push_back((first + place) % me.ranks);
  return row;
}

ChunkRef start_of_doubling(const Row& row, const Turns& turns) { return sum_after(0, rounds_of(row), turns); }

// Doubling, for any number of ranks.
//
//   round k  blocks of 2^k ranks that know their own sum exchange it with the block beside them, rank by rank
//
// Rounds: ⌈log2 n⌉.  Sent per rank: ⌈log2 n⌉ times the data; where the last block is short, its ranks give to several.
// Blocks that have no block beside them sit a round out, so the additions follow the canonical tree of a row that ascends. One sum is on
// its way while the next is made of a copy.
void add_by_doubling(Builder& plan, const Row& row, const Turns& turns) {
  const int rounds = rounds_of(row);
  int round = 0;
  for (int full_size = 1; full_size < row.size(); full_size *= 2) {
    const Block own = block_of(row, full_size), partners = block_beside(row, full_size);
    if (partners.size == 0) continue;
    const ChunkRef sum = sum_after(round, rounds, turns), next = sum_after(round + 1, rounds, turns);
    for (int taker = partners.first; taker < partners.first + partners.size; ++taker)
      if (giver_to(taker, partners, own) == row.me) plan.send(row.at(taker), sum);
    plan.copy(sum, next);
    ++round;
    plan.receive_reduce(row.at(giver_to(row.me, own, partners)), next, sum_after_last(round == rounds));
  }
}

// Ring.
//
//   phase 1  pass chunks to the right as partials, adding as they go   (n - 1 rounds)
//   phase 2  pass the finished chunks to the right, rounded, copying   (n - 1 rounds)
//
// Rounds: 2(n-1).  Sent per rank: 2(n-1)/n of the data.  After phase 1 the rank at place p has the finished chunk p + 1. Every chunk is
// added up along the ring from where it started.
void add_by_ring(Builder& plan, const Row& row, int first_chunk, const std::function<void(int chunk)>& put) {
  const auto chunk_at = [&](int place) { return first_chunk + (place + 2 * row.size()) % row.size(); };
  put(chunk_at(row.me));
  for (int round = 0; round < row.size() - 1; ++round) {
    const int added = chunk_at(row.me - round - 1);
    plan.send(row.at(row.me + 1), partial(chunk_at(row.me - round)));
    put(added);
    plan.receive_reduce(row.at(row.me - 1), partial(added), sum_after_last(round == row.size() - 2));
  }
  plan.copy(partial(chunk_at(row.me + 1)), output(chunk_at(row.me + 1)));
  for (int round = 0; round < row.size() - 1; ++round) {
    plan.send(row.at(row.me + 1), output(chunk_at(row.me + 1 - round)));
    plan.receive(row.at(row.me - 1), output(chunk_at(row.me - round)));
  }
}

int parts_of_halving(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); }

// Halving and doubling, for any number of ranks; p is the largest power of two in it.
//
//   before   each rank beyond p gives all it has to one of the first p, who adds it
//   halving  of what two ranks both have, each gives away one half and adds what it gets to the other: log2 p rounds, after which each
//            rank has one of p chunks with everybody's part; until then chunks are partials
//   doubling the same way back, giving what is finished
//   after    the ranks beyond p get all of it
//
// Rounds: 2 log2 p, and two more where n is not p.  Sent per rank: 2(p-1)/p of the data, and as much again for those that serve a rank
// beyond p.  Best when the data is of middling size: as few bytes as a ring, in fewer rounds. Every chunk is added up once, by one rank.
void add_by_halving(Builder& plan, const Row& row, int first_chunk) {
  const int parts = parts_of_halving(row.size()), end = first_chunk + parts;
  if (row.me >= parts) {
    for (int chunk = first_chunk; chunk < end; ++chunk) plan.send(row.at(row.me - parts), partial(chunk));
    for (int chunk = first_chunk; chunk < end; ++chunk) plan.receive(row.at(row.me - parts), output(chunk));
    return;
  }
  const bool serves = row.me + parts < row.size();
  for (int chunk = first_chunk; serves && chunk < end; ++chunk) plan.receive_reduce(row.at(row.me + parts), partial(chunk));
  int mine = first_chunk, count = parts;
  for (int distance = 1; distance < parts; distance *= 2) {
    const int partner = row.at(row.me ^ distance);
    const bool takes_upper = (row.me & distance) != 0;
    count /= 2;
    const int given = takes_upper ? mine : mine + count;
    if (takes_upper) mine += count;
    for (int chunk = given; chunk < given + count; ++chunk) plan.send(partner, partial(chunk));
    for (int chunk = mine; chunk < mine + count; ++chunk) plan.receive_reduce(partner, partial(chunk), sum_after_last(2 * distance == parts));
  }
  plan.copy(partial(mine), output(mine));
  for (int distance = parts / 2; distance >= 1; distance /= 2, count *= 2) {
    const int partner = row.at(row.me ^ distance), theirs = (row.me & distance) != 0 ? mine - count : mine + count;
    for (int chunk = mine; chunk < mine + count; ++chunk) plan.send(partner, output(chunk));
    for (int chunk = theirs; chunk < theirs + count; ++chunk) plan.receive(partner, output(chunk));
    mine = std::min(mine, theirs);
  }
  for (int chunk = first_chunk; serves && chunk < end; ++chunk) plan.send(row.at(row.me + parts), output(chunk));
}

// Binomial: of two blocks of ranks that know their own sum, the first rank of the upper gives it to the first of the lower.
//
// Rounds: ⌈log2 n⌉.  Sent per rank: the data, once.  The additions follow the canonical tree of a row that ascends.
void add_to_first(Builder& plan, const Row& row, ChunkRef sum) {
  int block = 1;
  for (; block < row.size() && row.me % (2 * block) == 0; block *= 2)
    if (row.me + block < row.size()) plan.receive_reduce(row.at(row.me + block), sum, sum_after_last(2 * block >= row.size()));
  if (row.me != 0) plan.send(row.at(row.me - block), sum);
}

// Binomial: whoever has the data gives it to one who has not, until all have it.
//
// Rounds: ⌈log2 n⌉.  Sent by the first: ⌈log2 n⌉ times the data.  The rank at place p gets it from the one at p less its highest bit.
void give_from_first(Builder& plan, const Row& row, ChunkRef data) {
  const int highest_bit = static_cast<int>(std::bit_floor(static_cast<unsigned>(row.me)));
  if (row.me > 0) plan.receive(row.at(row.me - highest_bit), data);
  for (int distance = std::max(2 * highest_bit, 1); row.me + distance < row.size(); distance *= 2) plan.send(row.at(row.me + distance), data);
}

// Dissemination: tell a rank twice as far away in every round; what you tell stands for all that was told to you.
//
// Rounds: ⌈log2 n⌉.  Nothing is moved but the messages themselves.
void tell_everybody(Builder& plan, const Row& row) {
  for (int distance = 1; distance < row.size(); distance *= 2) {
    plan.send(row.at(row.me + distance), nothing);
    plan.receive(row.at(row.me - distance), nothing);
  }
}

}  // namespace unisono
