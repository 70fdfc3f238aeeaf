// Tiles and calls: when they may start and end, and whether anybody is stuck. play_promises.cpp judges what they leave.
#include "schedule/play.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "base/check.hpp"
#include "schedule/chunks.hpp"
#include "schedule/text.hpp"

namespace unisono {
namespace {

bool order_matters(const Schedule& schedule) {
  if (schedule.collective == Collective::barrier) return true;
  return std::ranges::any_of(schedule.steps, [](const Step& step) {
    return step.kind == StepKind::read_peer || step.kind == StepKind::reduce_peers;
  });
}

bool order_matters(std::span<const CallSet> calls) {
  for (const CallSet& call : calls)
    for (const Schedule& schedule : call.ranks)
      if (order_matters(schedule)) return true;
  return false;
}

}  // namespace

Player::Player(std::span<const CallSet> calls, const PlayOptions& options)
    : calls_(calls),
      options_(options),
      ranks_(static_cast<int>(calls[0].ranks.size())),
      total_tiles_(static_cast<int>(calls.size()) * options.tiles),
      hosts_(calls[0].ranks[0].place.hosts),
      memory_(calls, options),
      clocks_(ranks_ * options.window),
      tracks_order_(order_matters(calls)),
      call_of_rank_(ranks_, 0),
      tiles_finished_(ranks_, 0),
      entered_((calls.size() + 1) * static_cast<size_t>(hosts_.count()), 0) {
  for (int rank = 0; rank < ranks_; ++rank)
    for (int index = 0; index < options.window; ++index) strands_.push_back({.rank = rank, .tile = index});
  for (int rank = 0; rank < ranks_; ++rank) ++entered_[static_cast<size_t>(hosts_.of(rank))];
  const size_t cells = static_cast<size_t>(ranks_) * total_tiles_, width = strands_.size();
  entry_knowledge_.resize((calls.size() + 1) * ranks_ * width);
  steps_done_.resize(cells);
  start_epochs_.resize(cells);
  flags_published_.resize(cells * max_flags);
  if (tracks_order_) flag_knowledge_.resize(cells * max_flags * width);
  for (const CallSet& call : calls) messages_per_tile_ = std::max(messages_per_tile_, call.messages.all.size());
  posted_.resize(messages_per_tile_ * total_tiles_);
  queues_.resize(static_cast<size_t>(ranks_) * ranks_);
  if (tracks_order_) message_knowledge_.resize(posted_.size() * width);
  for (const CallSet& call : calls) sums_per_tile_ = std::max({sums_per_tile_, ranks_, call.ranks[0].chunks});
  wanted_.resize(static_cast<size_t>(sums_per_tile_) * total_tiles_);
  agreed_trees_.resize(wanted_.size());
}

Status Player::play() {
  std::vector<int> order(strands_.size());
  std::iota(order.begin(), order.end(), 0);
  std::minstd_rand random(static_cast<uint32_t>(options_.seed));
  for (bool anybody_moved = true; anybody_moved;) {
    anybody_moved = false;
    if (options_.seed != 0) std::shuffle(order.begin(), order.end(), random);
    for (int strand : order) {
      // A strand goes as far as it can, or with a seed a few steps.
      const int most = options_.seed == 0 ? std::numeric_limits<int>::max() : 1 + static_cast<int>(random() % 8);
      bool moved = true;
      for (int count = 0; moved && count < most; ++count) {
        moved = false;
        RETURN_IF_ERROR(advance(strand, moved));
        anybody_moved |= moved;
      }
    }
  }
  const int calls = static_cast<int>(calls_.size());
  return std::ranges::all_of(call_of_rank_, [&](int call) { return call == calls; }) ? Status::success() : deadlock();
}

Status Player::advance(int strand, bool& moved) {
  Strand& me = strands_[strand];
  if (!me.running) return start_tile(strand, moved);
  if (!ready(me)) return Status::success();
  moved = true;
  const int steps = static_cast<int>(schedule_of(me).steps.size());
  if (me.step == steps) return finish_tile(strand);
  RETURN_IF_ERROR(perform(strand));
  ++me.step;
  ++steps_done_[cell(me.rank, me.tile)];
  return Status::success();
}

Status Player::start_tile(int strand, bool& moved) {
  Strand& me = strands_[strand];
  const int call = call_of_rank_[me.rank];
  if (call == static_cast<int>(calls_.size())) return Status::success();
  if (call_of(me.tile) != call) return end_call(me.rank, moved);
  moved = true;
  me.running = true;
  me.step = 0;
  const uint32_t epoch = clocks_.now(strand) + 1;
  clocks_.set_now(strand, epoch);
  start_epochs_[cell(me.rank, me.tile)] = epoch;
  for (int chunk = 0; chunk < chunk_count(schedule_of(me), Buffer::input); ++chunk) {
    Location& location = memory_[memory_.locate(me.rank, me.tile, {Buffer::input, chunk})];
    location.content = contribution(me.tile, me.rank, chunk);
    location.tile = me.tile;
    location.epoch = epoch;
  }
  return Status::success();
}

Status Player::finish_tile(int strand) {
  Strand& me = strands_[strand];
  clocks_.set_now(strand, clocks_.now(strand) + 1);
  learn_elders(strand, 1 + me.step);
  RETURN_IF_ERROR(check_outputs(strand));
  if (schedule_of(me).collective == Collective::barrier) RETURN_IF_ERROR(check_everybody_came(strand));
  ++steps_done_[cell(me.rank, me.tile)];
  ++tiles_finished_[me.rank];
  me.tile += options_.window;
  me.running = false;
  return Status::success();
}

Status Player::end_call(int rank, bool& moved) {
  int& call = call_of_rank_[rank];
  if (tiles_finished_[rank] < options_.tiles) return Status::success();
  if (!gate_open(rank, call)) return Status::success();
  learn_entries(rank * options_.window);
  join_strands(rank);
  RETURN_IF_ERROR(check_reads_done(rank));
  moved = true;
  tiles_finished_[rank] = 0;
  ++call;
  ++entered_[static_cast<size_t>(call * hosts_.count() + hosts_.of(rank))];
  const std::span<uint32_t> knowledge = clocks_.of(rank * options_.window);
  std::ranges::copy(knowledge,
                    entry_knowledge_.begin() + (static_cast<size_t>(call) * ranks_ + rank) * knowledge.size());
  return Status::success();
}

void Player::join_strands(int rank) {
  const int first = rank * options_.window;
  for (int strand = first + 1; strand < first + options_.window; ++strand) clocks_.learn(first, clocks_.of(strand));
  for (int strand = first + 1; strand < first + options_.window; ++strand) clocks_.learn(strand, clocks_.of(first));
}

void Player::learn_entries(int strand) {
  if (!options_.announced) return;
  const size_t width = strands_.size();
  const int me = strands_[strand].rank;
  const size_t call = call_of_rank_[me];
  for (int rank = 0; rank < ranks_; ++rank)
    if (hosts_.share(me, rank))
      clocks_.learn(strand, std::span(entry_knowledge_).subspan((call * ranks_ + rank) * width, width));
}

Status Player::deadlock() const {
  std::string waiting;
  Status status;
  for (const Strand& strand : strands_) {
    const Schedule& schedule =
        calls_[std::min<size_t>(call_of_rank_[strand.rank], calls_.size() - 1)].ranks[strand.rank];
    const bool oldest = strand.running && ready(strand) == false &&
                        (strand.tile % options_.tiles == 0 ||
                         steps_done_[cell(strand.rank, strand.tile - 1)] > static_cast<int>(schedule.steps.size()));
    if (!oldest) continue;
    const bool at_end = strand.step == static_cast<int>(schedule.steps.size());
    waiting += fmt::format("{}rank {} waits {}", waiting.empty() ? "" : ", ", strand.rank,
                           at_end ? "at the end for its sends to be taken"
                                  : fmt::format("in step {} ({})", strand.step, text_of(schedule.steps[strand.step])));
    if (status.ok()) status = broken(schedule, strand.step, "deadlock");
  }
  if (status.ok()) return Status(ErrorCode::internal, "deadlock, and nobody says where");
  return Status(status.code(), fmt::format("{}: {}", status.message(), waiting), status.peer());
}

std::span<uint32_t> Player::flag_knowledge(int rank, int flag, int tile) {
  const size_t width = strands_.size();
  return std::span(flag_knowledge_).subspan((cell(rank, tile) * max_flags + flag) * width, width);
}

std::span<uint32_t> Player::message_knowledge(size_t message) {
  return std::span(message_knowledge_).subspan(message * strands_.size(), strands_.size());
}

size_t Player::message_of(const Strand& strand) const {
  const Messages& messages = calls_[call_of(strand.tile)].messages;
  return strand.tile * messages_per_tile_ + messages.of_step[strand.rank][strand.step];
}

Fingerprint Player::contribution(int tile, int rank, int chunk) const {
  const uint64_t origin = (static_cast<uint64_t>(tile) << 48) ^ (static_cast<uint64_t>(rank) << 24) ^ chunk;
  return leaf(options_.seed, origin, length_class(schedule_of(rank, tile), {Buffer::input, chunk}));
}

Status Player::fail(int strand, const std::string& reason) const {
  const Strand& me = strands_[strand];
  return broken(schedule_of(me), me.step,
                fmt::format("{} (tile {}, {} in flight{})", reason, me.tile, options_.window,
                            options_.in_place ? ", in place" : ""));
}

}  // namespace unisono
