// What users of a TCPStore hear when its master is late, stopped, killed, replaced, or gone with its machine.
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <fstream>
#include <thread>

#include "tests/support/expect_error.hpp"
#include "tests/support/store_master.hpp"

namespace unisono::testing {
namespace {

// Runs the call in a thread, and the rest once that thread waits in it.
void while_waiting(const std::function<void()>& call, const std::function<void()>& meanwhile) {
  std::atomic<pid_t> inside{0};
  std::thread waiter([&] {
    inside = gettid();
    call();
  });
  EXPECT_TRUE(await([&] { return inside != 0; }) && await_asleep(getpid(), inside));
  meanwhile();
  waiter.join();
}

// Somebody else has the port at first, and closes what comes; then nobody has it; then the master comes.
TEST(TCPStoreLoss, users_wait_for_a_master_that_comes_late) {
  const FreePort free;
  const int port = free.number();
  Descriptor other = listening(port);
  std::shared_ptr<TCPStore> user;
  std::thread early([&] { user = user_of(port); });
  for (int attempt = 0; attempt < 3; ++attempt) EXPECT_TRUE(accepted_by(other));
  other.reset();
  const auto store = master({.port = port});
  early.join();
  user->set("a", "1");
  EXPECT_EQ(store->get("a"), "1");
}

TEST(TCPStoreLoss, users_of_a_master_that_does_not_come_are_told) {
  const FreePort port;
  expect_error<TimeoutError>({fmt::format("127.0.0.1:{}", port.number()), "0.05 s", "Connection refused"}, [&] { user_of(port.number(), 0.05); });
  const Descriptor full = listening();  // and whose kernel does not even answer: it has somebody in line, and room for one
  EXPECT_EQ(listen(full.number(), 0), 0);
  const int silent = Address::of_socket(full.number()).port();
  const Descriptor in_line = connected_to(silent);
  expect_error<TimeoutError>({"nobody answers"}, [&] { user_of(silent, 0.05); });
}

// In a network of this process's own, of which only the loopback interface can be used; false where it cannot be had.
void switch_loopback(bool on) {
  const Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = {};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = on ? IFF_UP : 0;
  EXPECT_EQ(ioctl(any.number(), SIOCSIFFLAGS, &request), 0);
}

bool has_own_network() {
  if (unshare(CLONE_NEWNET) != 0) return false;  // as an ordinary user
  switch_loopback(true);
  return true;
}

// Where the kernel has one port left to give, it gives a socket the port that it connects to.
TEST(TCPStoreLoss, users_do_not_speak_with_themselves) {
  expect_all_succeeded(Children(1, [&](int) {
    if (!has_own_network()) return;
    std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40000";
    expect_error<TimeoutError>({"127.0.0.1:40000"}, [&] { user_of(40000, 0.1); });
  }).wait());
}

// Whether all that was sent in this network has been acknowledged.
bool all_is_acknowledged() {
  std::ifstream lines("/proc/self/net/tcp");
  std::string line, number, local, remote, state, queues;
  std::getline(lines, line);
  while (std::getline(lines, line))
    if (std::istringstream(line) >> number >> local >> remote >> state >> queues && state != "0A" && !queues.starts_with("00000000:")) return false;
  return true;
}

// The network goes: nothing is said any more, and nothing answered, not even by the master's kernel.
TEST(TCPStoreLoss, a_master_whose_machine_vanished_is_lost) {
  if (!full_run()) GTEST_SKIP() << "takes ten seconds";
  expect_all_succeeded(Children(2, [&](int index) {
    if (!has_own_network()) return;
    const auto store = master();
    const auto user = user_of(store->port());
    int64_t gone_ns = 0;
    auto lost = [&](const std::function<void()>& call) { expect_error<StoreLostError>({"is gone"}, call); };
    auto go = [&] {
      EXPECT_TRUE(await(all_is_acknowledged));
      gone_ns = now_ns();
      switch_loopback(false);
    };
    if (index == 0) while_waiting([&] { lost([&] { user->get("never"); }); }, go);
    if (index == 1) {
      go();
      lost([&] { user->set("a", "1"); });
    }
    EXPECT_LT(seconds_since(gone_ns), 12);
  }).wait());
}

TEST(TCPStoreLoss, a_killed_master_is_lost_to_all_within_two_seconds) {
  MasterProcess process;
  const auto user = user_of(process.port()), other = user_of(process.port());
  user->set("a", "1");
  int64_t killed_ns = 0;
  while_waiting([&] { expect_error<StoreLostError>({fmt::format("127.0.0.1:{}", process.port()), "gone"}, [&] { user->get("never"); }); },
                [&] {
                  killed_ns = now_ns();
                  process.kill();
                });
  expect_error<StoreLostError>({"gone"}, [&] { other->set("a", "2"); });
  expect_error<StoreLostError>({"gone"}, [&] { user->get("a"); });
  EXPECT_LT(seconds_since(killed_ns), 2);
}

TEST(TCPStoreLoss, a_stopped_master_is_late_and_not_lost) {
  MasterProcess process;
  const auto user = user_of(process.port());
  user->set("a", "1");
  process.stop();
  int64_t started_ns = now_ns();
  expect_error<TimeoutError>({"does not answer", "\"b\""}, [&] { user->wait({"b"}, 0.1); });
  EXPECT_LT(seconds_since(started_ns), 0.6);
  user->set_timeout(0.1);
  started_ns = now_ns();
  expect_error<TimeoutError>({"0.1 s"}, [&] { user->set("a", "2"); });
  EXPECT_LT(seconds_since(started_ns), 0.6);
  process.go_on();
  user->set_timeout(60);
  user->set("a", "3");
  EXPECT_EQ(user->get("a"), "3");
}

TEST(TCPStoreLoss, another_master_in_the_same_place_is_not_taken_for_the_first) {
  auto first = master();
  const int port = first->port();
  const auto user = user_of(port);
  user->set("a", "1");
  first.reset();
  const auto second = master({.port = port});
  expect_error<StoreLostError>({"another one has taken its place"}, [&] { user->check({"a"}); });
  expect_error<StoreLostError>({"another one has taken its place"}, [&] { user->check({"a"}); });
  EXPECT_FALSE(second->check({"a"}));
}

}  // namespace
}  // namespace unisono::testing
