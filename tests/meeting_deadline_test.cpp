// Joining is over within a second of its deadline, wherever the wire is cut, and whoever does not answer.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "tests/support/losses.hpp"
#include "tests/support/meeting_watch.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {
namespace {

class MeetingDeadline : public OnMachines {};

constexpr double join_timeout_s = 3;

MachineJob short_job(const std::vector<int>& machine_of_rank) {
  return {.machine_of_rank = machine_of_rank, .variables = {{"UNISONO_JOIN_TIMEOUT", std::to_string(join_timeout_s)}}};
}

// From the machine that the caller is on, and at once: what is under way is lost.
void cut_here() {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq wire = {};
  std::strncpy(wire.ifr_name, "wire", sizeof(wire.ifr_name) - 1);
  ASSERT_EQ(ioctl(socket.number(), SIOCGIFFLAGS, &wire), 0);
  wire.ifr_flags = static_cast<short>(wire.ifr_flags & ~IFF_UP);
  ASSERT_EQ(ioctl(socket.number(), SIOCSIFFLAGS, &wire), 0);
}

// Two ranks join by a store on the first machine. When the entry is there the wire is cut: they have joined by then, or fail in time.
void cut_at(const std::string& entry, double later_s) {
  SCOPED_TRACE(fmt::format("{} and {} s", entry, later_s));
  const TwoMachines machines;
  Outcomes outcomes(2);
  SharedArray<Signs> signs(1);
  Children children(3, [&](int index) {
    become_rank(machines, short_job({0, 1}), index % 2);
    if (index == 2) {
      const auto store = given_store(true);
      const std::string prefix = prefix_in(*store);
      store->wait({fmt::format("{}/{}", prefix, entry)});
      const Deadline later = Deadline::in_seconds(later_s);
      while (!later.passed()) continue;
      cut_here();
      for (;;) pause();
    }
    const auto store = given_store(false);
    outcomes.note(index, [&] { distributed::init_process_group({.rank = index, .world_size = 2, .store = store}); });
    signs[0].ready += 1;
    if (outcomes.of(index).code == ErrorCode::ok) _exit(0);  // leaving takes its time where nobody answers
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 2; }));
  children.kill(2);
  children.wait();
  for (int rank : {0, 1}) EXPECT_LT(outcomes.of(rank).took_s(), join_timeout_s + 1) << rank << ": " << outcomes.of(rank).text();
}

TEST_F(MeetingDeadline, holds_wherever_the_wire_is_cut) {
  for (const char* entry : {"seats/1", "addresses/1", "reach/1", "ready/1"}) cut_at(entry, 0);
  const int steps = small_run() ? 2 : full_run() ? 40 : 8;
  for (int step = 1; step <= steps; ++step) cut_at("ready/1", step * 0.0005);
}

// The store's user is connected, and then nobody answers.
TEST_F(MeetingDeadline, holds_where_a_given_store_is_out_of_reach) {
  const TwoMachines machines;
  Outcomes outcomes(1);
  SharedArray<Signs> signs(1);
  Children children(2, [&](int index) {
    become_rank(machines, short_job({0, 1}), index);
    if (index == 0) {
      const auto store = given_store(true);
      signs[0].ready = 1;
      EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
      cut_here();
      signs[0].ready = 2;
      for (;;) pause();
    }
    const auto store = given_store(false);
    signs[0].go = 1;
    EXPECT_TRUE(await([&] { return signs[0].ready == 2; }));
    outcomes.note(0, [&] { distributed::init_process_group({.rank = 1, .world_size = 2, .store = store}); });
    signs[0].ready = 3;
    _exit(0);
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
  children.kill(0);
  children.wait();
  EXPECT_EQ(outcomes.of(0).code, ErrorCode::init) << outcomes.of(0).text();
  EXPECT_LT(outcomes.of(0).took_s(), join_timeout_s + 1) << outcomes.of(0).text();
}

// The store is rank 0's own; rank 2 does not come, so that all wait until their deadline.
TEST_F(MeetingDeadline, holds_where_the_machine_of_rank_0_is_out_of_reach) {
  const TwoMachines machines;
  Outcomes outcomes(2);
  SharedArray<Signs> signs(1);
  Children children(3, [&](int index) {
    become_rank(machines, short_job({0, 1, 1}), index == 2 ? 0 : index);
    if (index == 2) {
      const auto store = served_store();
      store->wait({served_prefix + "/seats/0", served_prefix + "/seats/1"});
      cut_here();
      signs[0].go = 1;
      _exit(0);
    }
    outcomes.note(index, [&] { distributed::init_process_group({}); });
  });
  children.wait();
  for (int rank : {0, 1}) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::init) << outcomes.of(rank).text();
    EXPECT_LT(outcomes.of(rank).took_s(), join_timeout_s + 1) << rank << ": " << outcomes.of(rank).text();
  }
}

}  // namespace
}  // namespace unisono::testing
