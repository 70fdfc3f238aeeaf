// Which way a call goes: looks its size up in the table of rules and returns the plan, with the schedule of this rank.
// Plans are made once and kept. Read rules.cpp next, then the algorithm that a rule names.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "algorithms/catalogue.hpp"
#include "planner/overrides.hpp"
#include "planner/query.hpp"
#include "schedule/schedule.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct Plan {
  const Algorithm* algorithm = nullptr;      // never null in a plan that was returned
  std::shared_ptr<const Schedule> schedule;  // null on the hand-written paths
  Path path = Path::schedule;
  int64_t tile_bytes = 0;  // of one slot; where nothing is staged, of a chunk that has partials; 0 on the hand-written paths
  int window = 1;          // tiles in flight
  std::string_view why;    // the rule's reason, or the override as it was written
  uint32_t agreement = 0;  // a hash of algorithm, tiling, hosts and the order that was asked for

  uint32_t fingerprint() const { return agreement; }  // what all ranks have to agree on
};

// What keeps an algorithm from working among these ranks, as the end of a sentence about it; empty where nothing does.
std::string_view obstacle_to(const Algorithm& algorithm, const Query& query);

// Owned by one group and asked under its runner token: nothing here is synchronised.
class Planner {
 public:
  explicit Planner(PlannerRules rules = {});
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // The plan stays where it is for as long as the planner lives. Asking again allocates nothing and costs tens of
  // nanoseconds, or ten if the question is the same as the last. An ArgumentError says why an override cannot be
  // followed here: it is never dropped silently.
  Result<const Plan*> plan(const Query& query);

 private:
  // An override, or a rule of the table, with its algorithm looked up.
  struct Choice {
    Collective collective;
    const Algorithm* algorithm;
    std::string_view why;
  };
  struct PlanKey {
    int choice, ranks, rank, root;
    int64_t set_bytes;
    bool crowded;
    Order order;
    Hosts hosts;
    bool operator==(const PlanKey&) const = default;
  };
  struct ScheduleKey {
    const Algorithm* algorithm;
    Place place;
    bool operator==(const ScheduleKey&) const = default;
  };
  struct KeyHash {
    size_t operator()(const PlanKey& key) const;
    size_t operator()(const ScheduleKey& key) const;
  };

  Result<int> choose(const Query& query) const;
  Status check_possible(const Override& rule, const Query& query) const;
  Plan make(const Choice& choice, const Query& query, const Place& place);
  std::shared_ptr<const Schedule> schedule_for(const Algorithm& algorithm, const Place& place);
  int64_t tile_bytes_for(const Schedule& schedule, const Query& query) const;

  PlannerRules rules_;
  std::vector<Choice> choices_;      // the overrides, then the rules
  std::vector<size_t> first_rules_;  // of each collective, whose rules stand together
  Query last_query_;
  const Plan* last_plan_ = nullptr;
  std::unordered_map<PlanKey, Plan, KeyHash> plans_;
  std::unordered_map<ScheduleKey, std::shared_ptr<const Schedule>, KeyHash> schedules_;
};

}  // namespace unisono
