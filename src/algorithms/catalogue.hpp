// The one list of algorithms. A new one is a function in algorithms.hpp and a line in catalogue.cpp: the property tests
// and the planner's overrides pick it up from here.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/sizes.hpp"
#include "schedule/schedule.hpp"
#include "unisono/types.hpp"

namespace unisono {

// What ranks must have of each other for an algorithm to work; a set.
enum class Need : uint8_t {
  nothing = 0,
  peer_memory = 1,  // each other's lanes, mapped
  peer_reads = 2,   // permission to read each other's own memory
  links = 4,        // messages
  host_memory = 8,  // the lanes of the ranks on the same host, where there are several hosts and one of them has several ranks
};
constexpr Need operator|(Need left, Need right) {
  return static_cast<Need>(static_cast<int>(left) | static_cast<int>(right));
}
constexpr bool includes(Need set, Need part) { return (static_cast<int>(part) & ~static_cast<int>(set)) == 0; }

// How a call is performed: by the engine, step by step, or by one of two hand-written ways for little data.
enum class Path : uint8_t { slot, combine, schedule };

inline constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

// The most that one rank may show to the others on a path.
constexpr int64_t capacity_of(Path path) {
  return path == Path::slot ? 8_KiB : path == Path::combine ? 64_KiB : unlimited;
}

// How an algorithm adds up, the strictest first: a call may be content with one of them or with whatever is as strict.
enum class Order : uint8_t {
  tree,  // all contributions in one pass, by the canonical tree; or nothing is added
  hops,  // by the same tree, but sums travel between additions: 8- and 16-bit floats are rounded at every hop
  own,   // in an order of its own, which is not that of the ranks
};

struct Algorithm {
  Collective collective;
  std::string_view name;
  Path path;
  Schedule (*generate)(Place me);  // null on the hand-written paths
  Need need;
  Order order;
  std::string_view sentence;

  constexpr bool keeps_rank_order() const { return order != Order::own; }
  constexpr bool is_for_one_host() const { return !includes(need, Need::host_memory); }
};

std::span<const Algorithm> catalogue();
const Algorithm* find_algorithm(Collective collective, std::string_view name);  // null where there is none
std::string algorithm_names(Collective collective);                             // "one_shot, two_shot, …"

}  // namespace unisono
