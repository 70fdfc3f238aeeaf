// See peer_user.hpp. The kernel is asked by netlink, which finds the one socket at once; where that is not to be had, by its list of all of them.
//
// A socket that nobody has open any more belongs to nobody: of one that was closed and still sends, or waits out its time, the kernel says that it is root's.
// So only one counts that is connected and is some process's file.
#include "trust/peer_user.hpp"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "base/descriptor.hpp"

namespace unisono {
namespace {

struct Ends {
  sockaddr_in6 mine = {}, theirs = {};  // or of IPv4, which is shorter
  int family() const { return mine.sin6_family; }
};

using AskName = int (*)(int, sockaddr*, socklen_t*);
bool ask_name(int socket, AskName ask, sockaddr_in6& name) {
  socklen_t bytes = sizeof(name);
  return ask(socket, reinterpret_cast<sockaddr*>(&name), &bytes) == 0 && (name.sin6_family == AF_INET || name.sin6_family == AF_INET6);
}

// The words of the address, as the kernel has them, and how many there are.
size_t address_words(const sockaddr_in6& name, uint32_t (&words)[4]) {
  const auto& four = reinterpret_cast<const sockaddr_in&>(name);
  const size_t count = name.sin6_family == AF_INET ? 1 : 4;
  std::memcpy(words, count == 1 ? static_cast<const void*>(&four.sin_addr) : &name.sin6_addr, count * sizeof(words[0]));
  return count;
}

// The other end is asked for, so its address is the source.
std::optional<uid_t> ask_netlink(const Ends& ends) {
  const Descriptor netlink(socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  struct {
    nlmsghdr head;
    inet_diag_req_v2 body;
  } request = {};
  request.head.nlmsg_len = sizeof(request);
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST;
  request.body.sdiag_family = static_cast<uint8_t>(ends.family());
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~uint32_t{0};
  request.body.id.idiag_sport = ends.theirs.sin6_port;  // at the same place in both families
  request.body.id.idiag_dport = ends.mine.sin6_port;
  address_words(ends.theirs, request.body.id.idiag_src);
  address_words(ends.mine, request.body.id.idiag_dst);
  request.body.id.idiag_cookie[0] = request.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  alignas(nlmsghdr) std::array<char, 4096> answer;
  if (!netlink || send(netlink.number(), &request, sizeof(request), 0) != static_cast<ssize_t>(sizeof(request))) return std::nullopt;
  const ssize_t bytes = recv(netlink.number(), answer.data(), answer.size(), 0);
  nlmsghdr head = {};
  inet_diag_msg found = {};
  if (bytes < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(found)))) return std::nullopt;
  std::memcpy(&head, answer.data(), sizeof(head));
  std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof(found));
  const bool is_owned = found.idiag_state == TCP_ESTABLISHED && found.idiag_inode != 0;
  return head.nlmsg_type == SOCK_DIAG_BY_FAMILY && is_owned ? std::optional<uid_t>(found.idiag_uid) : std::nullopt;
}

std::string in_the_list(const sockaddr_in6& name) {
  uint32_t words[4];
  std::string text;
  char digits[16];
  for (size_t index = 0, count = address_words(name, words); index < count; ++index) {
    std::snprintf(digits, sizeof(digits), "%08" PRIX32, words[index]);
    text += digits;
  }
  std::snprintf(digits, sizeof(digits), ":%04X", ntohs(name.sin6_port));
  return text + digits;
}

// "  0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4711 …": the fourth word is the state, the eighth the user, the
// tenth the number of the socket's file.
std::optional<uid_t> look_in_list(const Ends& ends) {
  std::ifstream list(ends.family() == AF_INET ? "/proc/self/net/tcp" : "/proc/self/net/tcp6");
  const std::string wanted = in_the_list(ends.theirs) + " " + in_the_list(ends.mine) + " ";
  for (std::string line; std::getline(list, line);) {
    const size_t at = line.find(wanted);
    unsigned state = 0, user = 0;
    unsigned long file = 0;
    if (at == line.npos || std::sscanf(line.c_str() + at + wanted.size(), "%x %*s %*s %*s %u %*u %lu", &state, &user, &file) != 3) continue;
    if (state == TCP_ESTABLISHED && file != 0) return user;
  }
  return std::nullopt;
}

}  // namespace

std::optional<uid_t> user_at_other_end(int socket) {
  Ends ends;
  if (!ask_name(socket, getsockname, ends.mine) || !ask_name(socket, getpeername, ends.theirs)) return std::nullopt;
  const auto user = ask_netlink(ends);
  return user ? user : look_in_list(ends);
}

bool is_of_this_user(int socket) {
  const auto user = user_at_other_end(socket);
  return user && (*user == geteuid() || *user == 0);
}

}  // namespace unisono
