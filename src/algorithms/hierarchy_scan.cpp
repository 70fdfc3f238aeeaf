// scan and exscan in two levels. The ranks of a host need not lie in a row: rank r needs, of every other host, the sum of that host's ranks
// below r. Ranks of one host that lie next to each other need the same sum, so leaders ask for it once. Sums go from host to host as partials
// and are staged as such, so that what a rank adds up is rounded once.
#include <tuple>

#include "algorithms/algorithms.hpp"
#include "algorithms/sites.hpp"

namespace unisono {
namespace {

// What one host needs of another from one of its ranks on: the sum of the other's first `count` ranks.
struct Handover {
  int taker, first_rank;  // the host that needs it, and the lowest rank there that does
  int giver, count;
  int slot = 0;  // where the leaders of the host that needs it show it

  bool operator==(const Handover&) const = default;
};

int ranks_below(const std::vector<int>& ranks, int rank) { return static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin()); }

// All of them, in the order of the ranks that need them: who goes through them in this order never waits for one who waits for it.
std::vector<Handover> handovers_of(const Sites& sites) {
  std::vector<Handover> all;
  for (int taker = 0; taker < sites.hosts(); ++taker)
    for (int giver = 0; giver < sites.hosts(); ++giver)
      for (int rank : sites.on(taker)) {
        const int count = giver == taker ? 0 : ranks_below(sites.on(giver), rank);
        const bool is_new = all.empty() || all.back().taker != taker || all.back().giver != giver || all.back().count != count;
        if (count > 0 && is_new) all.push_back({.taker = taker, .first_rank = rank, .giver = giver, .count = count});
      }
  std::ranges::sort(all, {}, [](const Handover& one) { return std::tuple(one.first_rank, one.giver); });
  std::vector<int> used(static_cast<size_t>(sites.hosts()), sites.leaders());
  for (Handover& one : all) one.slot = used[static_cast<size_t>(one.taker)]++;
  return all;
}

class Scan {
 public:
  Scan(Builder& plan, const Place& me, bool exclusive) : plan_(plan), me_(me), exclusive_(exclusive), sites_(me), handovers_(handovers_of(sites_)) {}

  // A rank that is alone on its host gives its data to the higher hosts and adds up that of the lower.
  Schedule write_alone() {
    bool gives = false, begun = !exclusive_;
    for (const Handover& one : handovers_) {
      if (one.giver != sites_.mine()) continue;
      if (!gives) plan_.contribute(input(0), scratch(0));
      gives = true;
      plan_.send(leader_of(one.taker, 0), scratch(0));
    }
    if (begun) plan_.contribute(input(0), partial(0));
    for (const Handover& one : handovers_) {
      if (one.taker != sites_.mine()) continue;
      if (begun) plan_.receive_reduce(leader_of(one.giver, 0), partial(0));
      else plan_.receive(leader_of(one.giver, 0), partial(0));
      begun = true;
    }
    if (begun) plan_.copy(partial(0), output(0));
    return finish();
  }

  // Everybody shows all slices; leaders give what other hosts need, and show what their own needs; everybody adds that to its host's part.
  Schedule write() {
    if (sites_.hosts() > 1) plan_.carry_partials();
    if (!sites_.has_mates()) return write_alone();
    const bool somebody_reads = me_.rank + 1 < me_.ranks;
    for (int slice = 0; slice < sites_.leaders(); ++slice)
      if (somebody_reads || (sites_.leads(slice) && !exclusive_)) plan_.copy(input(slice), stage(slice));
    plan_.publish(0);
    plan_.await_team(plan_.team(sites_.mates()), 0);
    if (sites_.leads()) hand_over();
    wait_for_leaders();
    for (int slice = 0; slice < sites_.leaders(); ++slice) add_up(slice);
    return finish();
  }

 private:
  // A slot for each slice, and one for each sum that the host with the most of them needs.
  Schedule finish() {
    int sums = 0;
    for (const Handover& one : handovers_) sums = std::max(sums, one.slot + 1 - sites_.leaders());
    return plan_.finish(sites_.slots(sites_.leaders() + sums), sites_.slots(sums));
  }

  int leader_of(int host, int slice) const { return sites_.on(host)[static_cast<size_t>(slice)]; }

  // A rank that gives only one sum gives it before it takes anything: nothing is written over it, so it need not wait for whoever takes it.
  void hand_over() {
    const auto gives = [&](const Handover& one) { return one.giver == sites_.mine(); };
    const auto first = std::ranges::find_if(handovers_, gives);
    const bool gives_one = std::ranges::all_of(handovers_, [&](const Handover& one) { return !gives(one) || one.count == first->count; });
    int summed = 0;
    for (const Handover& one : handovers_) {
      if (gives(one)) give(one, summed);
      if (one.taker == sites_.mine() && !gives_one) {
        take(one);
        if (landing().buffer == Buffer::scratch) summed = 0;
      }
    }
    for (const Handover& one : handovers_)
      if (one.taker == sites_.mine() && gives_one) take(one);
  }

  void give(const Handover& one, int& summed) {
    const int slice = sites_.index();
    if (one.count != summed) {
      const ChunkRef own = slice < one.count ? stage(slice) : nothing;
      plan_.reduce_peers(own, stage(slice), scratch(slice), of_first(one.count));
      summed = one.count;
    }
    plan_.send(leader_of(one.taker, slice), scratch(slice));
  }

  // In place, the output is the input, of which this rank has a copy in what it shows. The first rank of an exscan has no output.
  ChunkRef landing() const { return exclusive_ && me_.rank == 0 ? scratch(sites_.index()) : partial(sites_.index()); }

  void take(const Handover& one) {
    plan_.receive(leader_of(one.giver, sites_.index()), landing());
    plan_.copy(landing(), stage(one.slot));
    landed_ = &one;
  }

  void wait_for_leaders() {
    const auto first = std::ranges::find(handovers_, sites_.mine(), &Handover::taker);
    if (first == handovers_.end()) return;
    const auto waits = [&](int mate) { return mate != me_.rank && mate >= first->first_rank; };
    if (sites_.leads() && std::ranges::any_of(sites_.mates(), waits)) plan_.publish(1);
    if (!needed().empty() && (!sites_.leads() || sites_.leaders() > 1)) plan_.await_team(plan_.team(sites_.leaders_here()), 1);
  }

  Combining of_first(int count) {
    return {.team = plan_.team({sites_.mates().begin(), sites_.mates().begin() + count}), .sum = Sum::partial};
  }

  // The last one of each other host that is for ranks up to me.
  std::vector<const Handover*> needed() const {
    std::vector<const Handover*> latest(static_cast<size_t>(sites_.hosts()));
    for (const Handover& one : handovers_)
      if (one.taker == sites_.mine() && one.first_rank <= me_.rank) latest[static_cast<size_t>(one.giver)] = &one;
    std::erase(latest, nullptr);
    if (const auto still_there = std::ranges::find(latest, landed_); still_there != latest.end()) std::swap(*still_there, latest.front());
    return latest;
  }

  void add_up(int slice) {
    const int count = sites_.index() + (exclusive_ ? 0 : 1), leader = leader_of(sites_.mine(), slice);
    bool begun = count > 0;
    const ChunkRef sum = needed().empty() ? output(slice) : partial(slice);
    if (begun) plan_.reduce_peers(exclusive_ ? nothing : sites_.leads(slice) ? stage(slice) : input(slice), stage(slice), sum, of_first(count));
    for (const Handover* one : needed()) {
      if (sites_.leads(slice)) {
        if (begun) plan_.reduce(stage(one->slot), sum);
        else if (one != landed_) plan_.copy(stage(one->slot), sum);  // else it is still there
      } else if (begun) {
        const int both = plan_.team({std::min(leader, me_.rank), std::max(leader, me_.rank)});
        plan_.reduce_peers(sum, stage(one->slot), sum, {.team = both, .scales = false, .sum = Sum::partial});
      } else {
        plan_.read_peer(leader, stage(one->slot), sum);
      }
      begun = true;
    }
    if (!needed().empty()) plan_.copy(sum, output(slice));
  }

  Builder& plan_;
  Place me_;
  bool exclusive_;
  Sites sites_;
  std::vector<Handover> handovers_;
  const Handover* landed_ = nullptr;  // the last that was taken
};

}  // namespace

// Hierarchy scan: see Scan.
//
// Rounds: 2 on the host and 1 between hosts that lie in a row.  Sent per leader: its slice, once for every higher host; where ranks of
// hosts alternate, once for every rank.
Schedule hierarchy_scan(Place me) {
  Builder plan(Collective::scan, "hierarchy", me, Sites(me).leaders());
  if (me.ranks > 1) return Scan(plan, me, /*exclusive=*/false).write();
  plan.reduce_peers(input(0), input(0), output(0), {.sum = Sum::partial});
  return plan.finish();
}

// Hierarchy exscan: the same without your own data.
Schedule hierarchy_exscan(Place me) {
  Builder plan(Collective::exscan, "hierarchy", me, Sites(me).leaders());
  return me.ranks > 1 ? Scan(plan, me, /*exclusive=*/true).write() : plan.finish();
}

}  // namespace unisono
