// Proves a set of schedules before anybody trusts it with data.
//
//   - Every send has its receive, every await its publication, and nobody waits for ever: sends are posted and hold
//     their source, and what writes there, or ends, waits for them. Messages from one rank to another lie in one queue, whatever
//     tile and call they are of.
//   - Every output chunk holds each contribution it should, exactly once; outputs that a rank does not have and inputs
//     are never written; chunks only land in chunks of their length.
//   - All ranks add in the same order, and in the canonical one where that is declared.
//   - No slot is overwritten while a peer may read it, nor read before it is written, with one tile in flight and with
//     several, and from one call to the next; no call returns while a peer may still read the caller's memory.
//   - Flags and memory are those of ranks on the same host; other ranks are reached by messages.
//   - Where partials are carried, none is rounded before it is finished, none is combined with what was, and all ends up rounded.
//   - All of this with separate buffers and in place, and for dtypes that partials are wider than and others.
//
// The first failure comes back as an InternalError that names rank, step and chunk. play.hpp has the model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct VerifyOptions {
  bool canonical_order = false;  // additions must follow the canonical tree: pair neighbours, carry the odd one up
  bool announced = false;        // a call returns, writes output and sends only when everybody on its rank's host has entered it
  bool sets_aside = true;        // as the engine does: see play.hpp
  int max_window = 2;            // tiles in flight that are tried: 1 up to this
  uint64_t seed = 0;             // other fingerprints and, unless 0, another interleaving
};

// One schedule a rank, in rank order; two calls of them back to back.
Status verify(std::span<const Schedule> all_ranks, VerifyOptions options = {});

// Calls of different kinds in a row on one group. Schedules that are right by themselves may need announcements here:
// a collective in which not everybody hears of everybody does not prove that the call before it was left.
Status verify_sequence(std::span<const std::vector<Schedule>> calls, VerifyOptions options = {});

}  // namespace unisono
