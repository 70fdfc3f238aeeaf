// Who is where, as a hierarchy counts: the ranks of each host, and its leaders, who speak for it to the other hosts.
//
// Every host has as many leaders as the smallest has ranks, so that leader k of one host has a counterpart on every other, and uneven
// hosts are no special case. Data is cut into as many slices, of which leader k leads slice k.
#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/rows.hpp"
#include "schedule/schedule.hpp"

namespace unisono {

class Sites {
 public:
  explicit Sites(const Place& me) : rank_(me.rank) {
    if (me.hosts.one()) {
      ranks_.push_back(row_of_all(me).ranks);
    } else {
      for (int host = 0; host < me.hosts.count(); ++host) ranks_.emplace_back(me.hosts.ranks_on(host).begin(), me.hosts.ranks_on(host).end());
    }
    for (int host = 0; host < hosts(); ++host) {
      if (std::ranges::binary_search(on(host), me.rank)) mine_ = host;
      leaders_ = std::min(leaders_, size_of(host));
      largest_ = std::max(largest_, size_of(host));
    }
  }

  int hosts() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& on(int host) const { return ranks_[static_cast<size_t>(host)]; }
  int size_of(int host) const { return static_cast<int>(on(host).size()); }
  int host_of(int rank) const {
    int host = 0;
    while (!std::ranges::binary_search(on(host), rank)) ++host;
    return host;
  }
  int index_of(int rank) const {  // on its host
    const std::vector<int>& ranks = on(host_of(rank));
    return static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
  }

  int mine() const { return mine_; }  // my host
  const std::vector<int>& mates() const { return on(mine_); }
  bool has_mates() const { return mates().size() > 1; }
  bool is_mate(int rank) const { return std::ranges::binary_search(mates(), rank); }
  int index() const { return index_of(rank_); }

  int leaders() const { return leaders_; }  // of each host
  bool leads() const { return index() < leaders_; }
  bool leads(int slice) const { return index() == slice; }
  std::vector<int> leaders_here() const { return {mates().begin(), mates().begin() + leaders_}; }

  // The leaders of a slice, from one host on; I am one of them.
  Row across(int slice, int first_host = 0) const {
    Row row{.ranks = {}, .me = (mine_ - first_host + hosts()) % hosts()};
    for (int place = 0; place < hosts(); ++place) row.ranks.push_back(on((first_host + place) % hosts())[static_cast<size_t>(slice)]);
    return row;
  }

  // On each host one rank keeps what concerns a rank of any other, in turns.
  int keeper_of(int rank, int host) const { return on(host)[static_cast<size_t>(index_of(rank) % size_of(host))]; }

  int largest() const { return largest_; }                          // the most ranks on one host
  int slots(int count) const { return largest_ > 1 ? count : 0; }  // nothing is staged where nobody has a mate

 private:
  int rank_, mine_ = 0, leaders_ = 1 << 30, largest_ = 0;
  std::vector<std::vector<int>> ranks_;  // by host
};

}  // namespace unisono
