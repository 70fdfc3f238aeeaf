// See measure.hpp. All by the library's own messages, so that what is timed is what programs get.
#include "tools/doctor/measure.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/clock.hpp"
#include "base/sizes.hpp"
#include "doctor/tcp_sockets.hpp"
#include "transport/interfaces.hpp"
#include "unisono/distributed.hpp"

namespace unisono::tools {
namespace {

using doctor::PairEnd;
using doctor::TcpSocket;

void copy_text(std::span<char> field, const std::string& text) {
  std::ranges::fill(field, '\0');
  text.copy(field.data(), field.size() - 1);
}

// The two ends of a conversation: numbers, and bytes that mean nothing.
class Talk {
 public:
  Talk(int other, GroupHandle group, double message_s) : other_(other), options_{.group = std::move(group), .timeout_s = message_s} {}

  void tell(int64_t number) { distributed::send({&number, DType::int64, Shape{1}}, other_, options_); }
  int64_t hear() {
    int64_t number = 0;
    distributed::recv({&number, DType::int64, Shape{1}}, other_, options_);
    return number;
  }
  void meet(bool is_first) {
    if (is_first) tell(0);
    hear();
    if (!is_first) tell(0);
  }
  void send_bytes(int64_t count) { distributed::send(bytes(count), other_, options_); }
  void receive_bytes(int64_t count) { distributed::recv(bytes(count), other_, options_); }

 private:
  TensorView bytes(int64_t count) {
    if (static_cast<int64_t>(bytes_.size()) < count) bytes_.resize(static_cast<size_t>(count), std::byte{1});
    return {bytes_.data(), DType::uint8, Shape{count}};
  }

  int other_;
  distributed::LetterOptions options_;
  std::vector<std::byte> bytes_;
};

constexpr int64_t done = -1;

RoundTrip lead_round_trips(Talk& talk) {
  constexpr size_t most = 400;
  constexpr double enough_s = 0.2;
  std::vector<int64_t> times;
  talk.tell(0);  // the first opens the connection, and does not count
  talk.hear();
  for (const Deadline enough = Deadline::in_seconds(enough_s); times.size() < most && (times.empty() || !enough.passed());) {
    const int64_t begin = now_ns();
    talk.tell(0);
    talk.hear();
    times.push_back(now_ns() - begin);
  }
  talk.tell(done);
  std::ranges::sort(times);
  return {times.front(), times[times.size() / 2]};
}

RoundTrip round_trips(Talk& talk, bool is_first) {
  if (is_first) return lead_round_trips(talk);
  while (talk.hear() != done) talk.tell(0);
  return {};
}

// Messages that double until one takes long enough to be timed, or is as long as any; then that size again until the time is up. A wire that is slow gets one or two.
void send_growing(Talk& talk, int64_t round_trip_ns, PairEnd& end) {
  constexpr int64_t first_bytes = 16_KiB, most_bytes = 16_MiB, long_ns = 100'000'000;
  constexpr double enough_s = 0.25;
  const Deadline enough = Deadline::in_seconds(enough_s);
  for (int64_t size = first_bytes;;) {
    const int64_t begin = now_ns();
    talk.tell(size);
    talk.send_bytes(size);
    talk.hear();
    const int64_t took = now_ns() - begin;
    end.timed_bytes += size;
    end.timed_ns += std::max<int64_t>(took - round_trip_ns, 1);
    if (took >= long_ns || enough.passed()) break;
    if (size == most_bytes) continue;
    size *= 2;
    end.timed_bytes = end.timed_ns = 0;
  }
  talk.tell(done);
}

void receive_growing(Talk& talk) {
  for (int64_t size = talk.hear(); size != done; size = talk.hear()) {
    talk.receive_bytes(size);
    talk.tell(size);
  }
}

// Both need the least round trip, which the first has measured.
void exchange(Talk& talk, bool is_first, PairEnd& end) {
  const RoundTrip measured = round_trips(talk, is_first);
  int64_t round_trip_ns = measured.least_ns;
  if (is_first) {
    talk.tell(round_trip_ns);
    end.least_round_trip_ns = measured.least_ns;
    end.median_round_trip_ns = measured.median_ns;
    send_growing(talk, round_trip_ns, end);
    receive_growing(talk);
  } else {
    round_trip_ns = talk.hear();
    receive_growing(talk);
    send_growing(talk, round_trip_ns, end);
  }
}

// What the kernel says of the connections that carried the messages.
void note_connections(const World& world, std::span<const TcpSocket> used, PairEnd& end) {
  end.connections = static_cast<int32_t>(used.size());
  if (used.empty()) return;
  const TcpSocket& most_used = used.front();
  for (const TcpSocket& one : used) {
    end.retransmits += one.retransmits;
    end.sent_bytes += one.sent_bytes;
  }
  end.path_mtu = most_used.path_mtu;
  end.segment_bytes = most_used.segment_bytes;
  copy_text(end.here, most_used.here.text());
  copy_text(end.there, most_used.there.text());
  const std::string interface = interface_of(most_used.here);
  copy_text(end.interface, interface);
  end.interface_mtu = doctor::mtu_of(interface);
  end.interface_speed_mbit = doctor::speed_mbit_of(interface);
  const Sockets* sockets = world.ways().sockets;
  const bool came = sockets && std::ranges::any_of(sockets->listeners(), [&](const Listener& one) { return one.address == most_used.here; });
  end.connected = came ? 0 : 1;
}

}  // namespace

RoundTrip time_round_trips(int other, bool is_first, const GroupHandle& group, double message_s) {
  Talk talk(other, group, message_s);
  return round_trips(talk, is_first);
}

PairEnd measure_pair(const World& world, int other, const doctor::MachineFacts& facts, double message_s) {
  PairEnd end;
  end.rank = world.rank();
  end.reaches = !world.neighbour(other).where.out_of_reach;
  if (facts.tcp_memory) {
    std::ranges::copy(facts.tcp_memory->receive, end.receive_line);
    std::ranges::copy(facts.tcp_memory->send, end.send_line);
    end.most_receive_bytes = facts.tcp_memory->receive.back();
    end.most_send_bytes = facts.tcp_memory->send.back();
  }
  const bool is_first = world.rank() < other;
  try {
    const GroupHandle group = distributed::new_group({std::min(world.rank(), other), std::max(world.rank(), other)}, {.timeout_s = message_s});
    const std::vector<TcpSocket> before = doctor::tcp_sockets_here();
    Talk talk(other, group, message_s);
    try {
      exchange(talk, is_first, end);
    } catch (const Error& error) {
      copy_text(end.error, error.what());
    }
    const std::vector<TcpSocket> after = doctor::tcp_sockets_here();
    note_connections(world, grown_between(before, after), end);
    if (end.error[0] == '\0') talk.meet(is_first);  // who leaves closes the connections, and the other may still be looking at them
    distributed::destroy_process_group(group);
  } catch (const Error& error) {
    if (end.error[0] == '\0') copy_text(end.error, error.what());
  }
  return end;
}

}  // namespace unisono::tools
