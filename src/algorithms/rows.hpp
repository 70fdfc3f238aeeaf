// What ranks do together by messages, for any list of them: all ranks of a group, or the rank of every host that leads a slice. Each
// body writes the steps of one rank of the row; what it costs stands above it in rows.cpp.
#pragma once

#include <functional>
#include <vector>

#include "schedule/builder.hpp"

namespace unisono {

// Ranks in an order of their own, and my place among them.
struct Row {
  std::vector<int> ranks;
  int me = 0;

  int size() const { return static_cast<int>(ranks.size()); }
  int at(int place) const { return ranks[static_cast<size_t>((place % size() + size()) % size())]; }
};

Row row_of_all(const Place& me, int first = 0);  // the ranks from `first` on, round the group

// The two places that take turns in doubling; the sum of all ends in `last`.
struct Turns {
  ChunkRef last, other;
};
ChunkRef start_of_doubling(const Row& row, const Turns& turns);  // where this rank's own part has to be
void add_by_doubling(Builder& plan, const Row& row, const Turns& turns);

// Sums are made in partials, for which the plan has to carry them, and end in the same chunks of the output.
// In so many chunks as there are ranks; `put` writes the steps that put this rank's part of one into its partial.
void add_by_ring(Builder& plan, const Row& row, int first_chunk, const std::function<void(int chunk)>& put);

int parts_of_halving(int ranks);  // that the data is cut into: a power of two
void add_by_halving(Builder& plan, const Row& row, int first_chunk);  // in so many chunks from there on, whose partials have this rank's part

void add_to_first(Builder& plan, const Row& row, ChunkRef sum);     // in place; the first of the row has the sum of all
void give_from_first(Builder& plan, const Row& row, ChunkRef data);  // what the first has, to all
void tell_everybody(Builder& plan, const Row& row);                  // nobody goes on before all have come

}  // namespace unisono
