// See strangers.hpp.
#include "tests/support/strangers.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>

#include "base/clock.hpp"
#include "transport/address.hpp"

namespace unisono::testing {
namespace {

// A ClientHello of TLS 1.2 as far as its head goes; whoever reads on finds that the rest is none.
std::string client_hello() {
  std::string hello("\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03", 11);
  return hello + std::string(234, 'h');
}

// By kind; empty: it says nothing at once.
std::vector<std::string> words() {
  std::vector<std::string> all(Strangers::kind_count);
  all[Strangers::http] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
  all[Strangers::tls] = client_hello();
  all[Strangers::ssh] = "SSH-2.0-OpenSSH_9.2\r\n";
  all[Strangers::mpi] = std::string("\x10\x00\x00\x00OMPI\x02\x00\x00\x00ncclComm", 20);
  all[Strangers::noise].resize(1 << 20);
  uint32_t number = 1;
  for (char& byte : all[Strangers::noise]) byte = static_cast<char>((number = number * 1664525 + 1013904223) >> 24);
  return all;
}

// "0100007F:1F90" as /proc has it: words of four bytes in the machine's own order.
Address address_in(const std::string& text) {
  const size_t colon = text.find(':');
  const int port = std::stoi(text.substr(colon + 1), nullptr, 16);
  uint32_t parts[4] = {};
  for (size_t part = 0; 8 * part < colon; ++part) parts[part] = static_cast<uint32_t>(std::stoul(text.substr(8 * part, 8), nullptr, 16));
  if (colon == 8) {
    sockaddr_in four = {};
    four.sin_family = AF_INET;
    std::memcpy(&four.sin_addr, parts, sizeof(four.sin_addr));
    return Address(reinterpret_cast<const sockaddr*>(&four), sizeof(four)).with_port(port);
  }
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  std::memcpy(&six.sin6_addr, parts, sizeof(six.sin6_addr));
  return Address(reinterpret_cast<const sockaddr*>(&six), sizeof(six)).with_port(port);
}

std::vector<Address> listening() {
  std::vector<Address> all;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream sockets(table);
    std::string line;
    std::getline(sockets, line);
    while (std::getline(sockets, line)) {
      std::istringstream columns(line);
      std::string number, local, remote, state;
      columns >> number >> local >> remote >> state;
      if (state == "0A") all.push_back(address_in(local));
    }
  }
  return all;
}

// Empty: nobody answered within a moment.
Descriptor visit(const Address& place) {
  Descriptor visitor(socket(place.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!visitor) return {};
  if (connect(visitor.number(), place.get(), place.bytes()) == 0) return visitor;
  pollfd look{visitor.number(), POLLOUT, 0};
  return errno == EINPROGRESS && poll(&look, 1, 100) == 1 && look.revents == POLLOUT ? std::move(visitor) : Descriptor();
}

void say(const Descriptor& visitor, const std::string& words) {
  for (size_t said = 0; said < words.size();) {
    const ssize_t count = send(visitor.number(), words.data() + said, words.size() - said, MSG_NOSIGNAL);
    pollfd look{visitor.number(), POLLOUT, 0};
    if (count < 0 && (errno != EAGAIN || poll(&look, 1, 50) != 1)) return;
    if (count > 0) said += static_cast<size_t>(count);
  }
}

bool still_there(const Descriptor& visitor) {
  char byte;
  return recv(visitor.number(), &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

void raise_descriptor_limit() {
  const rlimit enough = {8192, 8192};
  setrlimit(RLIMIT_NOFILE, &enough);
}

}  // namespace

Strangers::Strangers(const TestMachines& machines, const Pace& pace) {
  const pid_t parent = getpid();
  for (int machine = 0; machine < machines.count(); ++machine) {
    const auto child = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));  // unseen by whoever waits for any child
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      machines.enter(machine);
      raise_descriptor_limit();
      if (getppid() == parent) live(pace);
      _exit(0);
    }
    processes_.push_back(child);
  }
}

Strangers::~Strangers() {
  for (pid_t process : processes_) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, __WALL);
  }
}

void Strangers::live(const Pace& pace) const {
  const std::vector<std::string> said = words();
  std::deque<Descriptor> silent_ones, slow_ones;
  Deadline next_second = Deadline::in_seconds(0);
  while (true) {
    const bool is_new_second = next_second.passed();
    const std::vector<Address> places = listening();
    if (!listeners_at_every_address().empty()) ++counts_[0].at_every_address;
    for (const Address& place : places) {
      for (int kind = closes_at_once; kind < (pace.flood ? 1 : int{kind_count}); ++kind) {
        const int times = kind == silent ? (is_new_second ? most_silent / static_cast<int>(places.size()) : 0) : pace.flood ? 500 : 1;
        for (int time = 0; time < times; ++time) {
          Descriptor visitor = visit(place);
          if (!visitor) break;
          ++counts_[0].visits[kind];
          say(visitor, said[static_cast<size_t>(kind)]);
          if (kind == silent) silent_ones.push_back(std::move(visitor));
          if (kind == a_byte_a_second) slow_ones.push_back(std::move(visitor));
        }
      }
    }
    std::erase_if(silent_ones, [](const Descriptor& visitor) { return !still_there(visitor); });
    while (silent_ones.size() > most_silent) silent_ones.pop_front();
    counts_[0].most_held = std::max<int64_t>(counts_[0].most_held, static_cast<int64_t>(silent_ones.size()));
    if (is_new_second) {
      for (const Descriptor& visitor : slow_ones) say(visitor, "\x16");
      std::erase_if(slow_ones, [](const Descriptor& visitor) { return !still_there(visitor); });
      next_second = Deadline::in_seconds(places.empty() ? 0 : 1);
    }
    if (places.empty() || !pace.flood) poll(nullptr, 0, pace.rest_ms);
  }
}

}  // namespace unisono::testing
