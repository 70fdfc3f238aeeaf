// See relay.hpp. Each machine's interface is a tun device, whose other end is a descriptor here: packets of IPv4 without anything around them, never
// longer than the interface allows, with their checksums.
#include "tests/support/relay.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

namespace unisono::testing {
namespace {

Descriptor make_wire_end() {
  Descriptor end(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  ifreq request = {};
  std::strcpy(request.ifr_name, "wire");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (!end || ioctl(end.number(), TUNSETIFF, &request) != 0) throw std::runtime_error(std::string("a tun device: ") + std::strerror(errno));
  return end;
}

uint32_t sum_of(const char* bytes, size_t count) {
  uint32_t sum = 0;
  for (size_t at = 0; at < count; ++at) sum += static_cast<uint32_t>(static_cast<unsigned char>(bytes[at])) << (at % 2 == 0 ? 8 : 0);
  return sum;
}

uint16_t folded(uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<uint16_t>(~sum));
}

// One packet of TCP over IPv4, on its way.
class Packet {
 public:
  explicit Packet(std::string bytes) : bytes_(std::move(bytes)) {}
  bool is_tcp() const { return bytes_.size() >= sizeof(iphdr) + sizeof(tcphdr) && ip().version == 4 && ip().protocol == IPPROTO_TCP; }
  size_t data_bytes() const { return is_tcp() ? bytes_.size() - data_at() : 0; }
  bool is_idle() const { return is_tcp() && data_bytes() == 0 && !tcp().syn && !tcp().fin && !tcp().rst; }  // as kernels ask each other for a sign
  bool is_opening() const { return is_tcp() && tcp().syn && !tcp().ack; }
  bool is_sealed() const { return data_bytes() > 3 && bytes_.compare(data_at(), 3, "\x17\x03\x03") == 0; }
  const std::string& bytes() const { return bytes_; }

  Packet flipped() const {
    Packet other = *this;
    other.bytes_[data_at() + data_bytes() / 2] ^= 0x10;
    return other.summed();
  }
  Packet byte(size_t index) const {
    Packet other(bytes_.substr(0, data_at()) + bytes_[data_at() + index]);
    other.tcp().seq = htonl(ntohl(tcp().seq) + static_cast<uint32_t>(index));
    return other.summed();
  }
  // For whoever it is on its way to.
  Packet as_reset() const {
    Packet other(bytes_.substr(0, data_at()));
    other.tcp().rst = 1;
    return other.summed();
  }
  // For whoever has sent it.
  Packet reset_back() const {
    Packet other = as_reset();
    std::swap(other.ip().saddr, other.ip().daddr);
    std::swap(other.tcp().source, other.tcp().dest);
    other.tcp().seq = tcp().ack_seq;
    other.tcp().ack_seq = htonl(ntohl(tcp().seq) + static_cast<uint32_t>(data_bytes()) + tcp().syn);
    other.tcp().syn = 0;
    other.tcp().ack = 1;
    return other.summed();
  }

 private:
  iphdr& ip() { return *reinterpret_cast<iphdr*>(bytes_.data()); }
  const iphdr& ip() const { return *reinterpret_cast<const iphdr*>(bytes_.data()); }
  size_t tcp_at() const { return ip().ihl * 4u; }
  tcphdr& tcp() { return *reinterpret_cast<tcphdr*>(bytes_.data() + tcp_at()); }
  const tcphdr& tcp() const { return *reinterpret_cast<const tcphdr*>(bytes_.data() + tcp_at()); }
  size_t data_at() const { return tcp_at() + tcp().doff * 4u; }
  Packet summed() {
    const size_t tcp_bytes = bytes_.size() - tcp_at();
    ip().tot_len = htons(static_cast<uint16_t>(bytes_.size()));
    ip().check = 0;
    ip().check = folded(sum_of(bytes_.data(), tcp_at()));
    tcp().check = 0;
    const uint32_t both_ends = sum_of(reinterpret_cast<const char*>(&ip().saddr), 8);
    tcp().check = folded(sum_of(bytes_.data() + tcp_at(), tcp_bytes) + both_ends + IPPROTO_TCP + static_cast<uint32_t>(tcp_bytes));
    return *this;
  }

  std::string bytes_;
};

bool take_one(std::atomic<int>& count) {
  if (count <= 0) return false;
  --count;
  return true;
}

}  // namespace

std::string cannot_relay() {
  if (std::string why = cannot_make_machines(); !why.empty()) return why;
  return access("/dev/net/tun", R_OK | W_OK) == 0 ? "" : "a wire of the test's own needs /dev/net/tun";
}

RelayedMachines::RelayedMachines() {
  make(2);
  Descriptor ends[2];
  for (int machine : {0, 1}) {
    std::thread([&] {
      enter(machine);
      ends[machine] = make_wire_end();
    }).join();
    set_up(machine, Families::both);
  }
  const pid_t parent = getpid();
  process_ = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));  // unseen by whoever waits for any child
  if (process_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) relay(ends);
  _exit(0);
}

RelayedMachines::~RelayedMachines() {
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, __WALL);
}

void RelayedMachines::relay(const Descriptor ends[2]) const {
  std::minstd_rand random(1);
  WireFaults& now = faults();
  char bytes[65536];
  while (true) {
    pollfd both[] = {{ends[0].number(), POLLIN, 0}, {ends[1].number(), POLLIN, 0}};
    poll(both, 2, -1);
    for (int from : {0, 1}) {
      const ssize_t count = read(ends[from].number(), bytes, sizeof(bytes));
      if (count <= 0) continue;
      auto pass = [&](int to, const Packet& packet) { static_cast<void>(!write(ends[to].number(), packet.bytes().data(), packet.bytes().size())); };
      const Packet packet(std::string(bytes, static_cast<size_t>(count)));
      const bool is_much = packet.data_bytes() >= much_data;
      ++now.packets;
      if (now.swallows[from] || static_cast<int>(random() % 100) < now.lost_percent) {
        ++now.lost;
      } else if (now.longest_bytes > 0 && count > now.longest_bytes && !take_one(now.long_ones_pass[from])) {
        ++now.too_long;
      } else if ((is_much && take_one(now.resets)) || (packet.is_idle() && take_one(now.idle_resets)) || (packet.is_sealed() && take_one(now.sealed_resets))) {
        if (!now.tells_senders_only) pass(1 - from, packet.as_reset());
        pass(from, packet.reset_back());
        ++now.reset;
      } else if (packet.is_opening() && take_one(now.refusals)) {
        pass(from, packet.reset_back());
        ++now.refused;
      } else if (is_much && take_one(now.flips)) {
        pass(1 - from, packet.flipped());
        ++now.flipped;
      } else if (now.one_byte_each && packet.data_bytes() > 1) {
        for (size_t index = 0; index < packet.data_bytes(); ++index) pass(1 - from, packet.byte(index));
        ++now.cut_up;
      } else {
        pass(1 - from, packet);
      }
    }
  }
}

}  // namespace unisono::testing
