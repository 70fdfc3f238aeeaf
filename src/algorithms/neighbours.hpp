// Who stands where: the little arithmetic that algorithms share.
#pragma once

#include "schedule/schedule.hpp"

namespace unisono {

inline int wrapped(int index, const Place& me) { return ((index % me.ranks) + me.ranks) % me.ranks; }
inline int right_of(const Place& me) { return wrapped(me.rank + 1, me); }
inline int left_of(const Place& me) { return wrapped(me.rank - 1, me); }

// The chunk with this number when there is one for each rank, counted round the group.
inline int chunk_at(int index, const Place& me) { return wrapped(index, me); }

inline bool is_root(const Place& me) { return me.rank == me.root; }

// Visits the other ranks, the next one first: when everybody does, no two ranks are at the same peer at a time.
template <typename Visit>
void for_each_peer(const Place& me, Visit visit) {
  for (int distance = 1; distance < me.ranks; ++distance) visit(wrapped(me.rank + distance, me));
}

}  // namespace unisono
