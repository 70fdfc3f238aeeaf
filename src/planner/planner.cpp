// See planner.hpp. Overrides come first, then the table; whatever was planned once is found by a hash.
#include "planner/planner.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "planner/rules.hpp"
#include "schedule/chunks.hpp"

namespace unisono {
namespace {

constexpr int64_t cache_line_bytes = 64;  // tiles are whole cache lines, and so whole elements

Need available_to(const Query& query) {
  const bool alone = query.ranks == 1;  // there is nobody to reach
  Need available = Need::links;
  if (alone || query.hosts.one()) available = available | Need::peer_memory;
  if (alone || (!query.hosts.one() && query.hosts.count() < query.ranks)) available = available | Need::host_memory;
  if (!query.coalesced && (alone || (query.hosts.one() && query.peer_reads))) available = available | Need::peer_reads;
  return available;
}

std::string_view order_text(Order order) {
  return order == Order::own ? "adds up in an order of its own" : "rounds 8- and 16-bit floats between additions";
}

bool applies(When when, const Query& query) {
  switch (when) {
    case When::always:
      return true;
    case When::roomy:
      return !query.crowded;
    case When::crowded:
      return query.crowded;
  }
  return false;
}

}  // namespace

std::string_view obstacle_to(const Algorithm& algorithm, const Query& query) {
  const Need available = available_to(query);
  const auto lacks = [&](Need need) { return includes(algorithm.need, need) && !includes(available, need); };
  if (lacks(Need::peer_memory)) return "needs all ranks on one host";
  if (lacks(Need::host_memory)) return "needs several hosts, at least one of which has several ranks";
  if (lacks(Need::peer_reads)) return "reads the peers' own memory, which is not permitted here";
  return "";
}

Planner::Planner(PlannerRules rules) : rules_(std::move(rules)) {
  for (const Override& rule : rules_.overrides) choices_.push_back({rule.collective, rule.algorithm, rule.text});
  for (const Rule& rule : all_rules()) {
    choices_.push_back({rule.collective, find_algorithm(rule.collective, rule.algorithm), rule.why});
    CHECK(choices_.back().algorithm != nullptr);
  }
  const auto rule_of = [](Collective collective) {
    return std::ranges::find(all_rules(), collective, &Rule::collective);
  };
  for (Collective collective : all_collectives())
    first_rules_.push_back(static_cast<size_t>(rule_of(collective) - all_rules().begin()));
}

Result<const Plan*> Planner::plan(const Query& query) {
  if (last_plan_ && query == last_query_) return last_plan_;
  const Result<int> choice = choose(query);
  if (!choice.ok()) return choice.status();
  const int root = has_root(query.collective) ? query.root : 0;
  const PlanKey key{choice.value(), query.ranks, query.rank, root, query.set_bytes, query.crowded, query.order, query.hosts};
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    const Place place{query.rank, query.ranks, root, query.hosts};
    found = plans_.emplace(key, make(choices_[choice.value()], query, place)).first;
  }
  last_query_ = query;
  last_plan_ = &found->second;
  return last_plan_;
}

Result<int> Planner::choose(const Query& query) const {
  const int64_t bytes = shown_bytes(query);
  const std::vector<Override>& overrides = rules_.overrides;
  for (size_t index = 0; index < overrides.size(); ++index) {
    const Override& rule = overrides[index];
    if (rule.collective != query.collective || bytes < rule.from_bytes || bytes > rule.up_to_bytes) continue;
    if (query.coalesced && includes(rule.algorithm->need, Need::peer_reads)) continue;  // speaks of the other calls only
    RETURN_IF_ERROR(check_possible(rule, query));
    return static_cast<int>(index);
  }
  const Need available = available_to(query);
  const std::span<const Rule> rules = all_rules();
  const size_t first = first_rules_[static_cast<size_t>(query.collective)];
  for (size_t index = first; index < rules.size() && rules[index].collective == query.collective; ++index) {
    const Rule& rule = rules[index];
    const size_t choice = overrides.size() + index;
    if (bytes <= rule.up_to_bytes && query.ranks <= rule.max_ranks && applies(rule.when, query) &&
        includes(available, choices_[choice].algorithm->need) && choices_[choice].algorithm->order <= query.order)
      return static_cast<int>(choice);
  }
  const std::string_view order = query.order == Order::own ? "" : " and keeps the order of additions that this call needs";
  return Status(ErrorCode::argument, fmt::format("no algorithm for {} works over links{}; there are {}",
                                                 name_of(query.collective), order, algorithm_names(query.collective)));
}

// The table never offers what does not fit; a user may ask for it.
Status Planner::check_possible(const Override& rule, const Query& query) const {
  const Algorithm& algorithm = *rule.algorithm;
  const int64_t bytes = shown_bytes(query), capacity = capacity_of(algorithm.path);
  std::string reason;
  if (bytes > capacity)
    reason = fmt::format("each rank shows {} here and {} holds at most {}; give it a range, as in {}:0-{}={}",
                         readable_size(bytes), algorithm.name, readable_size(capacity), name_of(rule.collective),
                         format_size(capacity), algorithm.name);
  else if (const std::string_view obstacle = obstacle_to(algorithm, query); !obstacle.empty())
    reason = fmt::format("{} {}", algorithm.name, obstacle);
  else if (algorithm.order > query.order)
    reason = fmt::format("{} {}, and {}", algorithm.name, order_text(algorithm.order),
                         "this reduction is not commutative or has to be reproducible (UNISONO_REPRODUCIBLE)");
  if (reason.empty()) return Status::success();
  return Status(ErrorCode::argument,
                fmt::format("UNISONO_PLAN: \"{}\" cannot be followed for {} of {} among {} ranks: {}. There are {}",
                            rule.text, name_of(query.collective), readable_size(query.bytes), query.ranks, reason,
                            algorithm_names(query.collective)));
}

Plan Planner::make(const Choice& choice, const Query& query, const Place& place) {
  Plan plan{.algorithm = choice.algorithm, .schedule = nullptr, .path = choice.algorithm->path, .why = choice.why};
  if (plan.path == Path::schedule) {
    plan.schedule = schedule_for(*choice.algorithm, place);
    plan.tile_bytes = tile_bytes_for(*plan.schedule, query);
    plan.window = tiling_for(query.crowded, plan.schedule->stage_slots).window;
  }
  const uint64_t tiling = hash_combine(static_cast<uint64_t>(plan.tile_bytes), static_cast<uint64_t>(plan.window));
  const uint64_t order = adds(query.collective) ? static_cast<uint64_t>(query.order) : 0;
  const uint64_t hosts = query.hosts.one() ? 0 : hash_text(query.hosts.text());
  plan.agreement = static_cast<uint32_t>(hash_combine(hash_text(plan.algorithm->name), tiling + order + hosts));
  return plan;
}

std::shared_ptr<const Schedule> Planner::schedule_for(const Algorithm& algorithm, const Place& place) {
  std::shared_ptr<const Schedule>& schedule = schedules_[{&algorithm, place}];
  if (!schedule) schedule = std::make_shared<const Schedule>(algorithm.generate(place));
  return schedule;
}

int64_t Planner::tile_bytes_for(const Schedule& schedule, const Query& query) const {
  const bool stages = schedule.stage_slots > 0;
  const int64_t chosen = rules_.tile_bytes > 0 ? round_up(rules_.tile_bytes, cache_line_bytes)
                         : stages              ? tiling_for(query.crowded, schedule.stage_slots).slot_bytes
                                               : partials_tile_bytes;
  if (!stages) return chosen;
  const int64_t room = query.set_bytes / schedule.stage_slots / cache_line_bytes * cache_line_bytes;
  CHECK(room > 0);
  return std::min(chosen, room);
}

size_t Planner::KeyHash::operator()(const PlanKey& key) const {
  const uint64_t place = hash_combine(static_cast<uint64_t>(key.ranks) << 32 | key.rank, key.root);
  return hash_combine(place, static_cast<uint64_t>(key.choice) * 8 + static_cast<uint64_t>(key.order) * 2 + key.crowded);
}

size_t Planner::KeyHash::operator()(const ScheduleKey& key) const {
  const uint64_t place = hash_combine(static_cast<uint64_t>(key.place.ranks) << 32 | key.place.rank, key.place.root);
  return hash_combine(place, static_cast<uint64_t>(key.algorithm - catalogue().data()));
}

}  // namespace unisono
