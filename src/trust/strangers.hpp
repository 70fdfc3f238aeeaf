// Of too many connections that have not proven to have the secret, which one is closed. A pure function, but for how many there may be: whoever keeps a door asks it.
//
// First those go that have not even named this job, then those of the network that most of them come from, the oldest first. A crowd of
// strangers that names the job, as anybody who listens on the wire can, is closed no sooner than a member needs to shake hands: until
// then nobody goes, and whoever comes waits outside.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace unisono {

inline constexpr size_t most_strangers = 64;  // at one door
size_t strangers_within(uint64_t descriptors);  // fewer, where a process may open few: those are for its members and its user
size_t strangers_here();                        // by what this process may open now

struct Stranger {
  std::string network;  // from which it comes
  bool names_our_job = false;
  int64_t since_ns = 0;
};

// In the order in which they came. None: all of them have named this job a moment ago.
std::optional<size_t> one_to_send_away(std::span<const Stranger> strangers, int64_t now_ns);

}  // namespace unisono
