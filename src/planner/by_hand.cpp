// See by_hand.hpp.
#include "planner/by_hand.hpp"

#include <fmt/format.h>

#include <vector>

#include "schedule/chunks.hpp"

namespace unisono {
namespace {

// The root takes where the others give, and its own contribution from its own input.
bool shows(Collective collective, const Place& place) {
  if (collective == Collective::barrier) return false;
  if (collective == Collective::broadcast || collective == Collective::scatter) return place.rank == place.root;
  return !has_root(collective) || place.rank != place.root;
}

std::string everybody_but_me(const Place& place) {
  std::string text;
  for (int rank = 0; rank < place.ranks; ++rank)
    if (rank != place.rank) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text;
}

// What a rank does with what the others show, once it knows that all have made the same call; "" where that is nothing.
std::string taking(Collective collective, const Place& place) {
  const int me = place.rank;
  const bool root = me == place.root;
  const std::string others = everybody_but_me(place);
  switch (collective) {
    case Collective::barrier: return "";
    case Collective::all_reduce: return fmt::format("combine input with what {} show, in the order of the ranks -> output", others);
    case Collective::reduce: return root ? fmt::format("combine input with what {} show, in the order of the ranks -> output", others) : "";
    case Collective::reduce_scatter: return fmt::format("combine input[{0}] with [{0}] of what {1} show, in the order of the ranks -> output", me, others);
    case Collective::scan: return me == 0 ? "copy input -> output" : fmt::format("combine what 0 to {} show and input, in this order -> output", me - 1);
    case Collective::exscan: return me == 0 ? "" : fmt::format("combine what 0 to {} show, in this order -> output", me - 1);
    case Collective::broadcast: return root ? "" : fmt::format("copy what {} shows -> output", place.root);
    case Collective::scatter: return root ? fmt::format("copy input[{}] -> output", me) : fmt::format("copy [{}] of what {} shows -> output", me, place.root);
    case Collective::gather:
      if (!root) return "";
      [[fallthrough]];
    case Collective::all_gather: return fmt::format("copy input -> output[{}], and what {} show -> output[of each]", me, others);
    case Collective::all_to_all: return fmt::format("copy input[{0}] -> output[{0}], and [{0}] of what {1} show -> output[of each]", me, others);
  }
  return "";
}

}  // namespace

std::string text_by_hand(const Algorithm& algorithm, const Place& place) {
  const bool counted = algorithm.path == Path::combine, adds_for_all = counted && algorithm.collective == Collective::all_reduce;
  std::vector<std::string> steps;
  if (place.ranks > 1) {
    steps.push_back(shows(algorithm.collective, place) ? "show input, and the call's word beside it" : "show the call's word");
    if (counted) steps.emplace_back("count this rank in");
    if (adds_for_all) steps.emplace_back("if it is the last: combine what all show, in the order of the ranks -> result and output, release everybody");
    if (counted && !adds_for_all) steps.emplace_back("if it is the last: release everybody");
    steps.push_back(counted ? "await the release" : fmt::format("await the same word of {}", everybody_but_me(place)));
  }
  const std::string taken = adds_for_all && place.ranks > 1 ? "unless it was the last: copy the result of whoever was -> output"
                                                            : taking(algorithm.collective, place);
  if (!taken.empty()) steps.push_back(taken);
  std::string text = fmt::format("{} {} rank {} of {} root {}, by hand\n", name_of(algorithm.collective), algorithm.name, place.rank, place.ranks,
                                 place.root);
  for (size_t index = 0; index < steps.size(); ++index) text += fmt::format("{:5}  {}\n", index, steps[index]);
  return text;
}

}  // namespace unisono
