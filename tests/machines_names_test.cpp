// Ranks on two machines that meet at a name: one that stands for the loopback interface on its own machine, for several addresses, that is known late or
// spelled in two ways; and what is said, and let in, on the way there. In mount namespaces with an /etc/hosts of their own.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/scale.hpp"
#include "unisono/store.hpp"

namespace unisono::testing {
namespace {

using Variables = std::map<std::string, std::string>;

// A file of a test's own, which is gone when the test is.
class TestFile {
 public:
  explicit TestFile(const std::string& text) : made_(mkstemp(path_)) { write(text); }
  TestFile(const TestFile&) = delete;
  ~TestFile() { unlink(path_); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::app) << text; }
  const char* path() const { return path_; }

  void take_the_place_of(const char* other) const {  // in the calling process alone
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 || mount(path_, other, nullptr, MS_BIND, nullptr) != 0)
      throw std::runtime_error("no mount namespace");
  }

 private:
  char path_[32] = "/tmp/unisono_names_XXXXXX";
  Descriptor made_;
};

std::string text_in(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class MachinesNames : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = cannot_make_machines(); !why.empty()) GTEST_SKIP() << why;
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
    machines_.emplace(2);
  }

  // Rank 0 on the first machine, rank 1 on the second, each with its own hosts file and its own log.
  Outcomes outcomes_of(const Variables& variables, const std::function<void(int rank)>& body, const std::vector<const TestFile*>& hosts) const {
    const auto ranks = static_cast<int>(hosts.size());
    Outcomes outcomes(ranks);
    MachineJob job{.machine_of_rank = {}, .variables = variables};
    for (int rank = 0; rank < ranks; ++rank) job.machine_of_rank.push_back(rank % 2);
    Children(ranks, [&](int rank) {
      become_rank(*machines_, job, rank);
      for (const auto& [name, value] : variables)
        if (value == "(none)") unsetenv(name.c_str());
      if (static_cast<void>(dup2(log_.descriptor(), STDERR_FILENO)); hosts[static_cast<size_t>(rank)]) hosts[static_cast<size_t>(rank)]->take_the_place_of("/etc/hosts");
      outcomes.note(rank, [&] { body(rank); });
    }, 60).wait();
    return outcomes;
  }
  Outcomes outcomes_of(const Variables& variables, const std::vector<const TestFile*>& hosts) const {
    const auto ranks = static_cast<int>(hosts.size());
    return outcomes_of(variables, [ranks](int rank) { join_and_sum(rank, ranks); }, hosts);
  }
  static void join_and_sum(int rank, int ranks) {
    distributed::init_process_group({});
    expect_sum(rank, ranks, 1000);
    EXPECT_EQ(listeners_at_every_address(), "");
    distributed::destroy_process_group();
  }

  class Log {
   public:
    int descriptor() const { return file_.number(); }
    std::string text() const { return text_in(path_.c_str()); }

   private:
    TestFile made_{""};
    std::string path_ = made_.path();
    Descriptor file_{open(made_.path(), O_WRONLY | O_APPEND | O_CLOEXEC)};
  };

  std::optional<TestMachines> machines_;
  Log log_;
  const TestFile its_own_{"127.0.0.1 localhost\n127.0.1.1 node-a\n"}, others_{"10.77.0.1 node-a\n"};
};

void expect_good(const Outcomes& outcomes) {
  for (int rank = 0; rank < outcomes.ranks(); ++rank) EXPECT_EQ(outcomes.of(rank).code, ErrorCode::ok) << outcomes.of(rank).text();
}

// As Debian's installer has it of every machine's own name.
TEST_F(MachinesNames, that_stand_for_loopback_on_their_own_machine_lead_there_all_the_same) {
  expect_good(outcomes_of({{"MASTER_ADDR", "node-a"}}, {&its_own_, &others_}));
  expect_good(outcomes_of({{"MASTER_ADDR", "node-a"}}, {&its_own_, &others_, &its_own_, &others_}));
}

TEST_F(MachinesNames, that_stand_for_loopback_let_nobody_in_without_a_secret) {
  const Outcomes outcomes = outcomes_of({{"MASTER_ADDR", "node-a"}, {"UNISONO_SECRET", "(none)"}, {"UNISONO_JOIN_TIMEOUT", "2"}}, {&its_own_, &others_});
  expect_parts(outcomes.of(0), ErrorCode::init, {"missing: 1", "node-a is 127.0.1.1 on this machine", "unisono secret new"});
  expect_parts(outcomes.of(1), ErrorCode::auth, {"10.77.0.1 can be reached from other machines", "unisono secret new", "UNISONO_SECRET_FILE"});
}

TEST_F(MachinesNames, that_stand_for_several_addresses_are_served_at_all_of_them) {
  const TestFile both("fd77::1 node-a\n10.77.0.1 node-a\n"), only_four("10.77.0.1 node-a\n"), only_six("fd77::1 node-a\n");
  for (const TestFile* seen : {&only_four, &only_six}) expect_good(outcomes_of({{"MASTER_ADDR", "node-a"}}, {&both, seen}));
}

// As that of a pod that is being started: the name is written down once somebody has asked for it.
TEST_F(MachinesNames, that_are_not_known_yet_are_asked_for_again) {
  const TestFile late("127.0.0.1 localhost\n");
  const Descriptor watch(inotify_init1(IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(watch.number(), late.path(), IN_CLOSE_NOWRITE), 0);
  std::thread writer([&] {
    char event[4096];
    EXPECT_GT(read(watch.number(), event, sizeof(event)), 0);
    late.write("10.77.0.1 node-a\n");
  });
  expect_good(outcomes_of({{"MASTER_ADDR", "node-a"}}, {&its_own_, &late}));
  writer.join();
}

TEST_F(MachinesNames, that_are_spelled_in_two_ways_are_told_apart_with_a_hint) {
  const Outcomes outcomes = outcomes_of({{"UNISONO_JOIN_TIMEOUT", "2"}}, [](int rank) {
    if (rank == 1) setenv("MASTER_ADDR", "node-a", 1);
    distributed::init_process_group({});
  }, {&others_, &others_});
  expect_parts(outcomes.of(1), ErrorCode::auth, {"env:// node-a:29500", "spelled alike on all machines"});
}

TEST_F(MachinesNames, that_cannot_be_are_told_with_their_variable) {
  const Outcomes store = outcomes_of({{"UNISONO_STORE", "node-a"}}, {&others_, &others_});
  expect_parts(store.of(1), ErrorCode::argument, {"UNISONO_STORE", "\"node-a\"", "host:port"});
  const Outcomes master = outcomes_of({{"MASTER_ADDR", "nowhere"}, {"UNISONO_JOIN_TIMEOUT", "1"}}, {&others_, &others_});
  expect_parts(master.of(1), ErrorCode::init, {"MASTER_ADDR", "\"nowhere\""});
  const Outcomes elsewhere = outcomes_of({{"MASTER_ADDR", "10.77.0.9"}, {"UNISONO_JOIN_TIMEOUT", "1"}}, {&others_, &others_});
  expect_parts(elsewhere.of(0), ErrorCode::init, {"10.77.0.9:29500", "wire 10.77.0.1", "rank 0"});
}

// A store of somebody's, through which anybody can say that ranks are elsewhere, and which names a host that is loopback here.
class NamedStore : public distributed::FileStore {
 public:
  using FileStore::FileStore;
  distributed::StoreReach reach() const override { return {true, "node-a"}; }
};

Outcomes outcomes_by_store(const std::function<Outcomes(const std::function<void(int)>&)>& run) {
  const TestFile file("");
  unlink(file.path());
  return run([&](int rank) {
    distributed::init_process_group({.rank = rank, .world_size = 2, .store = std::make_shared<NamedStore>(file.path())});
    expect_sum(rank, 2, 1000);
    distributed::destroy_process_group();
  });
}

TEST_F(MachinesNames, of_stores_that_stand_for_loopback_open_no_plain_way_in) {
  const Variables without = {{"UNISONO_SECRET", "(none)"}, {"MASTER_ADDR", "(none)"}, {"UNISONO_JOIN_TIMEOUT", "5"}};
  machines_->run_in(0, "ip route add default dev wire");
  machines_->run_in(1, "ip route add default dev wire");
  const Outcomes outcomes = outcomes_by_store([&](const auto& body) { return outcomes_of(without, body, {&its_own_, &its_own_}); });
  for (int rank : {0, 1}) expect_parts(outcomes.of(rank), ErrorCode::auth, {"on other machines", "unisono secret new"});
  Variables with = without;
  with.erase("UNISONO_SECRET");
  expect_good(outcomes_by_store([&](const auto& body) { return outcomes_of(with, body, {&its_own_, &its_own_}); }));
}

TEST_F(MachinesNames, need_no_secret_where_the_user_says_so_aloud) {
  const Variables insecure = {{"UNISONO_SECRET", "(none)"}, {"UNISONO_INSECURE", "1"}};
  expect_good(outcomes_of(insecure, {&others_, &others_}));
  EXPECT_NE(log_.text().find("UNISONO_INSECURE is on"), std::string::npos) << log_.text();
}

TEST_F(MachinesNames, stand_for_a_place_that_is_free_again_once_rank_0_has_left) {
  expect_good(outcomes_of({}, [](int rank) {
    auto is_taken = [] { return text_in("/proc/thread-self/net/tcp").find(":733C 00000000:0000 0A") != std::string::npos; };  // port 29500
    for (int round = 0; round < 2; ++round) {
      distributed::init_process_group({});
      EXPECT_EQ(is_taken(), rank == 0);
      expect_sum(rank, 2, 1000);
      distributed::destroy_process_group();
      EXPECT_FALSE(is_taken());
    }
  }, {&others_, &others_}));
}

TEST_F(MachinesNames, where_somebody_is_missing_say_who_long_before_the_end) {
  const Outcomes outcomes = outcomes_of({{"UNISONO_WARN_AFTER", "0.3"}, {"UNISONO_JOIN_TIMEOUT", "4"}, {"WORLD_SIZE", "3"}}, {&others_, &others_});
  for (int rank : {0, 1}) expect_parts(outcomes.of(rank), ErrorCode::init, {"missing: 2"});
  EXPECT_NE(log_.text().find("still waiting: 2 of 3 ranks joined"), std::string::npos) << log_.text();
}

TEST_F(MachinesNames, encryption_is_not_promised_where_there_is_no_secret) {
  const Outcomes outcomes = outcomes_of({{"UNISONO_SECRET", "(none)"}, {"UNISONO_ENCRYPT", "on"}, {"UNISONO_PRETEND_HOSTS", "1,1"}, {"MASTER_ADDR", "(none)"},
                                         {"RANK", "(none)"}, {"WORLD_SIZE", "(none)"}}, [](int rank) {
    if (rank == 0) distributed::init_process_group({.rank = 0, .world_size = 2, .job = "alone", .timeout_s = 2});
  }, {&others_, &others_});
  expect_parts(outcomes.of(0), ErrorCode::auth, {"UNISONO_ENCRYPT is on", "unisono secret new"});
}

TEST_F(MachinesNames, settings_that_differ_are_told_while_joining) {
  for (const auto& [name, one, other] : {std::tuple("UNISONO_ENCRYPT", "on", "off"), {"UNISONO_SOCKETS_PER_PEER", "3", "1"}}) {
    const Outcomes outcomes = outcomes_of({}, [&](int rank) {
      setenv(name, rank == 0 ? one : other, 1);
      distributed::init_process_group({});
    }, {&others_, &others_});
    for (int rank : {0, 1}) expect_parts(outcomes.of(rank), ErrorCode::init, {name, "rank 0", "rank 1", "give all ranks the same"});
  }
}

// What listens in the calling process's network, at other addresses than those of the loopback interface.
std::string listeners_elsewhere() {
  std::string lines;
  for (const char* table : {"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}) {
    std::ifstream sockets(table);
    for (std::string line; std::getline(sockets, line);)
      if (line.find(" 0A ") != line.npos && line.find("0100007F:") == line.npos && line.find("00000000000000000000000001000000:") == line.npos) lines += line + "\n";
  }
  return lines;
}

// Ranks of one machine that cannot share memory, being of two users, meet at a loopback address by the secret, and nothing of them listens anywhere else.
TEST_F(MachinesNames, of_the_loopback_interface_are_where_everything_listens) {
  const MachineJob job{.machine_of_rank = {0, 0}};
  Outcomes outcomes(2);
  expect_all_succeeded(Children(2, [&](int rank) {
    become_rank(*machines_, job, rank);
    if (rank == 1) { ASSERT_EQ(setuid(65534), 0); }
    outcomes.note(rank, [&] {
      distributed::init_process_group({.rank = rank, .world_size = 2, .init_method = "tcp://127.0.0.1:29500"});
      expect_sum(rank, 2, 1000);
      EXPECT_EQ(listeners_elsewhere(), "");
      distributed::barrier({});
      distributed::destroy_process_group();
    });
  }, 60).wait());
  expect_good(outcomes);
}

// Whoever comes to the place of another job hears that it is another's, with a secret and without; and the other job goes on waiting for its own.
TEST_F(MachinesNames, of_the_loopback_interface_do_not_bring_two_jobs_together) {
  for (const char* secret : {"UNISONO_SECRET", "NO_SECRET"}) {
    SCOPED_TRACE(secret);
    const MachineJob job{.machine_of_rank = {0, 0}, .variables = {{secret, std::string(64, 'a')}}};
    Outcomes outcomes(2);
    expect_all_succeeded(Children(2, [&](int rank) {
      become_rank(*machines_, job, rank);
      if (secret == std::string_view("NO_SECRET")) unsetenv("UNISONO_SECRET");
      outcomes.note(rank, [&] {
        distributed::init_process_group({.rank = rank, .world_size = 2, .job = rank == 0 ? "A" : "B", .timeout_s = 3, .init_method = "tcp://127.0.0.1:29500"});
      });
    }, 60).wait());
    EXPECT_EQ(outcomes.of(0).code, ErrorCode::init) << outcomes.of(0).text();
    EXPECT_NE(outcomes.of(0).text().find("missing: 1"), std::string::npos) << outcomes.of(0).text();
    EXPECT_EQ(outcomes.of(1).code, ErrorCode::auth) << outcomes.of(1).text();
    EXPECT_NE(outcomes.of(1).text().find("another job"), std::string::npos) << outcomes.of(1).text();
    EXPECT_LT(outcomes.of(1).took_s(), 2.5) << outcomes.of(1).text();
  }
}

}  // namespace
}  // namespace unisono::testing
