// See rules.hpp. Slots hold up to 8 KiB and combining up to 64 KiB of each rank: capacity_of() in the catalogue.
#include "planner/rules.hpp"

namespace unisono {
namespace {

using enum Collective;

constexpr int any = std::numeric_limits<int>::max();
constexpr int64_t slot = capacity_of(Path::slot);
constexpr int64_t combine = capacity_of(Path::combine);

constexpr std::string_view why_slot = "little data: one visit to each peer, and nothing but the data travels";
constexpr std::string_view why_combine = "more ranks than cores: each rank is woken once";
constexpr std::string_view why_direct = "one round, and each byte is staged once";
constexpr std::string_view why_one_shot = "with two ranks, one round is worth more than half the bytes";
constexpr std::string_view why_two_shot = "each byte is staged once each way, whatever the number of ranks";
constexpr std::string_view why_peer_reads = "few ranks may read each other's own memory here, which beats staging at this size";
constexpr std::string_view why_alone = "with two ranks there are no additions to share out";
constexpr std::string_view why_shared = "the additions are shared out among the ranks";
constexpr std::string_view why_hosts = "several hosts, and ranks that share one: memory within a host, and between hosts every byte as often as there are hosts";
constexpr std::string_view why_halving = "over links, data of middling size: few rounds, and as few bytes as a ring";
constexpr std::string_view why_doubling = "over links, little data: fewest rounds";
constexpr std::string_view why_exact = "over links, in one pass at the owner: the bits do not depend on what travels";
constexpr std::string_view why_links = "over links, one round, or as few as there are ranks to pass";
constexpr std::string_view why_message = "over links, between two ranks: one message";
constexpr std::string_view why_ring = "over links, much data: every link is busy all the time";

// clang-format off
constexpr Rule rules[] = {
    // collective     up to        when         ranks  algorithm           why
    {all_reduce,     slot,        When::roomy,   any,  "slot",            why_slot},
    {all_reduce,     combine,     When::crowded, any,  "combine",         why_combine},
    {all_reduce,     2_MiB - 1,   When::roomy,   2,    "one_shot",        why_one_shot},
    {all_reduce,     32_MiB,      When::roomy,   2,    "two_shot_direct", why_peer_reads},
    {all_reduce,     16_MiB,      When::roomy,   2,    "one_shot",        why_one_shot},
    {all_reduce,     4_MiB - 1,   When::always,  any,  "two_shot",        why_two_shot},
    {all_reduce,     16_MiB,      When::roomy,   4,    "two_shot_direct", why_peer_reads},
    {all_reduce,     unlimited,   When::always,  any,  "two_shot",        why_two_shot},
    {all_reduce,     unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {all_reduce,     32_KiB,      When::always,  any,  "doubling",        why_doubling},
    {all_reduce,     1_MiB,       When::always,  any,  "halving",         why_halving},
    {all_reduce,     unlimited,   When::always,  any,  "ring",            why_ring},
    {all_reduce,     unlimited,   When::always,  any,  "collecting",      why_exact},

    {all_gather,     slot,        When::roomy,   any,  "slot",            why_slot},
    {all_gather,     combine,     When::crowded, any,  "combine",         why_combine},
    {all_gather,     16_MiB,      When::roomy,   2,    "direct_read",     why_peer_reads},
    {all_gather,     unlimited,   When::always,  any,  "direct",          why_direct},
    {all_gather,     unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {all_gather,     32_KiB,      When::always,  any,  "bruck",           why_doubling},
    {all_gather,     unlimited,   When::always,  any,  "ring",            why_ring},

    {reduce_scatter, slot,        When::roomy,   any,  "slot",            why_slot},
    {reduce_scatter, combine,     When::crowded, any,  "combine",         why_combine},
    {reduce_scatter, unlimited,   When::roomy,   2,    "direct_read",     why_peer_reads},
    {reduce_scatter, unlimited,   When::always,  any,  "direct",          why_direct},
    {reduce_scatter, unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {reduce_scatter, 32_KiB,      When::always,  any,  "pairwise",        why_links},
    {reduce_scatter, unlimited,   When::always,  any,  "ring",            why_ring},
    {reduce_scatter, unlimited,   When::always,  any,  "collecting",      why_exact},

    {reduce,         slot,        When::roomy,   any,  "slot",            why_slot},
    {reduce,         combine,     When::crowded, any,  "combine",         why_combine},
    {reduce,         unlimited,   When::always,  2,    "direct",          why_alone},
    {reduce,         unlimited,   When::always,  any,  "two_shot",        why_shared},
    {reduce,         unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {reduce,         unlimited,   When::always,  any,  "binomial",        why_doubling},
    {reduce,         unlimited,   When::always,  any,  "collecting",      why_exact},

    {scatter,        slot,        When::roomy,   any,  "slot",            why_slot},
    {scatter,        combine,     When::crowded, any,  "combine",         why_combine},
    {scatter,        unlimited,   When::always,  any,  "direct",          why_direct},
    {scatter,        unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {scatter,        unlimited,   When::always,  any,  "linear",          why_links},

    {gather,         slot,        When::roomy,   any,  "slot",            why_slot},
    {gather,         combine,     When::crowded, any,  "combine",         why_combine},
    {gather,         unlimited,   When::always,  any,  "direct",          why_direct},
    {gather,         unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {gather,         unlimited,   When::always,  any,  "linear",          why_links},

    {broadcast,      slot,        When::roomy,   any,  "slot",            why_slot},
    {broadcast,      combine,     When::crowded, any,  "combine",         why_combine},
    {broadcast,      unlimited,   When::always,  any,  "direct",          why_direct},
    {broadcast,      unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {broadcast,      unlimited,   When::always,  2,    "binomial",        why_message},
    {broadcast,      32_KiB,      When::always,  any,  "binomial",        why_doubling},
    {broadcast,      unlimited,   When::always,  any,  "chain",           why_ring},

    {all_to_all,     slot,        When::roomy,   any,  "slot",            why_slot},
    {all_to_all,     combine,     When::crowded, any,  "combine",         why_combine},
    {all_to_all,     unlimited,   When::always,  any,  "direct",          why_direct},
    {all_to_all,     unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {all_to_all,     unlimited,   When::always,  any,  "pairwise",        why_links},

    {scan,           slot,        When::roomy,   any,  "slot",            why_slot},
    {scan,           combine,     When::crowded, any,  "combine",         why_combine},
    {scan,           unlimited,   When::always,  any,  "direct",          why_direct},
    {scan,           unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {scan,           unlimited,   When::always,  any,  "chain",           why_links},
    {scan,           unlimited,   When::always,  any,  "collecting",      why_exact},

    {exscan,         slot,        When::roomy,   any,  "slot",            why_slot},
    {exscan,         combine,     When::crowded, any,  "combine",         why_combine},
    {exscan,         unlimited,   When::always,  any,  "direct",          why_direct},
    {exscan,         unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {exscan,         unlimited,   When::always,  any,  "chain",           why_links},
    {exscan,         unlimited,   When::always,  any,  "collecting",      why_exact},

    {barrier,        unlimited,   When::roomy,   any,  "slot",            why_slot},
    {barrier,        unlimited,   When::crowded, any,  "combine",         why_combine},
    {barrier,        unlimited,   When::always,  any,  "hierarchy",       why_hosts},
    {barrier,        unlimited,   When::always,  any,  "dissemination",   why_doubling},
};
// clang-format on

// Few rounds matter more than the cache where every round may cost a turn of the scheduler.
constexpr Tiling crowded_tiling{.slot_bytes = 1_MiB, .window = 2};
// Measured with 2 to 16 ranks: what all slots of a tile hold together should stay in the second-level cache.
constexpr Tiling one_slot_tiling{.slot_bytes = 64_KiB, .window = 2};
constexpr Tiling few_slots_tiling{.slot_bytes = 32_KiB, .window = 2};
constexpr Tiling many_slots_tiling{.slot_bytes = 16_KiB, .window = 2};

}  // namespace

std::span<const Rule> all_rules() { return rules; }

const Tiling& tiling_for(bool crowded, int slots) {
  if (crowded) return crowded_tiling;
  return slots <= 1 ? one_slot_tiling : slots <= 8 ? few_slots_tiling : many_slots_tiling;
}

}  // namespace unisono
