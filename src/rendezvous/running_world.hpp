// A second process of a rank whose world runs already, where the ranks met by a store that is somebody else's. Nobody of the world looks into that store any more, and what
// lies in it may be of a world that was killed. So every rank leaves there where it listens, and who comes asks one that should know, rank 0 or, for rank 0, rank 1: over a
// connection that only a rank of that very world can answer. No answer means that there is no such world; who comes then waits for the next.
//
// Where all ranks are on one machine nobody listens, and nothing is left there.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "rendezvous/roster.hpp"

namespace unisono {

struct RunningWorld {
  int64_t generation = 0;  // see job_names.hpp
  std::string job;         // its name in the store, without what the program added to it
  std::string digest;      // of all seats
  Seat seat;               // of the rank that left this

  std::string text() const;
  static std::optional<RunningWorld> parse(std::string_view text);  // nothing but what text() writes
};

enum class Whether { there, gone, unknown };

// Whether that rank is in the world, as the one that left this sees it.
Whether ask_for(int rank, const RunningWorld& running, const std::string& added, const Deadline& deadline);

}  // namespace unisono
