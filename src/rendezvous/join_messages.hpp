// What is said while joining. Both sides run on one machine, so a message is a struct; its magic, version and every
// number in it are checked before use.
#pragma once

#include <cstdint>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "transport/local_socket.hpp"
#include "unisono/status.hpp"

namespace unisono {

// Where ranks of several machines join, "0" is the agent of this machine, whatever its rank.
enum class JoinKind : uint32_t {
  hello,   // rank → 0: who I am; with its arena and the reading end of its life pipe
  member,  // 0 → rank: one for every rank; with that rank's arena, its life pipe and, where it has a pid here, its pidfd; with
           // nothing of a rank on another host
  ready,   // rank → 0: I have mapped them all
  go,      // 0 → rank: so has everyone
  refuse,  // 0 → rank: why not
  retry,   // 0 → rank: the world that you left is still being taken down; come again
  unable,  // rank → 0: I cannot join, and why
  listen,  // 0 → rank: there are ranks on other machines; open your sockets
  listening,  // rank → 0: where they are
};

struct JoinMessage {
  uint64_t magic = 0x65746e65756b6e55;
  JoinKind kind = JoinKind::hello;
  int32_t rank = 0;
  int32_t size = 0;
  int32_t pid = 0;
  int32_t host = 0;    // member: its number
  int32_t encrypt = 0, sockets_per_peer = 1;  // hello: settings that all ranks must have alike
  int32_t fabric = 0;  // hello, member: a FabricHere
  int32_t elsewhere = 0;  // listen: how many ranks are on other machines
  uint32_t code = 0;   // refuse, unable: the ErrorCode
  uint32_t flag = 0;   // hello, go: membarrier is registered
  uint64_t hosts = 0;  // hello: hash of the layout of pretended hosts, whose text is said
  uint64_t probe = 0;  // hello, member: what the arena must read back
  uint32_t out_of_reach = 0, waits_for_us = 0;  // member: see Whereabouts
  char addresses[400] = {};  // hello, listening, member: of its sockets; as long as most_addresses may be
  char version[16] = UNISONO_VERSION;
  char text[1024] = {};      // member: the name of the other machine that it is on. Last: of it, only what is said is sent

  void say(std::string_view message) {
    size_t length = std::min(message.size(), sizeof(text) - 1);
    std::memcpy(text, message.data(), length);
    text[length] = 0;
  }
  void say_addresses(std::string_view list) {
    std::ranges::fill(addresses, 0);
    list.copy(addresses, sizeof(addresses) - 1);
  }
  Status said() const {
    const bool known = code > 0 && code <= static_cast<uint32_t>(ErrorCode::internal);
    return {known ? static_cast<ErrorCode>(code) : ErrorCode::init, text};
  }
};

inline constexpr size_t least_join_bytes = offsetof(JoinMessage, text);

inline Status send(const Descriptor& socket, const JoinMessage& message, std::span<const int> descriptors, const Deadline& deadline) {
  const size_t bytes = least_join_bytes + strnlen(message.text, sizeof(message.text));
  return send_message(socket, {std::as_bytes(std::span(&message, 1)).first(bytes), descriptors}, deadline);
}
// To somebody who need not hear it: nobody is waited for, and whether it arrives is not asked.
inline void mention(const Descriptor& socket, const JoinMessage& message) {
  constexpr Deadline now{0};
  if (socket) static_cast<void>(send(socket, message, {}, now).ok());
}

struct JoinReceived {
  JoinMessage message;
  std::vector<Descriptor> descriptors;
};

// PeerLostError when the other side has closed, ProtocolError when it is none of ours.
inline Result<JoinReceived> receive(const Descriptor& socket) {
  JoinReceived result;
  auto received = receive_message(socket, std::as_writable_bytes(std::span(&result.message, 1)));
  if (!received.ok()) return received.status();
  if (received->bytes == 0) return Status(ErrorCode::peer_lost, "the connection was closed");
  if (received->bytes < least_join_bytes || received->bytes > sizeof(JoinMessage) || result.message.magic != JoinMessage{}.magic)
    return Status(ErrorCode::protocol, "a message that no rank of ours sends");
  result.message.text[sizeof(result.message.text) - 1] = 0;
  result.message.version[sizeof(result.message.version) - 1] = 0;
  result.message.addresses[sizeof(result.message.addresses) - 1] = 0;
  result.descriptors = std::move(received->descriptors);
  return result;
}

}  // namespace unisono
