// Agreeing on one answer, also after a fault.
//
//   every member votes
//   once everybody has done so, or is gone, somebody proposes what the votes come to
//   the hosts decide, by ballots: two members may see different votes, when somebody dies in the middle, but one proposal is decided, and all take that
//
// A vote that was cast stands. Whoever gives up waiting, at its deadline or by Ctrl-C, asks about the same question the next time.
//
// The rules are in ballot.hpp, who speaks for a host in ballot_box.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/check.hpp"
#include "base/ranks_text.hpp"
#include "group/group.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr double reminds_after_s = 0.25;

}  // namespace

std::vector<int> Group::survivors() const {
  std::vector<int> ranks;
  for (int member = 0; member < size(); ++member)
    if (members_.presence(member) == Presence::here) ranks.push_back(world_rank(member));
  return ranks;
}

Result<std::vector<int>> Group::failed_ranks() const {
  if (Status status = intact(); status.code() == ErrorCode::state) return status;
  const std::vector<int> here = survivors();
  std::vector<int> ranks;
  const Status fault = members_.is_broken() ? members_.fault() : Status();
  for (int rank : parts_.ranks) {
    const bool is_here = std::find(here.begin(), here.end(), rank) != here.end();
    const bool is_blamed = fault.code() == ErrorCode::peer_lost && fault.peer() == rank && !fault.message().starts_with(lost_way);  // others may know of its end before this rank does
    if (!is_here || is_blamed || (rank != world_rank(me()) && parts_.world->has_ended(rank))) ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Result<bool> Group::agree(bool flag, std::optional<double> timeout_s) {
  const double patience_s = timeout_s.value_or(parts_.timeout_s);
  auto decided = decide({Topic::agree, flag, Deadline::in_seconds(patience_s), patience_s});
  if (!decided.ok()) return decided.status();
  return decided->outcome.flag;
}

Result<Group::Decided> Group::decide(const Motion& motion) {
  RETURN_IF_ERROR(outside_interrupt_check());
  InterruptWatch interrupts;
  auto interrupted = [&] {
    return Status(ErrorCode::revoked, fmt::format("group \"{}\": rank {} was interrupted while it waited to agree. Nothing is broken",
                                                  name(), world_rank(me())), world_rank(me()));
  };
  std::unique_lock lock(agree_mutex_, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50))) {  // another thread of this rank agrees
    if (interrupts.tripped()) return interrupted();
    if (motion.deadline.passed())
      return Status(ErrorCode::timeout, fmt::format("group \"{}\": another thread of rank {} waits to agree since before; agree "
                                                    "from one thread at a time", name(), world_rank(me())));
  }
  if (Status status = usable(); status.code() == ErrorCode::state) return status;  // a broken group may agree
  Question& mine = questions_[static_cast<size_t>(motion.topic)];
  if (motion.topic == Topic::agree && mine.is_open && mine.flag != motion.flag)
    return Status(ErrorCode::state, fmt::format("group \"{}\": rank {} has said {} already when it last waited to agree, and the others may have counted that; agree with the same once "
                                                "more to hear what came of it", name(), world_rank(me()), mine.flag ? "yes" : "no"), world_rank(me()));
  const BallotQuestion question = vote(motion);
  FAULT_POINT("agree_said");
  members_.wake_everyone();
  BallotAnswer answer;
  Deadline remind_at = Deadline::in_seconds(reminds_after_s);
  auto turn_once = [&] {
    answer = members_.ask_ballots(question);
    if (answer.state != BallotAnswer::State::open) return Turn::done;
    if (remind_at.passed()) {
      members_.remind_of_ballots();
      remind_at = Deadline::in_seconds(reminds_after_s);
    }
    return Turn::blocked;
  };
  auto examine_once = [&]() -> Status {
    if (interrupts.tripped()) return interrupted();
    if (left_) return gone_status();
    return motion.deadline.passed() ? undecided(motion, answer) : Status::success();
  };
  WaitPolicy policy = parts_.world->wait_policy();
  RETURN_IF_ERROR(wait_until_done(members_.bed(), policy, turn_once, examine_once, motion.deadline));
  members_.wake_everyone();
  if (answer.state != BallotAnswer::State::decided) return undecided(motion, answer);
  mine.is_open = false;
  return Decided{question.number, answer.outcome};
}

void Group::decline(const Motion& motion) {
  std::unique_lock lock(agree_mutex_, std::defer_lock);
  if (!lock.try_lock_for(std::chrono::milliseconds(50)) || left_) return;
  vote(motion);
  members_.wake_everyone();
}

// Under agree_mutex_. Once for each question.
BallotQuestion Group::vote(const Motion& motion) {
  Question& mine = questions_[static_cast<size_t>(motion.topic)];
  BallotQuestion question{motion.topic, mine.is_open ? mine.number : mine.number + 1, motion.excluded, parts_.world->settings().minority};
  if (question.excluded.words().empty()) question.excluded = MemberSet(size());
  if (!mine.is_open) members_.vote(question, motion.flag);
  if (!mine.is_open) mine = {question.number, true, motion.flag};
  return question;
}

Status Group::left_behind() {
  left_behind_ = true;
  return {ErrorCode::revoked, fmt::format("group \"{}\": the others have made a smaller group without rank {}", name(), world_rank(me())), world_rank(me())};
}

Status Group::undecided(const Motion& motion, const BallotAnswer& answer) const {
  auto ranks_of = [&](const std::vector<int>& members) {
    std::vector<int> ranks;
    for (int member : members) ranks.push_back(world_rank(member));
    return ranks_text(ranks);
  };
  switch (answer.state) {
    case BallotAnswer::State::too_late:
      return {ErrorCode::revoked, fmt::format("group \"{}\": the others took rank {} for lost, and went on without it", name(), world_rank(me())), world_rank(me())};
    case BallotAnswer::State::minority: {
      std::vector<int> counted;
      for (int member = 0; member < size(); ++member)
        if (answer.counted.contains(member)) counted.push_back(member);
      return {ErrorCode::revoked,
              fmt::format("group \"{}\": rank {} can reach {} only. Of {}, none of which is known to have ended, that is not the larger part: this may be the smaller side "
                          "of a network that was cut in two, and the others may go on without it. UNISONO_MINORITY=on lets both sides go on",
                          name(), world_rank(me()), ranks_text(survivors()), ranks_of(counted)), world_rank(me())};
    }
    default: break;
  }
  if (answer.missing.empty())
    return {ErrorCode::timeout, fmt::format("group \"{}\": rank {} waited {:.1f} s to {}; everybody has voted, but too few hosts have answered. Nothing is broken: try again",
                                            name(), world_rank(me()), motion.timeout_s, motion.topic == Topic::agree ? "agree" : "shrink")};
  return {ErrorCode::timeout, fmt::format("group \"{}\": rank {} waited {:.1f} s to {}, and {} did not come. {}", name(), world_rank(me()), motion.timeout_s,
                                          motion.topic == Topic::agree ? "agree" : "shrink", ranks_of(answer.missing),
                                          motion.topic == Topic::agree ? "Nothing is broken: agree again, which asks the same question, or shrink the group if they are stuck" : "Shrink again, and exclude them if they are stuck")};
}

}  // namespace unisono
