// What a tile and a call leave behind: the content of the outputs, buffers that nobody reads any more, and for a
// barrier that everybody came.
#include <fmt/format.h>

#include "base/check.hpp"
#include "schedule/chunks.hpp"
#include "schedule/play.hpp"
#include "schedule/text.hpp"

namespace unisono {

// The caller owns its buffers again when its call returns: whoever reads them directly must have done so.
Status Player::check_reads_done(int rank) {
  const int call = call_of_rank_[rank], strand = rank * options_.window;
  const Schedule& schedule = calls_[call].ranks[rank];
  for (int tile = call * options_.tiles; tile < (call + 1) * options_.tiles; ++tile)
    for (Buffer buffer : {Buffer::input, Buffer::output})
      for (int chunk = 0; chunk < chunk_count(schedule, buffer); ++chunk) {
        const Location& location = memory_[memory_.locate(rank, tile, {buffer, chunk})];
        for (const RemoteRead* read = memory_.reads_of(location); read; read = memory_.read_before(*read))
          if (!clocks_.knows(strand, read->strand, read->epoch))
            return broken(schedule, static_cast<int>(schedule.steps.size()),
                          fmt::format("the call may return while rank {} still reads {} in its step {}",
                                      strands_[read->strand].rank, text_of(ChunkRef{buffer, chunk}), read->step));
      }
  return Status::success();
}

Status Player::check_outputs(int strand) {
  for (int chunk = 0; chunk < chunk_count(schedule_of(strands_[strand]), Buffer::output); ++chunk)
    RETURN_IF_ERROR(check_output(strand, chunk));
  return Status::success();
}

Status Player::check_output(int strand, int chunk) {
  const Strand& me = strands_[strand];
  const ChunkRef output{Buffer::output, chunk};
  const Fingerprint& content = memory_[memory_.locate(me.rank, me.tile, output)].content;
  if (content.empty()) return fail(strand, fmt::format("{} was never written", text_of(output)));
  const Origin origin = origin_of(schedule_of(me), chunk);
  if (origin.ranks > 0) return check_sum(strand, output, origin);
  if (content.tree == contribution(me.tile, origin.rank, origin.chunk).tree) return Status::success();
  return fail(strand, fmt::format("{} does not hold what rank {} gave in its input[{}]", text_of(output), origin.rank,
                                  origin.chunk));
}

Status Player::check_sum(int strand, ChunkRef output, const Origin& origin) {
  const Strand& me = strands_[strand];
  const Fingerprint& content = memory_[memory_.locate(me.rank, me.tile, output)].content;
  const Fingerprint wanted = wanted_sum(me.tile, origin);
  if (content.sum != wanted.sum)
    return fail(strand, fmt::format("{} {}", text_of(output), wrong_sum(me.tile, origin.chunk, content.sum - wanted.sum)));
  if (options_.canonical_order && content.tree != wanted.tree)
    return fail(strand, fmt::format("{} was not added up in the canonical order", text_of(output)));
  if (content.part == Part::given) return fail(strand, fmt::format("{} was not scaled", text_of(output)));
  const bool everybodys = adds_everyone(schedule_of(me).collective);
  if (everybodys != (content.part == Part::complete))
    return fail(strand, fmt::format("{} was {}", text_of(output), everybodys ? "not completed" : "completed, and means another number of ranks on each"));
  if (origin.ranks < ranks_) return Status::success();  // no other rank has this sum
  // Where no order is declared, the first rank to finish sets it for the others.
  uint64_t& agreed = agreed_trees_[static_cast<size_t>(me.tile) * sums_per_tile_ + origin.chunk];
  if (agreed == 0) agreed = content.tree;
  if (content.tree != agreed)
    return fail(strand, fmt::format("{} was added up in another order than on another rank", text_of(output)));
  return Status::success();
}

Fingerprint Player::wanted_sum(int tile, const Origin& origin) {
  Fingerprint& wanted = wanted_[static_cast<size_t>(tile) * sums_per_tile_ + origin.chunk];
  if (origin.ranks == ranks_ && !wanted.empty()) return wanted;
  operands_.resize(static_cast<size_t>(origin.ranks));
  for (int rank = 0; rank < origin.ranks; ++rank) operands_[rank] = contribution(tile, rank, origin.chunk);
  const Fingerprint sum = combine_canonically(operands_);
  if (origin.ranks == ranks_) wanted = sum;
  return sum;
}

// Says whose contribution is missing or doubled, if it is one rank's.
std::string Player::wrong_sum(int tile, int chunk, uint64_t excess) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    const uint64_t one = contribution(tile, rank, chunk).sum;
    if (excess + one == 0) return fmt::format("lacks the contribution of rank {}", rank);
    if (excess == one) return fmt::format("has the contribution of rank {} twice", rank);
  }
  return "does not hold every rank's contribution exactly once";
}

Status Player::check_everybody_came(int strand) {
  const int tile = strands_[strand].tile;
  for (int rank = 0; rank < ranks_; ++rank) {
    const uint32_t start = start_epochs_[cell(rank, tile)];
    if (start == 0 || !clocks_.knows(strand, strand_of(rank, tile), start))
      return fail(strand, fmt::format("it may leave the barrier before rank {} has entered it", rank));
  }
  return Status::success();
}

}  // namespace unisono
