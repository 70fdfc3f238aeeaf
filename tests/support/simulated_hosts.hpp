// The memory of ranks on made-up hosts, in one process: the arenas of those who share a host, and mirrors of the others'. With one lane in each, of one group.
#pragma once

#include <memory>
#include <vector>

#include "base/hosts.hpp"
#include "base/sizes.hpp"
#include "transport/lanes.hpp"

namespace unisono::testing {

class SimulatedHosts {
 public:
  explicit SimulatedHosts(std::vector<int> host_of_rank) : host_of_rank_(std::move(host_of_rank)), places_(host_of_rank_.size(), round_up(static_cast<int64_t>(sizeof(ArenaHead)), line_bytes)) {
    for (int64_t place : places_) arenas_.push_back(Mapping::of_nobody(place + layout().bytes()));
  }

  int ranks() const { return static_cast<int>(host_of_rank_.size()); }
  int host_of(int rank) const { return host_of_rank_[static_cast<size_t>(rank)]; }
  Hosts hosts() const { return Hosts(host_of_rank_); }
  LaneLayout layout() const { return {ranks(), 2}; }
  const std::vector<int64_t>& places() const { return places_; }  // of the lanes
  ArenaHead& head(int rank) const { return *reinterpret_cast<ArenaHead*>(arenas_[static_cast<size_t>(rank)]->data()); }
  LaneControl& lane(int rank) const { return *reinterpret_cast<LaneControl*>(arenas_[static_cast<size_t>(rank)]->data() + places_[static_cast<size_t>(rank)]); }

  std::vector<Neighbour> neighbours_of(int one) const {
    std::vector<Neighbour> all(host_of_rank_.size());
    for (int other = 0; other < ranks(); ++other) {
      Neighbour& neighbour = all[static_cast<size_t>(other)];
      neighbour.rank = other;
      if (host_of(one) == host_of(other))
        neighbour.mapping = arenas_[static_cast<size_t>(other)];
      else
        neighbour.mirror = Mapping::of_nobody(sizeof(ArenaHead));
    }
    return all;
  }

 private:
  std::vector<int> host_of_rank_;
  std::vector<int64_t> places_;
  std::vector<std::shared_ptr<Mapping>> arenas_;
};

}  // namespace unisono::testing
