// What the planner is asked. Everything but `rank` must be the same on all ranks of the group: then all of them get the
// same answer without speaking to each other.
#pragma once

#include <cstdint>

#include "algorithms/catalogue.hpp"
#include "base/hosts.hpp"
#include "base/sizes.hpp"
#include "unisono/types.hpp"

namespace unisono {

struct Query {
  Collective collective = Collective::all_reduce;
  int ranks = 1;
  int rank = 0;
  int root = 0;                 // read by rooted collectives only
  int64_t bytes = 0;            // all_reduce, reduce, broadcast, scans: the data; the others: one piece, the longest
  bool crowded = false;         // more ranks than usable cores
  bool peer_reads = false;      // ranks may read each other's own memory
  bool coalesced = false;       // the data lies in many places, which peers do not know: no algorithm that reads there is chosen
  Hosts hosts = {};             // ranks of one host have each other's lanes mapped; all have links
  Order order = Order::own;     // reductions: how strict the order of additions has to be
  int64_t set_bytes = 128_KiB;  // what one slot set of a lane holds: all slots of a tile have to fit

  bool operator==(const Query&) const = default;
};

// What one rank has to show to the others: its data or its piece, or all its pieces where each goes elsewhere. Rules
// and overrides count in these bytes.
int64_t shown_bytes(const Query& query);

}  // namespace unisono
