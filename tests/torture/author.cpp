// See author.hpp. Whatever is random comes from one row of dice, in one order.
#include "tests/torture/author.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tests/support/layouts.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/trial_lists.hpp"

namespace unisono::testing {
namespace {

constexpr int most_under_way = 12;
constexpr size_t most_circles = 12;  // alive at once

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

bool is_eight_bit_float(DType dtype) { return name_of(dtype).starts_with("float8"); }

// Whether a trial's count is that of the data, rather than of one piece a rank.
bool is_whole(Collective kind) {
  return kind == Collective::all_reduce || kind == Collective::reduce || kind == Collective::broadcast ||
         kind == Collective::scan || kind == Collective::exscan;
}

bool has_root(Collective kind) {
  return kind == Collective::reduce || kind == Collective::scatter || kind == Collective::broadcast ||
         kind == Collective::gather;
}

}  // namespace

Program random_program(uint64_t seed, const Scope& scope) { return Author(seed, scope).write(); }

Program Author::write() {
  choose_world();
  choose_plan();
  choose_victims();
  add_circle({.ranks = first_ranks(program_.ranks)});
  while (static_cast<int>(program_.actions.size()) < scope_.actions) write_action();
  write_finish();
  return program_;
}

void Author::choose_world() {
  program_.ranks = dice_.between(scope_.least_ranks, scope_.most_ranks);
  program_.kind = scope_.deaths || dice_.chance(50) ? Kind::processes : Kind::threads;
  Settings& settings = program_.settings = Worlds::test_settings();
  settings.timeout_s = settings.join_timeout_s = 20;  // a hang says who is missing before the test gives up on it
  settings.warn_after_s = 15;
  settings.cores = dice_.one_of<int64_t>({0, 1, 64});
  settings.tile_bytes = dice_.one_of<int64_t>({0, 0, 0, 64, 100, 4096, 10'000});
  settings.reproducible = dice_.chance(10);
  settings.spin_us = dice_.one_of<int64_t>({50, 50, 0, 1, 1000});
  settings.peer_reads = dice_.one_of({"auto", "auto", "on", "off"});
  settings.test_streams = dice_.one_of({"rings", "rings", "rings", "sockets", "sockets:8K", "rough:1", "rough:2", "rough:3"});
  if (program_.ranks < 2 || dice_.chance(60)) return;
  settings.pretend_hosts = layout_named(dice_.one_of({"alone", "halves", "uneven", "middle", "interleaved"}), program_.ranks);
}

bool Author::spans_hosts(const Circle& circle) const { return !program_.hosts().among(circle.ranks).one(); }

// For some collectives an algorithm of the catalogue, up to the size that it holds; the rest goes as the planner says.
void Author::choose_plan() {
  if (dice_.chance(30)) return;
  std::vector<std::string> parts;
  for (Collective collective : all_collectives()) {
    if (dice_.chance(30)) continue;
    std::vector<const Algorithm*> possible;
    for (const Algorithm& algorithm : catalogue())
      if (algorithm.collective == collective && algorithm.is_for_one_host() &&
          (program_.settings.pretend_hosts.empty() || algorithm.need == Need::links) &&
          (program_.settings.peer_reads != "off" || !includes(algorithm.need, Need::peer_reads)) &&
          (!program_.settings.reproducible || algorithm.order == Order::tree))
        possible.push_back(&algorithm);
    const Algorithm* algorithm = algorithms_[collective] = dice_.pick(possible);
    const int64_t capacity = capacity_of(algorithm->path);
    const std::string sizes = capacity == unlimited ? "" : fmt::format(":0-{}", capacity);
    parts.push_back(fmt::format("{}{}={}", name_of(collective), sizes, algorithm->name));
  }
  program_.settings.plan = fmt::format("{}", fmt::join(parts, ","));
}

void Author::choose_victims() {
  if (!scope_.deaths) return;
  const int most = program_.ranks - 1;
  const int count = dice_.chance(75) ? 1 : dice_.chance(80) ? std::min(2, most) : dice_.between(1, most);
  program_.victims = dice_.some_below(program_.ranks, count);
}

void Author::write_action() {
  const int64_t number = dice_.below(100);
  auto lives = [this](int circle) { return !program_.circles[static_cast<size_t>(circle)].ended; };
  auto can_split = [&](int circle) { return lives(circle) && !program_.is_doomed(circle); };
  auto can_end = [&](int circle) { return lives(circle) && circle > 0; };
  // Where a giver may run ahead, it hears of a difference in a later call only.
  auto can_differ = [&](int circle) {
    const Circle& there = program_.circles[static_cast<size_t>(circle)];
    return lives(circle) && there.ranks.size() > 1 && there.run_ahead == 0 && !spans_hosts(there);  // where it breaks the group
  };
  if (number < 78) return write_call(*some_circle(lives));
  if (number < 82) return write_finish();
  if (number < 88) return write_make();
  if (auto circle = some_circle(can_split); number < 90 && circle) return write_split(*circle);
  if (auto circle = some_circle(can_end); number < 94 && circle) return write_destroy(*circle);
  if (auto circle = some_circle(can_differ); circle) return number < 97 ? write_differ(*circle) : write_refuse(*circle);
}

std::optional<int> Author::some_circle(const std::function<bool(int)>& fits) {
  std::vector<int> circles;
  for (int circle = 0; circle < static_cast<int>(program_.circles.size()); ++circle)
    if (fits(circle)) circles.push_back(circle);
  return circles.empty() ? std::nullopt : std::optional(dice_.pick(circles));
}

int Author::add_circle(Circle circle) {
  program_.circles.push_back(std::move(circle));
  return static_cast<int>(program_.circles.size()) - 1;
}

// Few names, so that they are used again for other members soon after they came free.
std::string Author::free_name() {
  const std::string name = dice_.one_of({"", "", "one", "two", "three"});
  for (const Circle& circle : program_.circles)
    if (!circle.ended && circle.name == name) return "";
  return name;
}

void Author::write_make() {
  if (std::ranges::count(program_.circles, false, &Circle::ended) >= static_cast<int64_t>(most_circles)) return;
  Circle circle{.ranks = dice_.some_below(program_.ranks, dice_.between(1, program_.ranks)),
                .name = free_name(),
                .run_ahead = dice_.chance(30) ? dice_.between(1, 10) : 0,
                .made_by = static_cast<int>(program_.actions.size())};
  program_.actions.push_back({.deed = Deed::make, .group = add_circle(circle)});
}

// Members with a negative colour go without a group; there are three colours at most, and each may stay without
// members.
void Author::write_split(int parent) {
  Action action{.deed = Deed::split, .group = static_cast<int>(program_.circles.size()), .parent = parent};
  const std::vector<int> members = program_.circles[static_cast<size_t>(parent)].ranks;
  const int colours = dice_.between(1, 3);
  std::vector<std::vector<std::pair<int, int>>> parts(static_cast<size_t>(colours));  // key and member
  for (size_t member = 0; member < members.size(); ++member) {
    action.colours.push_back(dice_.between(-1, colours - 1));
    action.keys.push_back(dice_.between(-2, 2));
    if (action.colours.back() >= 0)
      parts[static_cast<size_t>(action.colours.back())].emplace_back(action.keys.back(), static_cast<int>(member));
  }
  for (auto& part : parts) {
    std::sort(part.begin(), part.end());
    Circle circle{.made_by = static_cast<int>(program_.actions.size()), .ended = part.empty()};
    for (auto [key, member] : part) circle.ranks.push_back(members[static_cast<size_t>(member)]);
    add_circle(circle);
  }
  program_.actions.push_back(action);
}

void Author::write_destroy(int circle) {
  write_finish();
  // Whoever refuses a call does not wait for the others. If it left at once, they might hear that instead of the
  // refusal.
  const Trial barrier{.form = &form_named("barrier", Dialect::distributed)};
  if (refused_on_.contains(circle)) program_.actions.push_back({.deed = Deed::call, .group = circle, .trial = barrier});
  program_.circles[static_cast<size_t>(circle)].ended = true;
  program_.actions.push_back({.deed = Deed::destroy, .group = circle});
}

void Author::write_finish() {
  under_way_ = 0;
  program_.actions.push_back({.deed = Deed::finish});
}

void Author::write_call(int circle) {
  const int members = static_cast<int>(program_.circles[static_cast<size_t>(circle)].ranks.size());
  Action action{.deed = Deed::call, .group = circle, .trial = random_trial(members)};
  action.trial.async_op = action.trial.form->has_async && under_way_ < most_under_way && dice_.chance(40);
  under_way_ += action.trial.async_op;
  program_.actions.push_back(action);
}

Trial Author::random_trial(int members) {
  Trial trial;
  trial.form = &dice_.pick(all_forms());
  do trial.dtype = trial.form->reduces ? dice_.pick(reducible_dtypes()) : dice_.pick(all_dtypes());
  while (trial.form->reduces && members > 8 && is_eight_bit_float(trial.dtype));
  do trial.op = trial.form->reduces ? dice_.pick(meaningful_ops(trial.dtype)) : ReduceOp::sum;
  while (!takes(*trial.form, trial.op));
  trial.root = static_cast<int>(dice_.below(members));
  trial.count = random_count(trial, members);
  return trial;
}

// A size at which something changes, or any. Mostly little data, so that a round has many calls; small tiles make many
// steps of it.
int64_t Author::random_count(const Trial& trial, int members) {
  const int64_t tile = program_.settings.tile_bytes, number = dice_.below(100);
  int64_t largest = number < 80 ? 20 << 10 : number < 97 || small_run() ? 300 << 10 : 6 << 20;
  if (tile > 0) largest = std::min(largest, 9000 + 20 * tile);
  const int64_t most = largest / element_bytes(trial.dtype) / (is_whole(trial.form->collective) ? 1 : members);
  if (dice_.chance(25)) return dice_.below(std::min(most, dice_.of_any_magnitude(20)) + 1);
  std::vector<int64_t> counts = counts_of_interest(*trial.form, trial.dtype, {.ranks = members, .tile_bytes = tile});
  std::erase_if(counts, [&](int64_t count) { return count > most; });
  return counts.empty() ? 0 : dice_.pick(counts);
}

CallChoice Author::random_choice(int members) {
  CallChoice choice;
  choice.kind = dice_.pick(all_collectives());
  choice.count = dice_.one_of<int64_t>({1, 8, 30, 1000, 5000, 50'000});
  choice.dtype = dice_.one_of({DType::float32, DType::int32, DType::uint8});
  choice.root = static_cast<int>(dice_.below(members));
  choice.async_op = dice_.chance(30);
  return choice;
}

CallChoice Author::another(const CallChoice& usual, int members) {
  CallChoice odd = usual;
  const bool has_data = usual.kind != Collective::barrier;
  if (const int64_t what = dice_.below(4); what == 0 && has_data)
    odd.count += dice_.one_of<int64_t>({1, 2000, 100'000});
  else if (what == 1 && has_data)
    odd.dtype = DType::int64;
  else if (what == 2 && has_root(usual.kind))
    odd.root = (usual.root + 1) % members;
  else
    while (odd.kind == usual.kind) odd.kind = random_choice(members).kind;
  return odd;
}

void Author::write_differ(int circle) {
  const int members = static_cast<int>(program_.circles[static_cast<size_t>(circle)].ranks.size());
  Action action;
  action.deed = Deed::differ;
  action.group = circle;
  action.member = static_cast<int>(dice_.below(members));
  action.usual = random_choice(members);
  action.odd = another(action.usual, members);
  program_.actions.push_back(action);
}

void Author::write_refuse(int circle) {
  refused_on_.insert(circle);
  const int members = static_cast<int>(program_.circles[static_cast<size_t>(circle)].ranks.size());
  program_.actions.push_back({.deed = Deed::refuse,
                              .group = circle,
                              .member = static_cast<int>(dice_.below(members)),
                              .usual = random_choice(members)});
}

}  // namespace unisono::testing
