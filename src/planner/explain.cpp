// Asks the planner as rank 0 would, and prints what it knows. See explain.hpp.
#include "planner/explain.hpp"

#include <fmt/format.h>

#include <set>

#include "planner/by_hand.hpp"
#include "planner/planner.hpp"
#include "schedule/chunks.hpp"
#include "schedule/text.hpp"

namespace unisono {
namespace {

constexpr int most_ranks_shown = 8;
constexpr int most_ranks_costed = 256;  // more would take longer than anybody waits for an explanation

std::vector<Schedule> schedules_of(const Algorithm& algorithm, const Query& query) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < query.ranks; ++rank)
    schedules.push_back(algorithm.generate({rank, query.ranks, query.root, query.hosts}));
  return schedules;
}

std::string time_text(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.0f} ns", nanoseconds);
  if (nanoseconds < 1e6) return fmt::format("{:.1f} us", nanoseconds / 1e3);
  return fmt::format("{:.1f} ms", nanoseconds / 1e6);
}

std::string cost_text(const Cost& cost) {
  std::string text = fmt::format("{}, {} round{}", time_text(cost.time_ns), cost.rounds, cost.rounds == 1 ? "" : "s");
  if (cost.read_bytes > 0) text += fmt::format(", the busiest rank reads {}", readable_size(cost.read_bytes));
  if (cost.sent_bytes > 0) text += fmt::format(", the busiest rank sends {}", readable_size(cost.sent_bytes));
  if (cost.link_bytes > cost.sent_bytes) text += fmt::format(", the busiest host {}", readable_size(cost.link_bytes));
  return text;
}

// The schedule that costs what the slot path does: it does the same, but for where things lie.
const Algorithm* costs_the_same(const Algorithm& algorithm) {
  if (algorithm.path == Path::schedule) return &algorithm;
  const bool one_shot = algorithm.collective == Collective::all_reduce;
  return find_algorithm(algorithm.collective, one_shot ? "one_shot" : "direct");
}

std::string predicted(const Algorithm& algorithm, const ExplainRequest& request) {
  if (algorithm.path == Path::combine) return "not modelled: it depends on the scheduler";
  if (request.query.ranks > most_ranks_costed) return fmt::format("not worked out above {} ranks", most_ranks_costed);
  const std::vector<Schedule> schedules = schedules_of(*costs_the_same(algorithm), request.query);
  return cost_text(cost(schedules, request.query.bytes, request.model, request.widened));
}

std::string situation_text(const Query& query) {
  std::string text = fmt::format("{} of {} among {} rank{}", name_of(query.collective), readable_size(query.bytes),
                                 query.ranks, query.ranks == 1 ? "" : "s");
  if (!query.hosts.one()) text += fmt::format(" on hosts {}", query.hosts.text());
  if (has_root(query.collective)) text += fmt::format(", root {}", query.root);
  if (query.crowded) text += ", more ranks than cores";
  if (query.peer_reads && query.hosts.one()) text += ", peer reads permitted";
  if (query.order == Order::tree && adds(query.collective)) text += ", reproducible";
  return text;
}

std::string tiles_text(const Plan& plan, int widened) {
  const int slots = plan.schedule->stage_slots;
  const std::string size = readable_size(plan.tile_bytes);
  if (slots == 0 && widened > 1 && plan.schedule->partials) return fmt::format("tiles:      {} of a chunk, one at a time: partials take memory\n", size);
  if (slots == 0) return "tiles:      none: nothing is staged, and everything goes in one piece\n";
  return fmt::format("tiles:      {} slot{} of {}, {} in flight\n", slots, slots == 1 ? "" : "s", size, plan.window);
}

std::string steps_text(const Algorithm& algorithm, const Query& query) {
  std::set<int> shown{0, std::min(1, query.ranks - 1), query.ranks - 1};
  if (has_root(query.collective)) shown.insert(query.root);
  if (query.ranks <= most_ranks_shown)
    for (int rank = 0; rank < query.ranks; ++rank) shown.insert(rank);
  std::string text;
  if (static_cast<int>(shown.size()) < query.ranks)
    text += fmt::format("\n{} of {} ranks are shown.\n", shown.size(), query.ranks);
  for (int rank : shown) {
    const Place place{rank, query.ranks, query.root, query.hosts};
    text += "\n" + (algorithm.path == Path::schedule ? text_of(algorithm.generate(place)) : text_by_hand(algorithm, place));
  }
  return text;
}

std::string alternatives_text(const Algorithm& chosen, const ExplainRequest& request) {
  std::string text = "\nother algorithms:\n";
  for (const Algorithm& algorithm : catalogue()) {
    if (algorithm.collective != chosen.collective || &algorithm == &chosen) continue;
    const bool fits = shown_bytes(request.query) <= capacity_of(algorithm.path);
    const std::string_view obstacle = obstacle_to(algorithm, request.query);
    text += fmt::format("  {:16} {}\n", algorithm.name,
                        !obstacle.empty() ? std::string(obstacle)
                        : fits            ? predicted(algorithm, request)
                                          : fmt::format("holds at most {} of each rank", readable_size(capacity_of(algorithm.path))));
  }
  return text;
}

}  // namespace

Result<std::string> explain(const ExplainRequest& request) {
  Query query = request.query;
  query.rank = 0;
  Planner planner(request.rules);
  const Result<const Plan*> planned = planner.plan(query);
  if (!planned.ok()) return planned.status();
  const Plan& plan = *planned.value();
  const Algorithm& algorithm = *plan.algorithm;

  std::string text = fmt::format("{}\n\nchoice:     {}\nwhy:        {}\nit does:    {}\n", situation_text(query),
                                 algorithm.name, plan.why, algorithm.sentence);
  if (plan.schedule) text += tiles_text(plan, request.widened);
  text += fmt::format("predicted:  {}\n", predicted(algorithm, request));
  text += steps_text(algorithm, query);
  text += alternatives_text(algorithm, request);
  text += fmt::format(
      "\nto change it: UNISONO_PLAN=\"{0}=NAME\", or UNISONO_PLAN=\"{0}:0-64K=NAME\" for some sizes\n"
      "(bytes that one rank shows to the others); UNISONO_TILE sets the size of a slot.\n",
      name_of(query.collective));
  return text;
}

}  // namespace unisono
