// Every algorithm: a pure function from a place in the group to the schedule of that place. No clock, no transport, no
// bytes. What each is good for stands above its body, in the file named after its collective; catalogue.hpp lists them.
#pragma once

#include "schedule/schedule.hpp"

namespace unisono {

// all_reduce.cpp, and all_reduce_links.cpp for those that send messages
Schedule one_shot_all_reduce(Place me);
Schedule two_shot_all_reduce(Place me);
Schedule two_shot_direct_all_reduce(Place me);
Schedule ring_all_reduce(Place me);
Schedule doubling_all_reduce(Place me);
Schedule halving_all_reduce(Place me);
Schedule collecting_all_reduce(Place me);

// all_gather.cpp
Schedule direct_all_gather(Place me);
Schedule direct_read_all_gather(Place me);
Schedule ring_all_gather(Place me);
Schedule bruck_all_gather(Place me);

// reduce_scatter.cpp
Schedule direct_reduce_scatter(Place me);
Schedule direct_read_reduce_scatter(Place me);
Schedule ring_reduce_scatter(Place me);
Schedule pairwise_reduce_scatter(Place me);
Schedule collecting_reduce_scatter(Place me);

// reduce.cpp
Schedule direct_reduce(Place me);
Schedule two_shot_reduce(Place me);
Schedule binomial_reduce(Place me);
Schedule collecting_reduce(Place me);

// broadcast.cpp
Schedule direct_broadcast(Place me);
Schedule direct_read_broadcast(Place me);
Schedule binomial_broadcast(Place me);
Schedule chain_broadcast(Place me);

// scatter.cpp
Schedule direct_scatter(Place me);
Schedule direct_read_scatter(Place me);
Schedule linear_scatter(Place me);

// gather.cpp
Schedule direct_gather(Place me);
Schedule direct_read_gather(Place me);
Schedule linear_gather(Place me);

// all_to_all.cpp
Schedule direct_all_to_all(Place me);
Schedule direct_read_all_to_all(Place me);
Schedule pairwise_all_to_all(Place me);

// scan.cpp
Schedule direct_scan(Place me);
Schedule direct_exscan(Place me);
Schedule chain_scan(Place me);
Schedule collecting_scan(Place me);
Schedule chain_exscan(Place me);
Schedule collecting_exscan(Place me);

// barrier.cpp
Schedule direct_barrier(Place me);
Schedule dissemination_barrier(Place me);

// hierarchy.cpp, and hierarchy_scan.cpp for the scans
Schedule hierarchy_all_reduce(Place me);
Schedule hierarchy_all_gather(Place me);
Schedule hierarchy_reduce_scatter(Place me);
Schedule hierarchy_reduce(Place me);
Schedule hierarchy_broadcast(Place me);
Schedule hierarchy_scatter(Place me);
Schedule hierarchy_gather(Place me);
Schedule hierarchy_all_to_all(Place me);
Schedule hierarchy_barrier(Place me);
Schedule hierarchy_scan(Place me);
Schedule hierarchy_exscan(Place me);

}  // namespace unisono
