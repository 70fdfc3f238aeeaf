// Every collective in two levels: within the host in shared memory, between hosts by messages, every leader for its slice, and within the
// host again. Scans are in hierarchy_scan.cpp. What a leader shows or sends is never more than its slice, so that the host's link carries
// every byte once for each host that needs it.
//
// Slots are kept as in the algorithms of one host: whoever shows something waits for a flag of all who read it, which says that they have
// read it, or that they have come to this tile and so have left the one whose slots are written next.
//
// Sums go from host to host as partials and are rounded once, when they have everybody's part; what is staged here is never a partial.
#include "algorithms/algorithms.hpp"
#include "algorithms/neighbours.hpp"
#include "algorithms/sites.hpp"

namespace unisono {
namespace {

int host_team(Builder& plan, const Sites& sites) { return plan.team(sites.mates()); }

// Shows all chunks but those that this rank leads; leaders wait until the host has, and others where they hear of it in no other way.
// `parts` chunks make a slice.
struct Showing {
  int parts = 1;
  int waiting = 0;  // ranks of the host that wait without being leaders
  bool waits = false;
};
void show_to_leaders(Builder& plan, const Sites& sites, Showing how) {
  const int parts = how.parts;
  if (!sites.has_mates()) return;
  for (int chunk = 0; chunk < sites.leaders() * parts; ++chunk)
    if (!sites.leads(chunk / parts)) plan.copy(input(chunk), stage(chunk));
  const int leaders_beside = sites.leaders() - (sites.leads() ? 1 : 0);
  if (leaders_beside + how.waiting > 0) plan.publish(0);
  if (sites.leads() || how.waits) plan.await_team(host_team(plan, sites), 0);
}

// What the host has of a chunk, all together; complete where there is no other host.
void combine_host(Builder& plan, const Sites& sites, int chunk, ChunkRef target) {
  if (!sites.has_mates() && sites.hosts() > 1) return plan.contribute(input(chunk), target);
  plan.reduce_peers(input(chunk), stage(chunk), target,
                    {.team = host_team(plan, sites), .sum = sites.hosts() > 1 ? Sum::partial : Sum::complete});
}

// Leaders show the slices that they have, and everybody reads those of the others.
void share_slices(Builder& plan, const Sites& sites, int parts, int flag) {
  if (!sites.has_mates()) return;
  if (sites.leads()) {
    for (int part = 0; part < parts; ++part) plan.copy(output(sites.index() * parts + part), stage(sites.index() * parts + part));
    plan.publish(flag);
  }
  if (!sites.leads() || sites.leaders() > 1) plan.await_team(plan.team(sites.leaders_here()), flag);
  for (int slice = 0; slice < sites.leaders(); ++slice)
    for (int part = 0; part < parts && !sites.leads(slice); ++part)
      plan.read_peer(sites.mates()[static_cast<size_t>(slice)], stage(slice * parts + part), output(slice * parts + part));
}

}  // namespace

// Hierarchy all_reduce: leaders add up their slice for the host, then among themselves, and everybody reads the sums.
//
// Rounds: 2 on the host and between h hosts 2 log2 h where that is a power of two, else 2(h-1).  Sent per leader: 2(h-1)/h of its slice.
// Two hosts exchange whole slices in 1 round, which is as many bytes as halving them. Halving would send more for a number that is no
// power of two, so those make a ring. While they are added up, 16-bit floats take twice the bytes.
Schedule hierarchy_all_reduce(Place me) {
  const Sites sites(me);
  const bool exchanges = sites.hosts() == 2, halves = parts_of_halving(sites.hosts()) == sites.hosts();
  const int parts = exchanges ? 1 : sites.hosts();
  Builder plan(Collective::all_reduce, "hierarchy", me, sites.leaders() * parts);
  if (sites.hosts() > 1) plan.carry_partials();
  show_to_leaders(plan, sites, {.parts = parts});
  if (sites.leads()) {
    const int slice = sites.index(), first_chunk = slice * parts;
    const Row row = sites.across(slice);
    const auto combine = [&](int chunk) { combine_host(plan, sites, chunk, partial(chunk)); };
    if (sites.hosts() == 1) {
      combine_host(plan, sites, slice, output(slice));
    } else if (exchanges) {
      const Turns turns{.last = partial(slice), .other = scratch(slice)};
      combine_host(plan, sites, slice, start_of_doubling(row, turns));
      add_by_doubling(plan, row, turns);
      plan.copy(partial(slice), output(slice));
    } else if (halves) {
      for (int part = 0; part < parts; ++part) combine(first_chunk + part);
      add_by_halving(plan, row, first_chunk);
    } else {
      add_by_ring(plan, row, first_chunk, combine);
    }
  }
  share_slices(plan, sites, parts, /*flag=*/1);
  return plan.finish(sites.slots(sites.leaders() * parts));
}

// Hierarchy reduce: leaders add up their slice for the host and give it to the root's host, where the root reads the sums.
//
// Rounds: 2 on the host and log2 h between h hosts.  Sent per leader: its slice, once; 16-bit floats take twice the bytes.
Schedule hierarchy_reduce(Place me) {
  const Sites sites(me);
  Builder plan(Collective::reduce, "hierarchy", me, sites.leaders());
  const int root_host = sites.host_of(me.root);
  const bool carries = sites.hosts() > 1;
  const ChunkRef sum = !is_root(me) ? scratch(sites.index()) : carries ? partial(sites.index()) : output(sites.index());
  if (carries) plan.carry_partials();
  const bool root_waits = sites.mine() == root_host && sites.index_of(me.root) >= sites.leaders();  // for the leaders, who wait for all
  show_to_leaders(plan, sites,
                  {.waiting = sites.size_of(sites.mine()) - sites.leaders() - (root_waits ? 1 : 0), .waits = !is_root(me)});
  if (sites.leads()) {
    combine_host(plan, sites, sites.index(), sum);
    add_to_first(plan, sites.across(sites.index(), root_host), sum);
    if (carries && is_root(me)) plan.copy(sum, output(sites.index()));
  }
  if (sites.mine() == root_host && !is_root(me) && sites.leads()) {
    plan.copy(sum, stage(sites.index()));
    plan.publish(1);
  }
  if (is_root(me) && sites.has_mates()) {
    if (!sites.leads() || sites.leaders() > 1) plan.await_team(plan.team(sites.leaders_here()), 1);
    for (int slice = 0; slice < sites.leaders(); ++slice)
      if (!sites.leads(slice)) plan.read_peer(sites.mates()[static_cast<size_t>(slice)], stage(slice), output(slice));
  }
  return plan.finish(sites.slots(sites.leaders()));
}

// Hierarchy broadcast: the root shows its data to its host; the leaders there give their slices to those of the other hosts, who show them.
//
// Rounds: 2 on the host and log2 h between h hosts.  Sent per leader of the root's host: log2 h times its slice.  Flag 1 says that a rank
// which shows nothing has come to this tile; the flag of one that does says as much.
Schedule hierarchy_broadcast(Place me) {
  const Sites sites(me);
  Builder plan(Collective::broadcast, "hierarchy", me, sites.leaders());
  const int root_host = sites.host_of(me.root), slice = sites.index();
  const bool beside_root = sites.mine() == root_host, shows = is_root(me) || (!beside_root && sites.leads());
  const auto pass_on = [&] {
    if (sites.leads()) give_from_first(plan, sites.across(slice, root_host), is_root(me) ? input(slice) : output(slice));
  };
  std::vector<int> readers;
  for (int mate : sites.mates())
    if (beside_root ? mate != me.root : sites.index_of(mate) >= sites.leaders()) readers.push_back(mate);
  if (!shows) plan.publish(1);
  if (is_root(me)) {
    for (int chunk = 0; chunk < sites.leaders() && sites.has_mates(); ++chunk) plan.copy(input(chunk), stage(chunk));
    if (sites.has_mates()) plan.publish(0);
    pass_on();
  } else if (beside_root) {
    plan.await(me.root, 0);
    if (sites.leads()) plan.read_peer(me.root, stage(slice), output(slice));  // the one that others wait for
    pass_on();
    for (int chunk = 0; chunk < sites.leaders(); ++chunk)
      if (!sites.leads(chunk)) plan.read_peer(me.root, stage(chunk), output(chunk));
  } else {
    pass_on();
    share_slices(plan, sites, /*parts=*/1, /*flag=*/0);
  }
  if (shows && !readers.empty()) plan.await_team(plan.team(readers), 1);
  return plan.finish(sites.slots(sites.leaders()));
}

namespace {

// The pieces that a rank shows in an all_gather: its own, and those of other hosts that it keeps for its own.
std::vector<int> kept_by(const Sites& sites, int keeper, int ranks) {
  std::vector<int> pieces{keeper};
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != keeper && sites.keeper_of(rank, sites.host_of(keeper)) == keeper) pieces.push_back(rank);
  return pieces;
}

}  // namespace

// Hierarchy all_gather: everybody gives its piece to one rank of every other host, who shows it there.
//
// Rounds: 2 on the host and 1 between h hosts.  Sent per rank: h-1 pieces.
Schedule hierarchy_all_gather(Place me) {
  const Sites sites(me);
  Builder plan(Collective::all_gather, "hierarchy", me);
  size_t slots = 1;
  for (int rank = 0; rank < me.ranks; ++rank) slots = std::max(slots, kept_by(sites, rank, me.ranks).size());
  if (sites.has_mates()) plan.copy(input(0), stage(0)), plan.publish(0);
  plan.copy(input(0), output(me.rank));
  for (int host = 0; host < sites.hosts(); ++host)
    if (host != sites.mine()) plan.send(sites.keeper_of(me.rank, host), input(0));
  if (sites.has_mates()) plan.await_team(host_team(plan, sites), 0);
  for_each_peer(me, [&](int peer) { if (sites.is_mate(peer)) plan.read_peer(peer, stage(0), output(peer)); });
  const std::vector<int> kept = kept_by(sites, me.rank, me.ranks);
  for (size_t slot = 1; slot < kept.size(); ++slot) {
    plan.receive(kept[slot], output(kept[slot]));
    if (sites.has_mates()) plan.copy(output(kept[slot]), stage(static_cast<int>(slot)));
  }
  if (sites.has_mates() && sites.hosts() > 1) {
    if (kept.size() > 1) plan.publish(1);
    for (int mate : sites.mates()) {
      const std::vector<int> theirs = kept_by(sites, mate, me.ranks);
      if (mate == me.rank || theirs.size() == 1) continue;
      plan.await(mate, 1);
      for (size_t slot = 1; slot < theirs.size(); ++slot) plan.read_peer(mate, stage(static_cast<int>(slot)), output(theirs[slot]));
    }
  }
  return plan.finish(sites.slots(static_cast<int>(slots)));
}

// Hierarchy reduce_scatter: on every host one rank adds up the host's part of a piece and gives it to the piece's owner.
//
// Rounds: 1 on the host and 1 between h hosts.  Sent per rank: (h-1)/h of the pieces of one host; 16-bit floats take twice the bytes.
Schedule hierarchy_reduce_scatter(Place me) {
  const Sites sites(me);
  Builder plan(Collective::reduce_scatter, "hierarchy", me);
  const bool carries = sites.hosts() > 1;
  const auto is_mine = [&](int piece) { return sites.keeper_of(piece, sites.mine()) == me.rank; };
  if (carries) plan.carry_partials();
  if (sites.has_mates()) {
    for_each_peer(me, [&](int piece) { if (!is_mine(piece)) plan.copy(input(piece), stage(piece)); });
    plan.publish(0);
    plan.await_team(host_team(plan, sites), 0);
  }
  for_each_peer(me, [&](int piece) {
    if (!is_mine(piece)) return;
    combine_host(plan, sites, piece, scratch(piece));
    plan.send(piece, scratch(piece));
  });
  combine_host(plan, sites, me.rank, carries ? partial(0) : output(0));
  for (int distance = 1; distance < sites.hosts(); ++distance) {
    const int host = (sites.mine() + distance) % sites.hosts();
    plan.receive_reduce(sites.keeper_of(me.rank, host), partial(0), distance == sites.hosts() - 1 ? Sum::complete : Sum::partial);
  }
  if (carries) plan.copy(partial(0), output(0));
  return plan.finish(sites.slots(me.ranks));
}

// Hierarchy scatter: the root shows the pieces of its host and sends the others: each goes to one rank only, so nobody can spare it that.
//
// Rounds: 1.  Sent by the root: the pieces of the other hosts.
Schedule hierarchy_scatter(Place me) {
  const Sites sites(me);
  Builder plan(Collective::scatter, "hierarchy", me);
  if (is_root(me)) {
    for_each_peer(me, [&](int peer) { if (!sites.is_mate(peer)) plan.send(peer, input(peer)); });
    for_each_peer(me, [&](int peer) { if (sites.is_mate(peer)) plan.copy(input(peer), stage(sites.index_of(peer))); });
    if (sites.has_mates()) plan.publish(0);
    plan.copy(input(me.rank), output(0));
    if (sites.has_mates()) plan.await_team(host_team(plan, sites), 1);
  } else if (sites.is_mate(me.root)) {
    plan.publish(1);
    plan.await(me.root, 0);
    plan.read_peer(me.root, stage(sites.index()), output(0));
  } else {
    plan.receive(me.root, output(0));
  }
  return plan.finish(sites.slots(sites.largest()));
}

// Hierarchy gather: the root reads the pieces of its host and receives the others.
//
// Rounds: 2 on the root's host, 1 between hosts.  Received by the root: the pieces of the other hosts.
Schedule hierarchy_gather(Place me) {
  const Sites sites(me);
  Builder plan(Collective::gather, "hierarchy", me);
  if (is_root(me)) {
    plan.copy(input(0), output(me.rank));
    if (sites.has_mates()) plan.await_team(host_team(plan, sites), 0), plan.publish(1);
    for_each_peer(me, [&](int peer) { if (sites.is_mate(peer)) plan.read_peer(peer, stage(0), output(peer)); });
    for_each_peer(me, [&](int peer) { if (!sites.is_mate(peer)) plan.receive(peer, output(peer)); });
  } else if (sites.is_mate(me.root)) {
    plan.copy(input(0), stage(0));
    plan.publish(0);
    plan.await(me.root, 1);
  } else {
    plan.send(me.root, input(0));
  }
  return plan.finish(sites.slots(1));
}

// Hierarchy all_to_all: the pieces for ranks of the host are shown, the others sent.
//
// Rounds: 1.  Sent per rank: one piece for every rank of another host.
Schedule hierarchy_all_to_all(Place me) {
  const Sites sites(me);
  Builder plan(Collective::all_to_all, "hierarchy", me);
  for_each_peer(me, [&](int peer) { if (!sites.is_mate(peer)) plan.send(peer, input(peer)); });
  for_each_peer(me, [&](int peer) { if (sites.is_mate(peer)) plan.copy(input(peer), stage(sites.index_of(peer))); });
  if (sites.has_mates()) plan.publish(0);
  plan.copy(input(me.rank), output(me.rank));
  if (sites.has_mates()) plan.await_team(host_team(plan, sites), 0);
  for_each_peer(me, [&](int peer) { if (sites.is_mate(peer)) plan.read_peer(peer, stage(sites.index()), output(peer)); });
  for (int distance = 1; distance < me.ranks; ++distance)
    if (const int from = wrapped(me.rank - distance, me); !sites.is_mate(from)) plan.receive(from, output(from));
  return plan.finish(sites.slots(sites.largest()));
}

// Hierarchy barrier: the first rank of a host waits for the others there, then for the other hosts, and lets its own go.
//
// Rounds: 2 on the host and ⌈log2 h⌉ between h hosts.
Schedule hierarchy_barrier(Place me) {
  const Sites sites(me);
  Builder plan(Collective::barrier, "hierarchy", me);
  if (sites.leads(0)) {
    if (sites.has_mates()) plan.await_team(host_team(plan, sites), 0);
    tell_everybody(plan, sites.across(0));
    if (sites.has_mates()) plan.publish(1);
  } else {
    plan.publish(0);
    plan.await(sites.mates().front(), 1);
  }
  return plan.finish();
}

}  // namespace unisono
