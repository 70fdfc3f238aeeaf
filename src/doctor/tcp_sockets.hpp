// The TCP connections of this process, as the kernel tells of them: what they carried, what was sent again, how long segments are. Found among the open descriptors, so the library need not
// say which are its own: what carried a message is what has grown meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/address.hpp"

namespace unisono::doctor {

// A value.
struct TcpSocket {
  Address here, there;
  int64_t sent_bytes = 0, received_bytes = 0;  // acknowledged by the other end; come from it
  int64_t retransmits = 0;
  int path_mtu = 0, segment_bytes = 0;

  bool is_same(const TcpSocket& other) const { return here == other.here && there == other.there; }
};

std::vector<TcpSocket> tcp_sockets_here();

// What became of them between two looks: each connection with what was added. Those that carried nothing are left out; the one that carried most comes first.
std::vector<TcpSocket> grown_between(std::span<const TcpSocket> before, std::span<const TcpSocket> after);

}  // namespace unisono::doctor
