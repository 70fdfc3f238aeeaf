// Numbering, announcing and performing calls. Calls that wait are queue.cpp; what goes wrong is trouble.cpp; leaving is
// group_leave.cpp; how groups are made is world_groups.cpp.
#include "group/group.hpp"

#include <fmt/format.h>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"
#include "group/world.hpp"
#include "unisono/reduction.hpp"

namespace unisono {
namespace {

Likeness likeness_of(const Call& call) {
  const bool plain = !call.input.is_list() && !call.output.is_list() && !call.compare_shapes && !call.splits &&
                     call.purpose == Purpose::data && !call.op.user_defined;
  return {call.kind, call.dtype, plain, call.op.kind, call.op.factor, call.root, call.count, call.input.bytes(), call.output.bytes()};
}

}  // namespace

Group::Group(GroupParts parts, Arena& arena)
    : parts_(std::move(parts)),
      arena_(arena),
      log_(parts_.world->log()),
      policy_(parts_.world->wait_policy()),
      members_(parts_.layout, parts_.me, parts_.members, parts_.hosts, parts_.world->remotes()),
      router_(members_.shared_memory(), arena, LinkUse::steps, parts_.world->ways()),
      exchange_(members_.shared_memory(), arena),
      run_(members_.shared_memory(), router_, arena),
      mailbox_(*this, members_, arena, policy_),
      planner_(parts_.world->planner_rules()),
      number_(parts_.first_call - 1),
      seen_by_all_(number_) {
  if (!policy_.global_barrier) members_.need_fences();
}

// Takes no memory: the others count on this member from now on.
void Group::met(const GroupParts& parts) {
  parts_.places = parts.places;
  parts_.board_key = parts.board_key;
  parts_.time = parts.time;
  parts_.my_place = parts.my_place;
  parts_.peer_reads = parts.peer_reads;
  parts_.crowded = parts.crowded;
  members_.met(parts_.places, parts_.board_key.key, parts_.first_call);
  router_.met(parts_.board_key.key);
  mailbox_.met(parts_.board_key.key);
}

Group::~Group() = default;

int Group::index_of(int world_rank) const {
  for (size_t index = 0; index < parts_.ranks.size(); ++index)
    if (parts_.ranks[index] == world_rank) return static_cast<int>(index);
  return -1;
}

Status Group::usable() const {
  RETURN_IF_ERROR(outside_interrupt_check());
  return intact();
}

Status Group::intact() const {
  if (parts_.world->forked())
    return {ErrorCode::state, "this process was forked from a rank; only the process that joined may use the group"};
  if (left_) return {ErrorCode::state, fmt::format("group \"{}\" was destroyed", name())};
  if (members_.is_broken()) return members_.fault();
  return Status::success();
}

// What was thrown where nothing should be: by the user's reduction, memory that ran out, or a bug.
Status thrown_status() {
  try {
    throw;
  } catch (const Error& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& error) {
    return {ErrorCode::internal, error.what()};
  } catch (...) {
    return {ErrorCode::internal, "something that is no std::exception was thrown"};
  }
}

template <typename Perform>
bool Group::at_once(Perform perform) {
  if (queued_ != 0 || !token_.try_take()) return false;
  const AtEnd given([this] { give_token(); });
  const bool free = queued_ == 0 && !current_.call;
  if (free) perform();
  return free;
}

Status Group::run(Call&& call) {
  Status status;
  if (at_once([&] { status = perform_inline(call); })) return status;
  auto work = post(std::move(call), nullptr);
  return wait_for(*work, std::nullopt);
}

Status Group::run(Call&& first, Call&& second) {
  Status status;
  auto both = [&] {
    status = perform_inline(first);
    if (status.ok()) status = perform_inline(second);
  };
  if (at_once(both)) return status;
  auto work = post(std::move(first), std::move(second), nullptr);
  return wait_for(*work, std::nullopt);
}

Status Group::prepare(StandingCall& standing) {
  RETURN_IF_ERROR(usable());
  if (standing.before || !token_.try_take()) return Status::success();  // it is then decided when it is first made
  Status status;
  try {
    status = decide(standing.call, standing.decision);
  } catch (...) {
    status = thrown_status();
  }
  give_token();
  return status;
}

Status Group::run(const std::shared_ptr<StandingCall>& standing) {
  Status status;
  auto perform = [&] {
    if (standing->before) status = perform_inline(*standing->before);
    if (status.ok()) status = perform_inline(standing->call, standing->before ? nullptr : &standing->decision);
  };
  if (at_once(perform)) return status;
  auto work = post(standing);
  return wait_for(*work, std::nullopt);
}

Status Group::perform_inline(const Call& call, Decision* standing) {
  RETURN_IF_ERROR(usable());
  return end(fenced([&] {
    begin(call, standing);
    return wait_until_done(bed(), policy_, [this] { return turn(); }, [this] { return examine(); });
  }));
}

// In a call that the last arriver ends for all, one wake-up for the whole group is better than one for each.
Bed Group::bed() {
  return members_.bed(current_.path == Path::combine && current_.refusal.ok() && !current_.compares, router_.alarm());
}

void Group::begin(const Call& call, Decision* standing) {
  current_.call = &call;
  current_.refusal = {};
  current_.announced = current_.noted = current_.warned = current_.compares = false;
  current_.compared = 0;
  current_.differs = -1;
  current_.number = ++number_;
  current_.started_ns = current_.told_ns = current_.other_call_ns = current_.gone_ns = 0;
  current_.renews = current_.number % numbers_between_marks < max_ring;  // each entry of the rings once
  if (current_.renews) [[unlikely]]
    mark_anew();
  // What this rank alone cannot do is a refusal too: the others hear of it in the same call and nobody waits in vain.
  Status status;
  try {
    status = plan(call, standing);
    if (status.ok()) [[likely]] name_signature();
  } catch (...) {
    status = thrown_status();
  }
  if (!status.ok()) [[unlikely]]
    return turn_into_refusal(status);
  current_.word = make_word(current_.number, current_.decision->hash);
}

// What stands for the announcement in the call's word, and whether it has to be compared in full. Who runs ahead of the others leaves
// that to them.
void Group::name_signature() {
  Decision& decision = *current_.decision;
  if (decision.known_in_era == signatures_.era()) [[likely]] return;
  const Signatures::Mark mark = signatures_.mark_of(decision.announcement);
  decision.hash = mark.hash;
  if (!mark.known) signatures_.make_room();
  current_.compares = !mark.known && size() > 1 && (current_.path != Path::slot || exchange_mode() != ExchangeMode::give);
  if (!mark.known && !current_.compares) signatures_.learn(mark.hash, decision.announcement);
  if (!current_.compares) decision.known_in_era = signatures_.era();
}

void Group::mark_anew() {
  members_.renew(number_);
  for (std::optional<uint64_t>& word : ran_ahead_)
    if (word && number_ - call_of(*word) > max_ring) word.reset();
}

void Group::skip_calls(uint32_t count) {
  for (const uint32_t last = number_ + count; number_ != last;) {
    const uint32_t to_mark = numbers_between_marks - number_ % numbers_between_marks;
    number_ += std::min(to_mark, last - number_);
    if (number_ % numbers_between_marks != 0) continue;
    mark_anew();
    for (uint32_t entry = 0; entry < max_ring; ++entry) exchange_.clear(entry);
  }
  seen_by_all_ = number_;
  members_.finish(number_);
}

void Group::turn_into_refusal(const Status& why) {
  current_.refusal = why;
  current_.compares = false;
  current_.decision = &current_.own;
  current_.own.plan = nullptr;
  current_.own.announcement = announce_refusal(current_.call->kind, why.message());
  current_.word = make_word(current_.number, current_.own.announcement.hash());
}

// Chooses the path and takes what memory it needs, so that nothing can fail after the announcement but a fault.
Status Group::plan(const Call& call, Decision* standing) {
  if (standing) {
    current_.decision = standing;
    if (!standing->plan) RETURN_IF_ERROR(decide(call, *standing));
  } else {
    current_.decision = &current_.own;
    const Likeness likeness = likeness_of(call);
    if (!current_.own.plan || !likeness.plain || likeness != current_.likeness) RETURN_IF_ERROR(decide(call, current_.own));
    current_.likeness = likeness;
  }
  const Plan& plan = *current_.decision->plan;
  current_.path = plan.path;
  if (plan.path == Path::slot) return Status::success();  // as much as fits there
  if (plan.path == Path::combine) return exchange_.prepare(call);
  return run_.prepare(call, {plan.schedule.get(), plan.tile_bytes, plan.window});
}

// The algorithm and the announcement. Most programs make the same call again and again: these are then kept.
Status Group::decide(const Call& call, Decision& decision) {
  decision.plan = nullptr;
  if (call.op.user_defined) RETURN_IF_ERROR(check_units(call));
  if (call.splits) RETURN_IF_ERROR(check_splits(call, me(), size()));
  auto chosen = planner_.plan({.collective = call.kind,
                               .ranks = size(),
                               .rank = me(),
                               .root = call.root,
                               .bytes = piece_bytes(call, size()),
                               .crowded = parts_.crowded,
                               .peer_reads = parts_.peer_reads,
                               .coalesced = call.coalesced(),
                               .hosts = parts_.hosts,
                               .order = order_for(call),
                               .set_bytes = run_.stage_bytes()});
  if (!chosen.ok()) return chosen.status();
  decision.announcement = announce(call, (*chosen)->fingerprint());
  decision.known_in_era = 0;
  decision.plan = *chosen;
  return Status::success();
}

// How strict the order of additions has to be. A function of the user's writes its results down at every combination, so hops
// round nothing that one pass would not.
Order Group::order_for(const Call& call) const {
  if (!cuts_of(call.kind).reduces) return Order::own;
  const UserReduction* user = call.op.user_defined.get();
  if (user) return parts_.reproducible || user->commutative == Commutative::no ? Order::hops : Order::own;
  if (!parts_.reproducible || !depends_on_order(call.reduction(size()))) return Order::own;
  return rounds_partials(call.dtype) ? Order::tree : Order::hops;
}

// What was announced long ago may be written over once everybody has left the call it spoke of.
bool Group::may_announce() {
  const uint32_t needed = current_.number - static_cast<uint32_t>(parts_.run_ahead) - 1;
  if (at_least(seen_by_all_, needed)) return true;
  for (int member : members_.mates()) {
    const uint64_t word = members_.word(member, needed);
    if (!at_least(call_of(word), needed)) return false;
    const std::optional<uint64_t>& ahead = ran_ahead_[needed % max_ring];
    if (ahead && call_of(*ahead) == needed && call_of(word) == needed && word != *ahead) turn_into_refusal(judge(member, needed));
  }
  seen_by_all_ = needed;
  return true;
}

void Group::write_announcement() {
  const Announcement& announcement = current_.decision->announcement;
  members_.write(current_.number, announcement);
  if (current_.renews) [[unlikely]]
    exchange_.clear(current_.number);
  FAULT_POINT("before_announcement");
  if (current_.path == Path::schedule && current_.refusal.ok()) run_.show(current_.number, parts_.peer_reads);
  members_.announce(current_.number, current_.word);
  current_.announced = true;
  FAULT_POINT("announced");
  if (announcement.state == CallState::refused) members_.wake_everyone();
  if (current_.compares) [[unlikely]]
    members_.wake_others();  // they wait for it before anything else
}

// The first call with a signature: nothing is taken from the others before it is known to be theirs, too. Frames between hosts carry
// more of a signature than words do.
bool Group::compare_announcements() {
  for (; current_.compared < static_cast<int>(members_.mates().size()); ++current_.compared) {
    const int member = members_.mates()[static_cast<size_t>(current_.compared)];
    if (members_.word(member, current_.number) != current_.word) return false;
    if (!says_the_same(members_.announcement(member, current_.number), current_.decision->announcement)) current_.differs = member;
    if (current_.differs >= 0) return false;  // examine() tells
  }
  signatures_.learn(current_.decision->hash, current_.decision->announcement);
  current_.decision->known_in_era = signatures_.era();
  current_.compares = false;
  return true;
}

// The first turn of a call. What is left to do then is done over and over while others are waited for, and kept short.
Turn Group::enter_call() {
  if (!may_announce()) return Turn::blocked;
  write_announcement();
  if (!current_.refusal.ok()) {  // it has been said
    if (members_.span_hosts()) break_refused();
    return Turn::done;
  }
  if (members_.span_hosts()) note_in_history(current_.decision->announcement.long_hash());
  if (current_.path == Path::schedule)
    run_.start(current_.word, tile_, history_);
  else
    exchange_.start(*current_.call, exchange_mode(), current_.word, tile_);
  return Turn::progressed;
}

// What frames between hosts carry: all calls so far. A frame of a call that others did not make may lie where none of their calls looks for
// it; by this, whatever depends on everybody shows that everybody has made the same calls. One to one for each call, so that histories
// that differ stay different.
void Group::note_in_history(uint64_t call) {
  constexpr uint64_t odd = 0x9e3779b97f4a7c15;
  history_ = (history_ ^ call) * odd;
  history_ ^= history_ >> 32;
}

Turn Group::turn() {
  if (!current_.announced) {
    if (const Turn outcome = enter_call(); outcome != Turn::progressed) return outcome;
  }
  if (current_.compares && !compare_announcements()) [[unlikely]]
    return Turn::blocked;
  return current_.path == Path::schedule ? run_.turn() : exchange_.turn();
}

// Who only gives may go on before the others have come, as far as the ring has room for announcements.
ExchangeMode Group::exchange_mode() const {
  if (current_.path == Path::combine) return ExchangeMode::combine;
  return parts_.run_ahead > 0 && only_gives(*current_.call, me()) ? ExchangeMode::give : ExchangeMode::slot;
}

Status Group::end(Status status) {
  if (status.ok()) status = current_.refusal;
  if (status.ok() && current_.path == Path::slot && exchange_mode() == ExchangeMode::give) {
    ran_ahead_[current_.number % max_ring] = current_.word;
  } else if (status.ok()) {
    seen_by_all_ = current_.number;
    if (current_.path == Path::schedule) tile_ += static_cast<uint64_t>(run_.tiles());
    if (current_.path == Path::combine && exchange_.uses_tile()) tile_ += 1;
  }
  if (!status.ok() && current_.path == Path::schedule && current_.announced) run_.abandon();
  FAULT_POINT("before_finish");
  // A call that was given up because we leave is not finished: those who need us in it are to hear that we left.
  if (status.code() != ErrorCode::state) members_.finish(current_.number);
  if (current_.noted) note_end(status);
  current_.call = nullptr;
  if (current_.work) complete(std::exchange(current_.work, nullptr), status);
  return status;
}

}  // namespace unisono
