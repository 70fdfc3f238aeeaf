// That the mode in which the rough tier runs this program is in force: a tier that entered no mode would always pass.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>

#include "base/sizes.hpp"
#include "tests/support/children.hpp"
#include "tests/support/rank_process.hpp"
#include "transport/headroom.hpp"
#include "transport/local_socket.hpp"

namespace unisono::testing {
namespace {

rlim_t limit_of(__rlimit_resource resource) {
  rlimit limit = {};
  EXPECT_EQ(getrlimit(resource, &limit), 0);
  return limit.rlim_cur;
}

std::string line_of(const char* path, const std::string& word) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(word)) return line.substr(word.size());
  return {};
}

void expect_an_ordinary_user() {
  EXPECT_NE(geteuid(), 0u);
  EXPECT_EQ(line_of("/proc/self/status", "CapEff:\t"), "0000000000000000");
}

void expect_few_descriptors() { EXPECT_EQ(std::to_string(limit_of(RLIMIT_NOFILE)), rough_mode().substr(2)); }

void expect_no_reading_of_memory() {
  char from = 1, to = 0;
  iovec local{&to, 1}, remote{&from, 1};
  EXPECT_EQ(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), -1);
  EXPECT_EQ(errno, rough_mode() == "c-EPERM" ? EPERM : ENOSYS);
}

void expect_closed_streams() {
  expect_all_succeeded(Children(1, [](int) {
    for (int number : {0, 1, 2}) EXPECT_EQ(fcntl(number, F_GETFD), -1) << number;
  }).wait());
}

void expect_core_dumps() { EXPECT_EQ(limit_of(RLIMIT_CORE), RLIM_INFINITY); }

void expect_ignored_signals() {
  for (int number : {SIGINT, SIGPIPE}) {
    struct sigaction action = {};
    ASSERT_EQ(sigaction(number, nullptr, &action), 0);
    EXPECT_EQ(action.sa_handler, SIG_IGN) << number;
  }
}

void expect_a_pid_namespace_a_rank() {
  expect_all_succeeded(Children(2, [](int) { EXPECT_EQ(getpid(), 2); }).wait());
}

void expect_a_small_address_space() { EXPECT_LT(limit_of(RLIMIT_AS), RLIM_INFINITY); }

void expect_a_small_memory_cgroup() { EXPECT_LE(memory_headroom().bytes, 64_MiB); }

// Whoever listens at a name like ours is visited soon, by another user and by this one.
void expect_hostile_neighbours() {
  auto listening = listen_at("unisono/neighbours?");
  ASSERT_TRUE(listening.ok());
  std::map<bool, int> visits;
  EXPECT_TRUE(await([&] {
    const Descriptor visitor = accept_from(listening->socket).socket;
    if (!visitor) return false;
    auto who = identity_of(visitor);
    if (who.ok()) ++visits[who->uid == geteuid()];
    return visits[true] > 0 && visits[false] > 0;
  })) << visits[true] << " visits of this user, " << visits[false] << " of another";
}

void expect_late_call_numbers() {
  const std::string wanted = process_environment()["UNISONO_FIRST_CALL"];
  EXPECT_FALSE(wanted.empty());
  for (const SettingText& text : describe(Worlds::test_settings()))
    if (text.variable == "UNISONO_FIRST_CALL") {
      EXPECT_EQ(text.value, wanted);
      return;
    }
  ADD_FAILURE() << "the library has no setting UNISONO_FIRST_CALL";
}

void expect_several_hosts() {
  for_each_world(ranks(2).with(Kind::threads), [](TestWorld& world) { EXPECT_FALSE(world.world().hosts().one()); });
}

// Each rank has its machine's name, and what listens there is seen by the kernel of that machine alone.
void expect_machines() {
  expect_several_hosts();
  for_each_world(ranks(2), [](TestWorld& world) {
    char name[64] = "";
    EXPECT_EQ(gethostname(name, sizeof(name)), 0);
    EXPECT_EQ(std::string(name), world.rank() == 0 ? "one" : "two");
    EXPECT_EQ(world.world().options().launcher, "env://");
  });
}

TEST(Mode, is_in_force) {
  const std::map<char, void (*)()> checks = {
      {'a', expect_an_ordinary_user},       {'b', expect_few_descriptors},        {'c', expect_no_reading_of_memory},
      {'d', expect_closed_streams},         {'e', expect_core_dumps},             {'f', expect_ignored_signals},
      {'g', expect_a_pid_namespace_a_rank}, {'h', expect_a_small_address_space},  {'i', expect_a_small_memory_cgroup},
      {'j', expect_hostile_neighbours},     {'k', expect_late_call_numbers},        {'l', expect_several_hosts},
      {'m', expect_machines}};
  const std::string mode = rough_mode();
  if (mode.empty()) GTEST_SKIP() << "no mode: UNISONO_TEST_ROUGH is not set";
  ASSERT_TRUE(checks.contains(mode.front())) << mode;
  checks.at(mode.front())();
}

}  // namespace
}  // namespace unisono::testing
