// Ranks on two machines among strangers: who scans, says something else, stays silent or floods is neither served nor noticed, and who listens to the wire
// reads nothing where all bytes are sealed.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <fstream>
#include <thread>

#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/strangers.hpp"
#include "tests/support/trial_lists.hpp"

namespace unisono::testing {
namespace {

class MachineStrangers : public OnMachines {};

int64_t most_resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
  return 0;
}

int64_t count_lines(const std::string& text, const std::string& word) {
  int64_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// Joins again and again, computes and makes groups, for so long. How often it joined.
int live_among_strangers(int rank, int ranks, double seconds) {
  const Deadline until = Deadline::in_seconds(seconds);
  for (int times = 1;; ++times) {
    const int64_t began_ns = now_ns();
    distributed::init_process_group({});
    EXPECT_LT(seconds_between(began_ns, now_ns()), 5) << "for joining";
    expect_sum(rank, ranks, 10);
    const GroupHandle group = distributed::new_group({0, ranks - 1});
    if (rank == 0 || rank == ranks - 1) distributed::barrier({.group = group});
    expect_sum(rank, ranks, 300'000);
    std::vector<float> time_is_up(1, until.passed() ? 1.0f : 0.0f);
    distributed::all_reduce(view(time_is_up), {});
    const int64_t leaves_ns = now_ns();
    distributed::destroy_process_group();
    EXPECT_LT(seconds_between(leaves_ns, now_ns()), 3) << "for leaving";
    if (time_is_up[0] > 0) return times;
  }
}

struct Crowd {
  Strangers::Pace pace = {};
  double seconds = 5;
};

// Members' results are right, memory stays small, and each time that a rank joins its log gets one line about its own sockets and two about
// its store: of those without the secret, and of those whom others pushed out.
void expect_unmoved_by(const TestMachines& machines, const Crowd& crowd, const std::function<void(const Strangers&)>& expect_visits) {
  const MachineJob job{.machine_of_rank = {0, 0, 1, 1}};
  SharedArray<std::atomic<int64_t>> grown_kib(4), times(4);
  const Strangers strangers(machines, crowd.pace);
  Children children(4, [&](int rank) {
    become_rank(machines, job, rank);
    distributed::init_process_group({});
    expect_sum(rank, 4, 300'000);
    distributed::destroy_process_group();
    const int64_t before_kib = most_resident_kib();
    times[rank] = 1 + live_among_strangers(rank, 4, crowd.seconds);
    grown_kib[rank] = most_resident_kib() - before_kib;
  }, crowd.seconds + 60);
  const std::vector<Ending> endings = children.wait();
  expect_all_succeeded(endings);
  for (int rank = 0; rank < 4; ++rank) {
#ifndef __SANITIZE_ADDRESS__  // which keeps what was given back
    EXPECT_LT(grown_kib[rank], 32 * 1024) << "rank " << rank;
#endif
    EXPECT_LE(count_lines(endings[static_cast<size_t>(rank)].output, "unisono warning"), 3 * times[rank]) << endings[static_cast<size_t>(rank)].output;
  }
  EXPECT_EQ(strangers.at_every_address(), 0);
  expect_visits(strangers);
}

TEST_F(MachineStrangers, of_every_kind_change_nothing) {
  const TwoMachines machines;
  expect_unmoved_by(machines, {.seconds = full_run() ? 60.0 : 5.0}, [](const Strangers& strangers) {
    for (int kind = 0; kind < Strangers::kind_count; ++kind) EXPECT_GT(strangers.visits(static_cast<Strangers::Kind>(kind)), 10) << kind;
    EXPECT_GT(strangers.visits(Strangers::silent), Strangers::most_silent);
  });
}

TEST_F(MachineStrangers, in_a_flood_keep_nobody_out) {
  const TwoMachines machines;
  const double seconds = full_run() ? 20 : 2;
  expect_unmoved_by(machines, {.pace = {.flood = true}, .seconds = seconds}, [&](const Strangers& strangers) {
    EXPECT_GT(static_cast<double>(strangers.visits(Strangers::closes_at_once)), (full_run() ? 5000 : 1000) * seconds);
  });
}

// Whether somebody who listens to the wire of the machine that the calling thread is on hears this.
class Listener {
 public:
  explicit Listener(const TestMachines& machines, std::string word) : word_(std::move(word)) {
    thread_ = std::thread([this, &machines] {
      machines.enter(0);
      listen();
    });
    EXPECT_TRUE(await([&] { return listens_.load(); }));
  }
  ~Listener() { stop(); }
  void stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int64_t packets() const { return packets_; }
  int64_t heard() const { return heard_; }

 private:
  void listen() {
    const Descriptor socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)));
    sockaddr_ll wire = {};
    wire.sll_family = AF_PACKET;
    wire.sll_protocol = htons(ETH_P_ALL);
    wire.sll_ifindex = static_cast<int>(if_nametoindex("wire"));
    EXPECT_EQ(bind(socket.number(), reinterpret_cast<const sockaddr*>(&wire), sizeof(wire)), 0);
    const timeval a_moment{0, 50'000};
    setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &a_moment, sizeof(a_moment));
    listens_ = true;
    std::string packet;
    while (!over_) {
      packet.resize(1 << 17);
      const ssize_t count = recv(socket.number(), packet.data(), packet.size(), 0);
      if (count <= 0) continue;
      ++packets_;
      heard_ += std::string_view(packet).substr(0, static_cast<size_t>(count)).find(word_) != std::string_view::npos;
    }
  }

  std::string word_;
  std::atomic<bool> listens_{false}, over_{false};
  std::atomic<int64_t> packets_{0}, heard_{0};
  std::thread thread_;
};

// The same word again and again, so that any packet of data has it in it.
int64_t times_heard(const std::string& encrypt) {
  const std::string word = "canary-on-the-wire";
  const TwoMachines machines;
  Listener listener(machines, word);
  run_job(machines, {.machine_of_rank = {0, 1}, .variables = {{"UNISONO_ENCRYPT", encrypt}}}, [&](int rank) {
    std::vector<uint8_t> data(word.size() * 1000);
    if (rank == 1)
      for (size_t at = 0; at < data.size(); ++at) data[at] = static_cast<uint8_t>(word[at % word.size()]);
    distributed::broadcast(view(data), {.src = 1});
    EXPECT_EQ(std::string(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(word.size())), word);
    if (rank == 1) distributed::send(view(data), 0);
    if (rank == 0) distributed::recv(view(data), 1);
  });
  listener.stop();
  EXPECT_GT(listener.packets(), 20);
  return listener.heard();
}

TEST_F(MachineStrangers, who_listen_to_the_wire_read_nothing_that_is_sealed) {
  EXPECT_EQ(times_heard("on"), 0);
  EXPECT_GT(times_heard("off"), 0) << "nothing would be heard in any case";
}

}  // namespace
}  // namespace unisono::testing
