// Performing single steps with symbolic contents; play.hpp says what orders them.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "schedule/chunks.hpp"
#include "schedule/play.hpp"
#include "schedule/text.hpp"

namespace unisono {
namespace {

bool needs_announcements(const Step& step) { return is_in_output(step.target) || step.kind == StepKind::send; }

}  // namespace

bool Player::published(const Strand& strand, int peer, int flag) const {
  return flags_published_[cell(peer, strand.tile) * max_flags + flag];
}

// Whether the strand's next step, or the end of its tile, can happen now. Once it can, it can for ever.
bool Player::ready(const Strand& strand) const {
  const bool has_elder = strand.tile % options_.tiles != 0;
  if (has_elder && steps_done_[cell(strand.rank, strand.tile - 1)] <= strand.step) return false;
  const Schedule& schedule = schedule_of(strand);
  if (strand.step == static_cast<int>(schedule.steps.size())) return strand.open_sends == 0;

  const Step& step = schedule.steps[strand.step];
  if (step.kind == StepKind::await) {
    const Team team(schedule, step);
    for (int index = 0; index < team.size(); ++index)
      if (team[index] != strand.rank && !published(strand, team[index], step.flag)) return false;
    return true;
  }
  const bool receives = step.kind == StepKind::receive || step.kind == StepKind::receive_reduce;
  if (receives && (!posted_[message_of(strand)].posted || !within_reach(strand, step))) return false;
  if (needs_announcements(step) && !gate_open(strand.rank, call_of(strand.tile))) return false;
  if (step.target.buffer == Buffer::none) return true;
  return memory_[memory_.locate(strand.rank, strand.tile, step.target)].held == 0;
}

bool Player::within_reach(const Strand& strand, const Step& step) const {
  return options_.sets_aside || queue(step.peer, strand.rank).front().message == message_of(strand);
}

// What lies before a message in its queue is set aside, and the engine believes only so much of it.
Status Player::check_what_is_set_aside(int strand, const Step& step) const {
  const Strand& me = strands_[strand];
  const int oldest = call_of_rank_[me.rank] * options_.tiles + tiles_finished_[me.rank];
  for (const Queued& queued : queue(step.peer, me.rank)) {
    if (queued.message == message_of(me)) break;
    if (!queued.taken && queued.tile >= oldest + tiles_set_aside(options_.window))
      return fail(strand, fmt::format("a message of tile {} comes before it, and tile {} is not finished", queued.tile, oldest));
  }
  return Status::success();
}

Status Player::perform(int strand) {
  Strand& me = strands_[strand];
  const Step& step = schedule_of(me).steps[me.step];
  clocks_.set_now(strand, start_epochs_[cell(me.rank, me.tile)] + 1 + me.step);
  learn_elders(strand, 1 + me.step);
  if (needs_announcements(step)) learn_entries(strand);
  switch (step.kind) {
    case StepKind::send:
      send(strand, step);
      return Status::success();
    case StepKind::publish:
      publish(strand, step.flag);
      return Status::success();
    case StepKind::await:
      await(strand, step);
      return Status::success();
    case StepKind::receive:
    case StepKind::receive_reduce:
      return take(strand, step);
    case StepKind::copy:
      return copy(strand, step);
    case StepKind::reduce:
      return reduce(strand, step);
    case StepKind::read_peer:
      return read_peer(strand, step);
    case StepKind::reduce_peers:
      return reduce_peers(strand, step);
  }
  return fail(strand, "no such kind of step");
}

// The tiles before this one in the same call have performed the same step on this rank.
void Player::learn_elders(int strand, uint32_t epoch_offset) {
  const Strand& me = strands_[strand];
  const int first = std::max(me.tile - options_.window + 1, call_of(me.tile) * options_.tiles);
  for (int elder = first; elder < me.tile; ++elder)
    clocks_.learn(strand, strand_of(me.rank, elder), start_epochs_[cell(me.rank, elder)] + epoch_offset);
}

void Player::publish(int strand, int flag) {
  const Strand& me = strands_[strand];
  flags_published_[cell(me.rank, me.tile) * max_flags + flag] = true;
  if (tracks_order_) std::ranges::copy(clocks_.of(strand), flag_knowledge(me.rank, flag, me.tile).begin());
}

void Player::await(int strand, const Step& step) {
  if (!tracks_order_) return;
  const Strand& me = strands_[strand];
  const Team team(schedule_of(me), step);
  for (int index = 0; index < team.size(); ++index)
    if (team[index] != me.rank) clocks_.learn(strand, flag_knowledge(team[index], step.flag, me.tile));
}

void Player::send(int strand, const Step& step) {
  Strand& me = strands_[strand];
  const size_t index = message_of(me);
  Posted& message = posted_[index];
  message.posted = true;
  if (step.source.buffer != Buffer::none) {
    message.source = memory_.locate(me.rank, me.tile, step.source);
    message.content = memory_[message.source].content;  // cannot change while it is held
    ++memory_[message.source].held;
  }
  ++me.open_sends;
  queue(me.rank, step.peer).push_back({index, me.tile});
  if (tracks_order_) std::ranges::copy(clocks_.of(strand), message_knowledge(index).begin());
}

// The receiver learns what the sender knew. The sender learns nothing from its send being taken: on a socket that may
// mean no more than that the bytes have left.
Status Player::take(int strand, const Step& step) {
  const Strand& me = strands_[strand];
  const size_t index = message_of(me);
  const Posted& message = posted_[index];
  RETURN_IF_ERROR(check_what_is_set_aside(strand, step));
  const bool carries = message.source >= 0;
  if (carries) --memory_[message.source].held;
  --strands_[strand_of(step.peer, me.tile)].open_sends;
  std::vector<Queued>& channel = queue(step.peer, me.rank);
  std::ranges::find(channel, index, &Queued::message)->taken = true;
  const auto first_left = std::ranges::find(channel, false, &Queued::taken);
  channel.erase(channel.begin(), first_left);
  if (tracks_order_) clocks_.learn(strand, message_knowledge(index));
  if (carries != (step.target.buffer != Buffer::none))
    return fail(strand, fmt::format("rank {} sent {}", step.peer, carries ? "a chunk where nothing is awaited" : "nothing where a chunk is awaited"));
  if (!carries) return Status::success();
  if (message.content.empty()) return fail(strand, fmt::format("rank {} sent a chunk that holds nothing", step.peer));
  return step.kind == StepKind::receive ? write(strand, step.target, message.content)
                                        : add_to_target(strand, step, message.content);
}

Status Player::copy(int strand, const Step& step) {
  const Strand& me = strands_[strand];
  Fingerprint content;
  RETURN_IF_ERROR(read(strand, step.source, content));
  const bool onto_itself =
      memory_.locate(me.rank, me.tile, step.source) == memory_.locate(me.rank, me.tile, step.target);
  if (step.scales) RETURN_IF_ERROR(scale(strand, content, step.source));
  if (!content.wide && is_wide(strand, step.target) && !step.scales)
    return fail(strand, fmt::format("{} takes {} only as it was given", text_of(step.target), text_of(step.source)));
  content.wide = is_wide(strand, step.target);
  return onto_itself && !step.scales ? Status::success() : write(strand, step.target, content);
}

Status Player::scale(int strand, Fingerprint& content, ChunkRef where) const {
  if (content.part != Part::given) return fail(strand, fmt::format("{} was scaled before", text_of(where)));
  content.part = Part::scaled;
  return Status::success();
}

// Only what was scaled can be combined, and nothing can be with what is complete.
Status Player::check_parts(int strand, std::span<const Fingerprint> operands) const {
  for (const Fingerprint& operand : operands) {
    if (operand.part == Part::given) return fail(strand, "a contribution is combined that was not scaled");
    if (operand.part == Part::complete) return fail(strand, "a sum is combined that was completed before");
  }
  return Status::success();
}

Status Player::reduce(int strand, const Step& step) {
  Fingerprint addend;
  RETURN_IF_ERROR(read(strand, step.source, addend));
  return add_to_target(strand, step, addend);
}

Status Player::add_to_target(int strand, const Step& step, const Fingerprint& addend) {
  Fingerprint target;
  RETURN_IF_ERROR(read(strand, step.target, target));
  if (target.length != addend.length) return fail(strand, "the two operands are chunks of different length");
  if (target.wide != addend.wide) return fail(strand, "one of the two operands is a partial");
  if (carries_partials(strand) && !target.wide) return fail(strand, "two operands are combined that were rounded");
  const Fingerprint both[] = {target, addend};
  RETURN_IF_ERROR(check_parts(strand, both));
  const bool peer_first = step.kind == StepKind::receive_reduce && step.peer < strands_[strand].rank;
  Fingerprint sum = peer_first ? combine(addend, target) : combine(target, addend);
  if (step.completes) sum.part = Part::complete;
  return write(strand, step.target, sum);
}

Status Player::read_peer(int strand, const Step& step) {
  Fingerprint content;
  RETURN_IF_ERROR(read_remote(strand, step.peer, step.source, content));
  return write(strand, step.target, content);
}

Status Player::reduce_peers(int strand, const Step& step) {
  const int me = strands_[strand].rank;
  const Team team(schedule_of(strands_[strand]), step);
  operands_.resize(static_cast<size_t>(team.size()));
  const int length = length_class(schedule_of(strands_[strand]), step.target);
  for (int index = 0; index < team.size(); ++index) {
    const int peer = team[index];
    if (peer == me) RETURN_IF_ERROR(read(strand, step.own, operands_[index]));
    else if (step.source.buffer == Buffer::gathered) RETURN_IF_ERROR(read(strand, {Buffer::gathered, peer}, operands_[index]));
    else RETURN_IF_ERROR(read_remote(strand, peer, step.source, operands_[index]));
    if (operands_[index].length != (length >= 0 ? length : operands_[0].length))
      return fail(strand, fmt::format("what rank {} gives is a chunk of different length", peer));
  }
  const bool wide = operands_[0].wide;
  if (std::ranges::any_of(operands_, [&](const Fingerprint& operand) { return operand.wide != wide; }))
    return fail(strand, "some of the operands are partials");
  if (carries_partials(strand) && !wide && !step.scales) return fail(strand, "operands are combined that were rounded");
  if (step.scales)
    for (Fingerprint& operand : operands_) RETURN_IF_ERROR(scale(strand, operand, step.source));
  RETURN_IF_ERROR(check_parts(strand, operands_));
  Fingerprint sum = combine_canonically(operands_);
  if (step.completes) sum.part = Part::complete;
  sum.wide = wide || is_wide(strand, step.target);
  return write(strand, step.target, sum);
}

Status Player::read(int strand, ChunkRef chunk, Fingerprint& content) {
  const Strand& me = strands_[strand];
  const Location& location = memory_[memory_.locate(me.rank, me.tile, chunk)];
  if (location.content.empty() || (chunk.buffer == Buffer::stage && location.tile != me.tile))
    return fail(strand, fmt::format("{} holds nothing yet", text_of(chunk)));
  content = location.content;
  return Status::success();
}

// A read of a peer's memory has to follow the write it wants, and its owner must know of it before writing again.
// The second half is judged in write() and when the owner's call ends; here only if that has happened already.
Status Player::read_remote(int strand, int peer, ChunkRef chunk, Fingerprint& content) {
  const Strand& me = strands_[strand];
  Location& location = memory_[memory_.locate(peer, me.tile, chunk)];
  const auto fail_with = [&](std::string_view pattern) {
    return fail(strand, fmt::format(fmt::runtime(pattern), peer, text_of(chunk)));
  };
  if (chunk.buffer == Buffer::stage && memory_.set_tile(peer, me.tile) > me.tile)
    return fail_with("rank {} may have overwritten its {} already, for a later tile");
  if (chunk.buffer != Buffer::stage && call_of_rank_[peer] > call_of(me.tile))
    return fail_with("rank {} may have returned from its call, so its {} is no longer there");
  if (location.tile < me.tile) return fail_with("rank {} may not have written its {} yet");
  if (!clocks_.knows(strand, strand_of(peer, me.tile), location.epoch))
    return fail_with("nothing orders this read and the last write of rank {} to its {}");
  memory_.note_read(location, {.strand = strand, .epoch = clocks_.now(strand), .step = me.step, .next = -1});
  content = location.content;
  return Status::success();
}

Status Player::write(int strand, ChunkRef chunk, const Fingerprint& content) {
  const Strand& me = strands_[strand];
  const int length = length_class(schedule_of(me), chunk);
  if (length >= 0 && length != content.length)
    return fail(strand, fmt::format("{} is not as long as the chunk that is written there", text_of(chunk)));
  if (content.wide != is_wide(strand, chunk))
    return fail(strand, fmt::format("{} takes {} a partial", text_of(chunk), content.wide ? "no chunk that is" : "only"));
  const int index = memory_.locate(me.rank, me.tile, chunk);
  RETURN_IF_ERROR(check_unread(strand, chunk, index));
  // The slots of a set may be cut otherwise in another call, so the first write of a tile takes the whole set.
  if (chunk.buffer == Buffer::stage && memory_.set_tile(me.rank, me.tile) != me.tile) {
    const int first = memory_.first_slot(me.rank, me.tile);
    for (int slot = first; slot < first + memory_.slots(); ++slot) {
      RETURN_IF_ERROR(check_unread(strand, chunk, slot));
    }
    memory_.set_tile(me.rank, me.tile) = me.tile;
  }
  Location& location = memory_[index];
  location.content = content;
  location.tile = me.tile;
  location.epoch = clocks_.now(strand);
  location.last_read = -1;
  return Status::success();
}

Status Player::check_unread(int strand, ChunkRef chunk, int location) const {
  for (const RemoteRead* read = memory_.reads_of(memory_[location]); read; read = memory_.read_before(*read))
    if (!clocks_.knows(strand, read->strand, read->epoch))
      return fail(strand, fmt::format("{} is overwritten while rank {} may still read it in its step {}",
                                      text_of(chunk), strands_[read->strand].rank, read->step));
  return Status::success();
}

}  // namespace unisono
