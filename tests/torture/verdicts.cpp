// See verdicts.hpp. A group that has no victim behaves as if nobody had died. In one that has, a call ends as it would
// have, or says that a victim was lost; from then on every call on that group says the same, and the last one at the
// latest.
#include "tests/torture/verdicts.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/losses.hpp"

namespace unisono::testing {
namespace {

// docs/failure_model.md
constexpr double promised_s = 1;
constexpr int64_t witness_patience_ns = 2'000'000'000;  // how long other hosts wait for those who saw the end and do not say so

int failures() { return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

bool contains(const std::vector<int>& ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

// When a rank was told that a group had lost a member.
struct Loss {
  const Outcome* first = nullptr;               // the first to say so
  int index = std::numeric_limits<int>::max();  // the first action that said so and was not asynchronous
};

class Judge {
 public:
  Judge(const Program& program, const Outcomes& outcomes, const Stage& stage)
      : program_(program),
        outcomes_(outcomes),
        stage_(stage),
        losses_(program.circles.size() * static_cast<size_t>(program.ranks)) {}

  void judge() {
    find_first_losses();
    // The first action that fails is enough to read: the rest follows from it.
    auto goes_on = [before = failures()] { return failures() == before; };
    for (size_t index = 0; index < program_.actions.size() && goes_on(); ++index) judge_action(index);
    for (size_t circle = 0; circle < program_.circles.size() && goes_on(); ++circle) judge_last_meeting(circle);
  }

 private:
  const Circle& circle_of(size_t circle) const { return program_.circles[circle]; }
  Loss& loss_of(size_t circle, int rank) {
    return losses_[circle * static_cast<size_t>(program_.ranks) + static_cast<size_t>(rank)];
  }
  bool is_async(int index) const {
    return index < static_cast<int>(program_.actions.size()) &&
           program_.actions[static_cast<size_t>(index)].trial.async_op;
  }
  size_t circle_at(size_t index) const {
    if (index >= program_.actions.size()) return index - program_.actions.size();
    const Action& action = program_.actions[index];
    return static_cast<size_t>(action.deed == Deed::split ? action.parent : action.group);
  }
  bool is_victim(int rank) const { return contains(program_.victims, rank); }

  static ErrorCode wanted(const Action& action, size_t member) {
    if (action.deed == Deed::differ) return ErrorCode::mismatch;
    if (action.deed != Deed::refuse) return ErrorCode::ok;
    return static_cast<int>(member) == action.member ? ErrorCode::argument : ErrorCode::peer_argument;
  }

  void judge_action(size_t index) {
    const Action& action = program_.actions[index];
    if (action.deed == Deed::finish) return;
    SCOPED_TRACE(program_.text_of(index));
    const size_t circle = circle_at(index);
    const std::vector<int>& ranks = circle_of(circle).ranks;
    std::string told;
    for (size_t member = 0; member < ranks.size(); ++member) {
      if (is_victim(ranks[member])) continue;
      const Outcome& outcome = outcomes_.of(ranks[member], static_cast<int>(index));
      if (action.deed == Deed::destroy && outcome.code == ErrorCode::ok) continue;
      if (is_told_of_a_loss(static_cast<int>(index), ranks[member])) continue;
      EXPECT_TRUE(outcome.was_made()) << "rank " << ranks[member];
      EXPECT_EQ(outcome.code, wanted(action, member)) << "rank " << ranks[member] << ": " << outcome.text();
      if (outcome.code != ErrorCode::mismatch && outcome.code != ErrorCode::peer_argument) continue;
      if (told.empty()) told = outcome.text();
      EXPECT_EQ(outcome.text(), told) << "rank " << ranks[member];
    }
  }

  void find_first_losses() {
    for (int index = 0; index < outcome_count(program_); ++index)
      for (int rank = 0; rank < program_.ranks; ++rank) {
        const Outcome& outcome = outcomes_.of(rank, index);
        if (outcome.code != ErrorCode::peer_lost) continue;
        Loss& loss = loss_of(circle_at(static_cast<size_t>(index)), rank);
        if (!loss.first || outcome.ended_ns < loss.first->ended_ns) loss.first = &outcome;
        if (!is_async(index)) loss.index = std::min(loss.index, index);
      }
  }

  // Whether this call began when the rank had been told already. An asynchronous one notes when it was waited for, so
  // of two of them nothing is known; but it began after every call that stands before it and is not asynchronous.
  bool began_after(const Loss& loss, int index, const Outcome& outcome) const {
    return is_async(index) ? index > loss.index : outcome.entered_ns >= loss.first->ended_ns;
  }

  // Whether the outcome is that a member was lost, as it must be once the rank was told.
  bool is_told_of_a_loss(int index, int rank) {
    const size_t circle = circle_at(static_cast<size_t>(index));
    const Loss& loss = loss_of(circle, rank);
    const Outcome& outcome = outcomes_.of(rank, index);
    if (!program_.is_doomed(static_cast<int>(circle)) || !loss.first) return false;
    if (!outcome.was_made()) return true;  // on a group that could not be made
    if (outcome.code != ErrorCode::peer_lost && !began_after(loss, index, outcome)) return false;
    EXPECT_EQ(outcome.text(), loss.first->text()) << "rank " << rank << ": the first cause stays";
    if (&outcome == loss.first) judge_loss(circle, rank, outcome);
    return true;
  }

  void judge_loss(size_t circle, int rank, const Outcome& outcome) {
    EXPECT_TRUE(is_to_blame(circle, outcome.peer))
        << "rank " << rank << " blames rank " << outcome.peer << ": " << outcome.text();
    EXPECT_NE(outcome.text().find(fmt::format("rank {} ", outcome.peer)), std::string::npos) << outcome.text();
    EXPECT_EQ(outcome.text().find("has not ended"), std::string::npos) << "rank " << rank << ": " << outcome.text();
    // Whoever waits for a member that is stopped, in a call that the victim had finished, is told when that one goes on.
    int64_t since_ns = outcome.entered_ns;
    for (int member : circle_of(circle).ranks) since_ns = std::max(since_ns, stage_.continued_ns[member].load());
    for (int victim : program_.victims)
      if (victim == outcome.peer || !is_victim(outcome.peer))
        since_ns = std::max(since_ns, knowable_ns(victim, rank));
    EXPECT_LT(seconds_between(since_ns, outcome.ended_ns), promised_s) << "rank " << rank << ": " << outcome.text();
  }

  // From when on a rank can know of a victim's end. On the victim's host everybody sees it; to other hosts it is told by the rest of
  // that host, who cannot while they are stopped, and are waited for no longer than patience lasts. Where there is no rest, or it has
  // ended too, nobody is waited for.
  int64_t knowable_ns(int victim, int rank) const {
    const Hosts hosts = program_.hosts();
    const int64_t killed_ns = stage_.killed_ns[victim];
    if (hosts.share(victim, rank)) return killed_ns;
    int64_t witnessed_ns = killed_ns;
    for (int witness : hosts.ranks_on(hosts.of(victim))) {
      if (witness == victim) continue;
      const int64_t continued_ns = stage_.continued_ns[witness], ended_ns = stage_.killed_ns[witness];
      witnessed_ns = std::max(witnessed_ns, ended_ns == 0 ? continued_ns : std::min(continued_ns, ended_ns));
    }
    return std::min(witnessed_ns, killed_ns + witness_patience_ns);
  }

  // A victim of this group; or a survivor that gave up making the group because of one.
  bool is_to_blame(size_t circle, int peer) const {
    if (peer < 0 || !contains(circle_of(circle).ranks, peer)) return false;
    const int made_by = circle_of(circle).made_by;
    return is_victim(peer) || (made_by >= 0 && outcomes_.of(peer, made_by).code == ErrorCode::peer_lost);
  }

  // Whether a victim died before it came to the last meeting. One that dies in it may have given all that was needed.
  bool somebody_stayed_away(size_t circle) const {
    const int meeting = static_cast<int>(program_.actions.size() + circle);
    return std::ranges::any_of(program_.victims, [&](int victim) {
      return contains(circle_of(circle).ranks, victim) && outcomes_.of(victim, meeting).entered_ns == 0;
    });
  }

  void judge_last_meeting(size_t circle) {
    if (circle_of(circle).ended) return;
    SCOPED_TRACE(
        fmt::format("the last meeting of group {} of ranks [{}]", circle, fmt::join(circle_of(circle).ranks, ", ")));
    for (int rank : circle_of(circle).ranks) {
      if (is_victim(rank)) continue;
      const int index = static_cast<int>(program_.actions.size() + circle);
      const Outcome& outcome = outcomes_.of(rank, index);
      if (is_told_of_a_loss(index, rank)) continue;
      EXPECT_TRUE(outcome.was_made()) << "rank " << rank;
      EXPECT_EQ(outcome.code, ErrorCode::ok) << "rank " << rank << ": " << outcome.text();
      EXPECT_FALSE(somebody_stayed_away(circle)) << "rank " << rank << " does not know";
    }
  }

  const Program& program_;
  const Outcomes& outcomes_;
  const Stage& stage_;
  std::vector<Loss> losses_;  // by circle and rank
};

}  // namespace

void expect_outcomes(const Program& program, const Outcomes& outcomes, const Stage& stage) {
  Judge(program, outcomes, stage).judge();
}

}  // namespace unisono::testing
