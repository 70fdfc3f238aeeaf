// What a program says of itself; see program.hpp. How it is written: author.cpp.
#include "tests/torture/program.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::testing {
namespace {

std::string text_of(const CallChoice& choice) {
  return fmt::format("{} {}[{}] root {}{}", name_of(choice.kind), name_of(choice.dtype), choice.count, choice.root,
                     choice.async_op ? " (asynchronous)" : "");
}

}  // namespace

std::string Program::text() const {
  return fmt::format("{} ranks as {}, cores {}, tile {}, spin {} us, peer_reads {}, streams {}, hosts \"{}\", plan \"{}\", victims [{}]", ranks,
                     kind == Kind::threads ? "threads" : "processes", settings.cores, settings.tile_bytes,
                     settings.spin_us, settings.peer_reads, settings.test_streams, settings.pretend_hosts, settings.plan, fmt::join(victims, ", "));
}

std::string Program::text_of(size_t index) const {
  const Action& action = actions[index];
  const Circle& circle = circles[static_cast<size_t>(action.group)];
  const std::string group = fmt::format("group {} \"{}\" of ranks [{}] run_ahead {}", action.group, circle.name,
                                        fmt::join(circle.ranks, ", "), circle.run_ahead);
  const std::string usual = testing::text_of(action.usual), odd = testing::text_of(action.odd);
  switch (action.deed) {
    case Deed::call:
      return fmt::format("#{} {} on {}", index, action.trial.text(), group);
    case Deed::finish:
      return fmt::format("#{} waits for all", index);
    case Deed::make:
      return fmt::format("#{} makes {}", index, group);
    case Deed::split:
      return fmt::format("#{} splits group {} by [{}]", index, action.parent, fmt::join(action.colours, ", "));
    case Deed::destroy:
      return fmt::format("#{} ends {}", index, group);
    case Deed::differ:
      return fmt::format("#{} {}, but {} by member {}, on {}", index, usual, odd, action.member, group);
    case Deed::refuse:
      return fmt::format("#{} {}, refused by member {}, on {}", index, usual, action.member, group);
  }
  return {};
}

bool Program::is_doomed(int circle) const {
  const std::vector<int>& members = circles[static_cast<size_t>(circle)].ranks;
  return std::ranges::any_of(victims, [&](int victim) { return std::ranges::find(members, victim) != members.end(); });
}

Hosts Program::hosts() const {
  return settings.pretend_hosts.empty() ? Hosts() : Hosts::parse("layout", settings.pretend_hosts, ranks).value();
}

void make_patterns_of(const Program& program) {
  for (const Action& action : program.actions)
    if (action.deed == Deed::call)
      make_patterns_of({&action.trial, 1},
                       static_cast<int>(program.circles[static_cast<size_t>(action.group)].ranks.size()));
}

}  // namespace unisono::testing
