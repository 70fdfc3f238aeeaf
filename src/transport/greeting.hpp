// What the two ends of a connection between ranks say before the first byte of data, as bytes: the connector a greeting, the other end a verdict.
// docs/wire_format.md has every one of them.
//
// Functions of bytes, without sockets. What is read here was written by another process: every number is held against its bounds before it is
// used, and bytes that cannot be are a ProtocolError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "unisono/status.hpp"

namespace unisono {

inline constexpr uint32_t rank_protocol = 1;
inline constexpr size_t greeting_head_bytes = 16;    // the same in every version, as is the place of the library's version behind it
inline constexpr size_t most_greeting_bytes = 1024;  // of any version
inline constexpr size_t verdict_bytes = 256;         // the same in every version
inline constexpr int32_t most_uses = 256;            // of connections between two ranks, for one group
inline constexpr int32_t stays_sealed = 1, leads_to_fabric = 2;  // what `sealed` may be, beside 0

// What a connection is for; both ends say the same. A value, and as it lies here a part of the greeting.
struct SocketKey {
  uint64_t token = 0;  // of the process that listens
  uint64_t group = 0;
  int32_t use = 0;
  int32_t from = 0, to = 0;  // ranks; `from` connects
  int32_t sealed = 0;        // 1: it stays in TLS; 2: likewise, and both ends say on it how they are reached by a fabric (fabric_stream.hpp)
  int32_t number = 0, of = 1;  // the how-manieth of several connections for the same; of those for notices, of all that were tried

  bool operator==(const SocketKey&) const = default;
};

struct Greeting {
  uint32_t protocol = rank_protocol;
  std::string library = {};  // its version; empty: this one's
  SocketKey key;  // of another protocol it is not read
};

std::string greeting_words(const Greeting& greeting);
// How long a greeting is that begins like this. VersionError where the machine it comes from has other numbers: big-endian, or of another width.
Result<size_t> greeting_length(std::span<const std::byte, greeting_head_bytes> head);
Result<Greeting> read_greeting(std::span<const std::byte> words);  // all of it, head included
Status check_versions(const Greeting& greeting, int from, int to);  // VersionError that names both ranks and what each of them speaks

std::string verdict_words(const Status& verdict);
Status read_verdict(std::span<const std::byte> words);  // success: welcome

}  // namespace unisono
