// The text form of steps and schedules: what `unisono explain` prints, what error messages quote, and what a test or a
// person can write by hand and read back.
//
//   schedule scan direct rank 1 of 3 root 0 chunks 1 stage_slots 1 scratch_chunks 0 gathered_chunks 0
//   team[0] 0 1
//     0  copy input[0] -> stage[0]
//     1  publish flag 0
//     2  await flag 0 of everyone
//     3  reduce_peers input[0] + stage[0] of team[0] -> output[0] scaling
//
// A line "hosts 2,1" says who shares a host, where not all ranks do, and a line "partials" that scratch holds those;
// "partials 2" that the last two stage slots do, too.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.hpp"
#include "unisono/status.hpp"

namespace unisono {

std::string_view name_of(StepKind kind);
std::string_view name_of(Buffer buffer);

std::string text_of(ChunkRef chunk);
std::string text_of(const Step& step);
std::string text_of(const Schedule& schedule);

// Reads one schedule. Step numbers may be left out; blank lines and lines that start with # are skipped. An
// ArgumentError names the line, what was expected there and what was found.
Result<Schedule> schedule_from(std::string_view text);

}  // namespace unisono
