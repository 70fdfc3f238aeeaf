// One rank of a BreakingWorld: what it knows of itself, and the wires on which it tells the others.
#pragma once

#include "tests/torture/breaking_world.hpp"

namespace unisono::testing {

struct BreakingWorld::Rank final : Teller {
  enum class Telling { call, answer, leaving, death };

  Rank(BreakingWorld& its_world, int its_number, int its_host) : world(its_world), me(its_number), host(its_host) {}

  // A rank that dies or is stopped while it tells is so after a few of those whom it meant to tell.
  void tell(int to, const Notice& notice) override {
    if (!alive || world.is_apart(me, to)) return;
    if (ends_after == 0 && !is_only_stopped) return world.die(me);
    if (ends_after == 0) world.stop(me, true);
    if (ends_after >= 0) --ends_after;
    if (stopped) return held.push_back({to, notice});
    const bool is_fault = notice.head.kind == NoticeHead::Kind::fault;
    const BreakingFlaw flaw = world.flaw_;
    if (is_fault && flaw == BreakingFlaw::answers_nothing && telling == Telling::answer) return;
    if (is_fault && flaw == BreakingFlaw::leaves_unexplained && telling == Telling::leaving) return;
    if (is_fault && flaw == BreakingFlaw::deaths_unexplained && telling == Telling::death) return;
    if (notice.head.kind == NoticeHead::Kind::ended && flaw == BreakingFlaw::ended_untold) return;
    world.wires_[{me, to}].push_back(notice);
  }

  BreakingWorld& world;
  int me, host;
  bool alive = true, stopped = false, left = false, failed = false;
  std::unique_ptr<Members> members;
  Telling telling = Telling::call;
  int ends_after = -1;             // so many notices, while it tells of a fault
  bool is_only_stopped = false;    // then
  std::deque<std::pair<int, Notice>> held;  // what it will tell when it goes on
  uint32_t number = 0;     // of the last call
  bool waits = false, announced = false, has_refused = false;
  Shape shape;             // of that call
  uint64_t word = 0, history = 0;
  std::set<int> got;       // whose data, in that call
  std::set<int> asked;     // about a frame of another call
  std::set<int> lost, told_lost;
  bool refuses_next = false, differs_next = false;
};

}  // namespace unisono::testing
