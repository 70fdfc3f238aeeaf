// UCX between pretended hosts, over its shared memory and, where a test says so, over its TCP: collectives, a rank that is killed, ranks that differ, settings that contradict each other. The rest of
// the live tests run on it in the rough tier (modes l-ucx and m-ucx); what a stream does on a fabric is in fabric_stream_test.
#include "transport/ucx_library.hpp"

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "tests/support/calls.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"
#include "tests/support/trial_lists.hpp"
#include "transport/fabric_choice.hpp"

namespace unisono::testing {
namespace {

Settings by_ucx(Settings settings, const std::string& layout) {
  settings.pretend_hosts = layout;
  settings.transport = "ucx";
  settings.fabric = "trusted";
  return settings;
}

Worlds on_hosts(const std::string& layout, int size, bool tcp) {
  return ranks(size).with([&](Settings& settings) {
    settings = by_ucx(settings, layout);
    settings.ucx_tcp = tcp;
  });
}

class UcxBetweenHosts : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    setenv("UCX_TLS", GetParam() ? "tcp,self" : "shm,self", 1);
    if (const auto library = load_ucx({}); !library.ok()) GTEST_SKIP() << "needs UCX (Debian: libucx0): " << library.status().message();
  }
};

TEST_P(UcxBetweenHosts, carries_every_collective) {
  const int every = scale() == Scale::full ? 3 : scale() == Scale::normal ? 23 : 61;
  perform_all(trials_of_sizes({.ranks = 4, .largest_bytes = 2'000'000, .every = every}), on_hosts("2,2", 4, GetParam()));
}

TEST_P(UcxBetweenHosts, carries_asynchronous_calls) {
  std::vector<Trial> trials = trials_of_sizes({.ranks = 3, .largest_bytes = 200'000, .every = scale() == Scale::full ? 5 : 61});
  for (Trial& trial : trials) trial.async_op = true;
  perform_all(trials, on_hosts("1,2", 3, GetParam()));
}

// Of all sockets of this process that are TCP's.
int64_t bytes_sent_by_tcp() {
  int64_t bytes = 0;
  for (int number = 3; number < 1024; ++number) {
    tcp_info info = {};
    socklen_t length = sizeof(info);
    if (getsockopt(number, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) bytes += static_cast<int64_t>(info.tcpi_bytes_acked);
  }
  return bytes;
}

TEST_P(UcxBetweenHosts, leaves_tcp_to_itself) {
  if (GetParam()) GTEST_SKIP() << "whose own TCP looks like any other";
  const auto endings = run_processes(2, on_hosts("1,1", 2, false).settings, [](TestWorld& world) {
    std::vector<float> data(1 << 20, 1);
    distributed::all_reduce(view(data), {.group = world.group()});
    const int64_t before = bytes_sent_by_tcp();
    for (int calls = 0; calls < 10; ++calls) distributed::all_reduce(view(data), {.group = world.group()});
    EXPECT_EQ(data[5], 2048.0F);
    EXPECT_LT(bytes_sent_by_tcp() - before, 400'000) << "40 MB were sent, and TCP carries what was taken of them";
    distributed::barrier({.group = world.group()});
  });
  for (const Ending& ending : endings) EXPECT_TRUE(ending.succeeded()) << ending.output;
}

TEST_P(UcxBetweenHosts, tells_of_a_rank_that_is_killed) {
  const auto endings = run_processes(2, on_hosts("1,1", 2, GetParam()).settings, [](TestWorld& world) {
    std::vector<float> data(1 << 18, 1);
    distributed::all_reduce(view(data), {.group = world.group()});
    // Not before the other has all of that call: what UCX had not sent goes with its process.
    std::vector<float> word(1);
    if (world.rank() == 1) distributed::recv(view(word), 0, {.group = world.group()});
    if (world.rank() == 1) raise(SIGKILL);
    distributed::send(view(word), 1, {.group = world.group()});
    const Deadline told_by = Deadline::in_seconds(10);
    EXPECT_THROW(distributed::all_reduce(view(data), {.group = world.group()}), PeerLostError);
    EXPECT_FALSE(told_by.passed());
  });
  EXPECT_TRUE(endings[0].succeeded()) << endings[0].output;
  EXPECT_TRUE(endings[1].killed_by(SIGKILL));
}

INSTANTIATE_TEST_SUITE_P(By, UcxBetweenHosts, ::testing::Values(false, true), [](const auto& info) { return std::string(info.param ? "its_tcp" : "its_shared_memory"); });

Status refused(const std::function<void(Settings&)>& change) {
  Settings settings;
  change(settings);
  return look_for_fabric(settings, {}).status();
}

TEST(Fabric, is_tried_only_where_it_is_trusted) {
  unsetenv("UCX_TLS");
  const auto looks = [](const Settings& settings) { return *look_for_fabric(settings, {}) != FabricHere::not_looked_for; };
  EXPECT_FALSE(looks(Settings{}));
  Settings settings;
  settings.fabric = "trusted";
  EXPECT_TRUE(looks(settings));
  settings.transport = "tcp";
  EXPECT_FALSE(looks(settings));
  settings.transport = "auto";
  settings.encrypt = true;
  EXPECT_FALSE(looks(settings)) << "encryption goes first";
  const Status untrusted = refused([](Settings& one) { one.transport = "ucx"; });
  EXPECT_EQ(untrusted.code(), ErrorCode::init);
  EXPECT_NE(untrusted.message().find("UNISONO_FABRIC=trusted"), std::string::npos) << untrusted.text();
  const Status encrypted = refused([](Settings& one) { one.transport = "ucx", one.fabric = "trusted", one.encrypt = true; });
  EXPECT_EQ(encrypted.code(), ErrorCode::init);
  EXPECT_NE(encrypted.message().find("UNISONO_ENCRYPT"), std::string::npos) << encrypted.text();
}

TEST(Fabric, leaves_out_a_listener_that_lets_in_anybody) {
  Settings settings;
  EXPECT_EQ(*ucx_transports(settings, {}), "^tcp,shm");
  EXPECT_EQ(*ucx_transports(settings, {{"UCX_TLS", "all"}}), "^tcp,shm");
  EXPECT_EQ(*ucx_transports(settings, {{"UCX_TLS", "^sysv"}}), "^sysv,tcp,shm");
  EXPECT_EQ(*ucx_transports(settings, {{"UCX_TLS", "rc,self"}}), "rc,self");
  for (const char* names : {"tcp", "self,tcp", "rc,all", "self,\\tcp"}) {
    const auto transports = ucx_transports(settings, {{"UCX_TLS", names}});
    EXPECT_EQ(transports.status().code(), ErrorCode::init) << names;
    EXPECT_NE(transports.status().message().find(names), std::string::npos);
  }
  settings.ucx_tcp = true;
  EXPECT_EQ(*ucx_transports(settings, {{"UCX_TLS", "self,tcp"}}), "self,tcp");
}

TEST(Fabric, that_only_some_ranks_try_is_an_error_that_says_so) {
  const std::string job = unique_job();
  const auto endings = run_processes(2, ranks(2).settings, [&](TestWorld& world) {
    unsetenv("UCX_TLS");
    Settings settings = by_ucx(Worlds::test_settings(), "1,1");
    if (world.rank() == 1) settings.transport = "tcp";
    const Status status = join_as(world.rank(), 2, job, settings).status();
    EXPECT_EQ(status.code(), ErrorCode::init) << status.text();
    EXPECT_NE(status.message().find("give all ranks the same"), std::string::npos) << status.text();
    EXPECT_NE(status.message().find("UNISONO_TRANSPORT"), std::string::npos) << status.text();
  });
  for (const Ending& ending : endings) EXPECT_TRUE(ending.succeeded()) << ending.output;
}

}  // namespace
}  // namespace unisono::testing
