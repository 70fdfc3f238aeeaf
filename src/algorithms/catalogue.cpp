// One line an algorithm; see catalogue.hpp. Hand-written paths stand first in each block.
#include "algorithms/catalogue.hpp"

#include "algorithms/algorithms.hpp"

namespace unisono {
namespace {

using enum Collective;

constexpr Need memory = Need::peer_memory;
constexpr Need memory_and_reads = Need::peer_memory | Need::peer_reads;
constexpr Need memory_and_links = Need::host_memory | Need::links;

constexpr Algorithm algorithms[] = {
    {all_reduce, "slot", Path::slot, nullptr, memory, Order::tree,
     "Everybody leaves its data beside its flag and adds up everybody's; hand-written."},
    {all_reduce, "combine", Path::combine, nullptr, memory, Order::tree,
     "Whoever arrives last adds everything up and wakes the others; hand-written."},
    {all_reduce, "one_shot", Path::schedule, one_shot_all_reduce, memory, Order::tree,
     "Everybody shows its data and adds up everybody's: one round, n-1 times the data read."},
    {all_reduce, "two_shot", Path::schedule, two_shot_all_reduce, memory, Order::tree,
     "Each rank adds up its slice and everybody copies the slices: two rounds, each byte staged once each way."},
    {all_reduce, "two_shot_direct", Path::schedule, two_shot_direct_all_reduce, memory_and_reads, Order::tree,
     "Two-shot that reads the peers' own memory: three rounds, nothing staged."},
    {all_reduce, "ring", Path::schedule, ring_all_reduce, Need::links, Order::own,
     "Slices go round and are added to, then round again: 2(n-1) rounds, fewest bytes sent."},
    {all_reduce, "doubling", Path::schedule, doubling_all_reduce, Need::links, Order::tree,
     "Blocks of ranks exchange their sums, not rounded, and double: log2 n rounds, all data sent in each."},
    {all_reduce, "halving", Path::schedule, halving_all_reduce, Need::links, Order::own,
     "Two ranks halve what both have until each has a slice of the sum, then double it again: 2 log2 n rounds, few bytes sent."},
    {all_reduce, "collecting", Path::schedule, collecting_all_reduce, Need::links, Order::tree,
     "The owner of each slice collects everybody's part, adds once, and gives the sum to all: two rounds, nothing rounded on the way."},
    {all_reduce, "hierarchy", Path::schedule, hierarchy_all_reduce, memory_and_links, Order::own,
     "Leaders add up their slice for the host, then with those of the other hosts, and everybody reads the sums."},

    {all_gather, "slot", Path::slot, nullptr, memory, Order::tree,
     "Everybody leaves its piece beside its flag and reads everybody's; hand-written."},
    {all_gather, "combine", Path::combine, nullptr, memory, Order::tree,
     "Everybody shows its piece; whoever arrives last wakes the others; hand-written."},
    {all_gather, "direct", Path::schedule, direct_all_gather, memory, Order::tree,
     "Everybody shows its piece and reads everybody's: one round."},
    {all_gather, "direct_read", Path::schedule, direct_read_all_gather, memory_and_reads, Order::tree,
     "Everybody reads the pieces in the peers' own memory: two rounds, nothing staged."},
    {all_gather, "ring", Path::schedule, ring_all_gather, Need::links, Order::tree,
     "Pieces are passed on to the right: n-1 rounds."},
    {all_gather, "bruck", Path::schedule, bruck_all_gather, Need::links, Order::tree,
     "Everybody gives all that it has to ranks twice as far away in every round: log2 n rounds."},
    {all_gather, "hierarchy", Path::schedule, hierarchy_all_gather, memory_and_links, Order::tree,
     "Everybody gives its piece to one rank of every other host, who shows it there."},

    {reduce_scatter, "slot", Path::slot, nullptr, memory, Order::tree,
     "Everybody leaves its pieces beside its flag and adds up its own; hand-written."},
    {reduce_scatter, "combine", Path::combine, nullptr, memory, Order::tree,
     "Whoever arrives last adds everything up and wakes the others; hand-written."},
    {reduce_scatter, "direct", Path::schedule, direct_reduce_scatter, memory, Order::tree,
     "Everybody shows the pieces of the others and adds up its own: one round."},
    {reduce_scatter, "direct_read", Path::schedule, direct_read_reduce_scatter, memory_and_reads, Order::tree,
     "Everybody adds up its piece from the peers' own memory: two rounds, nothing staged."},
    {reduce_scatter, "ring", Path::schedule, ring_reduce_scatter, Need::links, Order::own,
     "Pieces go round, are added to, and end at their owner: n-1 rounds."},
    {reduce_scatter, "pairwise", Path::schedule, pairwise_reduce_scatter, Need::links, Order::own,
     "Everybody sends each rank its piece and adds what comes: n-1 rounds that do not wait for each other."},
    {reduce_scatter, "collecting", Path::schedule, collecting_reduce_scatter, Need::links, Order::tree,
     "The owner of each piece collects everybody's part and adds once: one round, nothing rounded on the way."},
    {reduce_scatter, "hierarchy", Path::schedule, hierarchy_reduce_scatter, memory_and_links, Order::own,
     "On every host one rank adds up the host's part of a piece and gives it to the piece's owner."},

    {reduce, "slot", Path::slot, nullptr, memory, Order::tree,
     "Everybody leaves its data beside its flag, the root adds it up; hand-written."},
    {reduce, "combine", Path::combine, nullptr, memory, Order::tree,
     "Whoever arrives last adds everything up and wakes the others; hand-written."},
    {reduce, "direct", Path::schedule, direct_reduce, memory, Order::tree,
     "Everybody shows its data and the root adds it up alone."},
    {reduce, "two_shot", Path::schedule, two_shot_reduce, memory, Order::tree,
     "Each rank adds up its slice and the root collects the slices: two rounds."},
    {reduce, "binomial", Path::schedule, binomial_reduce, Need::links, Order::tree,
     "Of two blocks of ranks the upper gives its sum, not rounded, to the lower: log2 n rounds."},
    {reduce, "collecting", Path::schedule, collecting_reduce, Need::links, Order::tree,
     "The owner of each slice collects everybody's part and adds once, and the root collects the sums: two rounds, nothing rounded on the way."},
    {reduce, "hierarchy", Path::schedule, hierarchy_reduce, memory_and_links, Order::own,
     "Leaders add up their slice for the host and give it to the root's host, where the root reads the sums."},

    {scatter, "slot", Path::slot, nullptr, memory, Order::tree,
     "The root leaves the pieces beside its flag, each rank reads its own; hand-written."},
    {scatter, "combine", Path::combine, nullptr, memory, Order::tree,
     "The root shows the pieces; whoever arrives last wakes the others; hand-written."},
    {scatter, "direct", Path::schedule, direct_scatter, memory, Order::tree,
     "The root shows the pieces and each rank reads its own: one round."},
    {scatter, "direct_read", Path::schedule, direct_read_scatter, memory_and_reads, Order::tree,
     "Each rank reads its piece in the root's own memory and says so: two rounds, nothing staged."},
    {scatter, "linear", Path::schedule, linear_scatter, Need::links, Order::tree,
     "The root sends each rank its piece: one round."},
    {scatter, "hierarchy", Path::schedule, hierarchy_scatter, memory_and_links, Order::tree,
     "The root shows the pieces of its host and sends the others."},

    {gather, "slot", Path::slot, nullptr, memory, Order::tree,
     "Everybody leaves its piece beside its flag, the root reads them; hand-written."},
    {gather, "combine", Path::combine, nullptr, memory, Order::tree,
     "Everybody shows its piece; whoever arrives last wakes the others; hand-written."},
    {gather, "direct", Path::schedule, direct_gather, memory, Order::tree,
     "Everybody shows its piece and the root reads them all."},
    {gather, "direct_read", Path::schedule, direct_read_gather, memory_and_reads, Order::tree,
     "The root reads the pieces in the peers' own memory and says so: two rounds, nothing staged."},
    {gather, "linear", Path::schedule, linear_gather, Need::links, Order::tree,
     "Everybody sends its piece to the root: one round."},
    {gather, "hierarchy", Path::schedule, hierarchy_gather, memory_and_links, Order::tree,
     "The root reads the pieces of its host and receives the others."},

    {broadcast, "slot", Path::slot, nullptr, memory, Order::tree,
     "The root leaves its data beside its flag, the others read it; hand-written."},
    {broadcast, "combine", Path::combine, nullptr, memory, Order::tree,
     "The root shows its data; whoever arrives last wakes the others; hand-written."},
    {broadcast, "direct", Path::schedule, direct_broadcast, memory, Order::tree,
     "The root shows its data and the others read it: one round."},
    {broadcast, "direct_read", Path::schedule, direct_read_broadcast, memory_and_reads, Order::tree,
     "The others read the root's own memory and say so: two rounds, nothing staged."},
    {broadcast, "binomial", Path::schedule, binomial_broadcast, Need::links, Order::tree,
     "Whoever has the data gives it to one who has not: log2 n rounds."},
    {broadcast, "chain", Path::schedule, chain_broadcast, Need::links, Order::tree,
     "The data goes from rank to rank in parts, each passed on while the next arrives: sent once by everybody."},
    {broadcast, "hierarchy", Path::schedule, hierarchy_broadcast, memory_and_links, Order::tree,
     "The leaders of the root's host give their slices to those of the other hosts, who show them there."},

    {all_to_all, "slot", Path::slot, nullptr, memory, Order::tree,
     "Everybody leaves its pieces beside its flag and reads its own from each; hand-written."},
    {all_to_all, "combine", Path::combine, nullptr, memory, Order::tree,
     "Everybody shows its pieces; whoever arrives last wakes the others; hand-written."},
    {all_to_all, "direct", Path::schedule, direct_all_to_all, memory, Order::tree,
     "Everybody shows its pieces and reads its own from each: one round."},
    {all_to_all, "direct_read", Path::schedule, direct_read_all_to_all, memory_and_reads, Order::tree,
     "Everybody reads its pieces in the peers' own memory: two rounds, nothing staged."},
    {all_to_all, "pairwise", Path::schedule, pairwise_all_to_all, Need::links, Order::tree,
     "Everybody sends to the right and receives from the left, one place further in every round: n-1 rounds."},
    {all_to_all, "hierarchy", Path::schedule, hierarchy_all_to_all, memory_and_links, Order::tree,
     "Pieces for the same host are shown, the others sent."},

    {scan, "slot", Path::slot, nullptr, memory, Order::tree,
     "Everybody leaves its data beside its flag and adds up that of the ranks up to itself; hand-written."},
    {scan, "combine", Path::combine, nullptr, memory, Order::tree,
     "Everybody shows its data; whoever arrives last wakes the others, who add up; hand-written."},
    {scan, "direct", Path::schedule, direct_scan, memory, Order::tree,
     "Everybody shows its data and adds up that of the ranks up to itself: one round, the last reads n-1 times the data."},
    {scan, "chain", Path::schedule, chain_scan, Need::links, Order::own,
     "The sum goes from rank to rank, and each adds its own: n-1 rounds."},
    {scan, "collecting", Path::schedule, collecting_scan, Need::links, Order::tree,
     "Everybody collects the data of all lower ranks and adds once: one round, nothing rounded on the way."},
    {scan, "hierarchy", Path::schedule, hierarchy_scan, memory_and_links, Order::own,
     "Leaders give the host's sums to the hosts that need them, and everybody adds them to its host's part."},

    {exscan, "slot", Path::slot, nullptr, memory, Order::tree,
     "Everybody leaves its data beside its flag and adds up that of the ranks below itself; hand-written."},
    {exscan, "combine", Path::combine, nullptr, memory, Order::tree,
     "Everybody shows its data; whoever arrives last wakes the others, who add up; hand-written."},
    {exscan, "direct", Path::schedule, direct_exscan, memory, Order::tree,
     "Everybody shows its data and adds up that of the ranks below itself: one round, the last reads n-1 times the data."},
    {exscan, "chain", Path::schedule, chain_exscan, Need::links, Order::own,
     "The sum goes from rank to rank, to be kept and to be added to: n-1 rounds."},
    {exscan, "collecting", Path::schedule, collecting_exscan, Need::links, Order::tree,
     "Everybody collects the data of all lower ranks and adds once: one round, nothing rounded on the way."},
    {exscan, "hierarchy", Path::schedule, hierarchy_exscan, memory_and_links, Order::own,
     "Leaders give the host's sums to the hosts that need them, and everybody adds them to its host's part."},

    {barrier, "slot", Path::slot, nullptr, memory, Order::tree,
     "Everybody raises its flag and waits for everybody's; hand-written."},
    {barrier, "combine", Path::combine, nullptr, memory, Order::tree,
     "Whoever arrives last wakes the others; hand-written."},
    {barrier, "direct", Path::schedule, direct_barrier, memory, Order::tree,
     "Everybody raises its flag and waits for everybody's."},
    {barrier, "dissemination", Path::schedule, dissemination_barrier, Need::links, Order::tree,
     "Everybody tells ranks twice as far away in every round: log2 n rounds."},
    {barrier, "hierarchy", Path::schedule, hierarchy_barrier, memory_and_links, Order::tree,
     "The first rank of every host waits for its own, tells the other hosts, and lets its own go."},
};

}  // namespace

std::span<const Algorithm> catalogue() { return algorithms; }

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : algorithms)
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  return nullptr;
}

std::string algorithm_names(Collective collective) {
  std::string names;
  for (const Algorithm& algorithm : algorithms)
    if (algorithm.collective == collective) names.append(names.empty() ? "" : ", ").append(algorithm.name);
  return names;
}

}  // namespace unisono
