// See tcp_sockets.hpp. The kernel's own header: the C library's tcp_info ends before the counts of bytes.
#include "doctor/tcp_sockets.hpp"

#include <linux/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

namespace unisono::doctor {
namespace {

// A descriptor may be closed by another thread meanwhile, and its number mean something else: the kernel then says that this is no TCP socket, or tells of another.
std::optional<TcpSocket> look_at(int descriptor) {
  constexpr int listening = 10;
  tcp_info info = {};
  socklen_t length = sizeof(info);
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state == listening) return std::nullopt;
  TcpSocket found{Address::of_socket(descriptor), Address::of_peer(descriptor)};
  if (!found.here || !found.there) return std::nullopt;
  found.sent_bytes = static_cast<int64_t>(info.tcpi_bytes_acked);
  found.received_bytes = static_cast<int64_t>(info.tcpi_bytes_received);
  found.retransmits = info.tcpi_total_retrans;
  found.path_mtu = static_cast<int>(info.tcpi_pmtu);
  found.segment_bytes = static_cast<int>(info.tcpi_snd_mss);
  return found;
}

}  // namespace

std::vector<TcpSocket> tcp_sockets_here() {
  std::vector<TcpSocket> found;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", error); !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (auto one = number >= 0 ? look_at(number) : std::nullopt) found.push_back(*one);
  }
  return found;
}

std::vector<TcpSocket> grown_between(std::span<const TcpSocket> before, std::span<const TcpSocket> after) {
  std::vector<TcpSocket> grown;
  for (TcpSocket one : after) {
    const auto old = std::ranges::find_if(before, [&](const TcpSocket& other) { return other.is_same(one); });
    if (old != before.end()) {
      one.sent_bytes -= old->sent_bytes;
      one.received_bytes -= old->received_bytes;
      one.retransmits -= old->retransmits;
    }
    if (one.sent_bytes + one.received_bytes > 0) grown.push_back(one);
  }
  std::ranges::stable_sort(grown, std::ranges::greater(), [](const TcpSocket& one) { return one.sent_bytes + one.received_bytes; });
  return grown;
}

}  // namespace unisono::doctor
