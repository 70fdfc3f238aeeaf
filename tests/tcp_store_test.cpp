// A TCPStore between processes and threads: where it listens, how much it takes, and how many. Masters that are lost: tcp_store_loss_test.cpp;
// who has no secret: tcp_strangers_test.cpp; what every store does: store_test.cpp.
#include "rendezvous/tcp_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/raw_store_client.hpp"
#include "tests/support/store_master.hpp"

namespace unisono::testing {
namespace {

using distributed::StoreRequest;

// The addresses that somebody listens at with that port, as the kernel writes them.
std::vector<std::string> listeners_at(int port) {
  std::vector<std::string> all;
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* file : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(file);
    for (std::string line, number, local, remote, state; std::getline(lines, line);)
      if (std::istringstream(line) >> number >> local >> remote >> state && state == "0A" && local.ends_with(wanted)) all.push_back(local.substr(0, local.find(':')));
  }
  return all;
}

TEST(TCPStores, listen_at_exactly_the_address_that_was_given) {
  const auto one = master();
  EXPECT_EQ(listeners_at(one->port()), std::vector<std::string>({"0100007F"}));
  EXPECT_EQ(one->host(), "127.0.0.1");
  const auto other = master({.host = "127.0.0.3", .port = one->port()});  // the same port of another address
  other->set("a", "1");
  EXPECT_FALSE(one->check({"a"}));
  const auto six = master({.host = "[::1]"});
  EXPECT_EQ(listeners_at(six->port()), std::vector<std::string>({"00000000000000000000000001000000"}));
  six->set("a", "six");
  EXPECT_EQ(made({.host = "::1", .port = six->port()})->get("a"), "six");
  const auto any = master({.host = "::"});
  EXPECT_EQ(listeners_at(any->port()), std::vector<std::string>({std::string(32, '0')}));
  expect_error<TimeoutError>({"Connection refused"}, [&] { user_of(any->port(), 0.05); });  // which is of IPv4
  EXPECT_EQ(listeners_at(master({.host = "0.0.0.0"})->port()), std::vector<std::string>({"00000000"}));
  for (const char* in_disguise : {"0", "0x0", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0"})
    expect_error<ArgumentError>({"every address of this machine"}, [&] { master({.host = in_disguise}); });
}

TEST(TCPStores, have_names) {
  const auto store = master({.host = "localhost"});
  store->set("a", "1");
  EXPECT_EQ(made({.host = "localhost", .port = store->port()})->get("a"), "1");
  TcpStoreRequest nobody{.host = "no-such-host.invalid", .port = 1};
  nobody.options.timeout_s = 0.05;
  expect_error<TimeoutError>({"no-such-host.invalid"}, [&] { made(nobody); });
}

TEST(TCPStores, are_told_what_they_were_given_wrongly) {
  using distributed::TCPStoreOptions;
  auto make = [](const std::string& host, int port, const TCPStoreOptions& options = {}) { return [=] { TCPStore store(host, port, options); }; };
  expect_error<ArgumentError>({"port 0"}, make("127.0.0.1", 0));
  expect_error<ArgumentError>({"port 65536"}, make("127.0.0.1", 65536));
  expect_error<ArgumentError>({"port -1"}, make("127.0.0.1", -1, {.is_master = true}));
  expect_error<ArgumentError>({"host is empty"}, make("", 1));
  expect_error<ArgumentError>({"more than 0"}, make("127.0.0.1", 1, {.timeout_s = 0}));
  expect_error<ArgumentError>({"world_size is 0"}, make("127.0.0.1", 1, {.world_size = 0}));
  const auto store = master();
  expect_error<InitError>({fmt::format("127.0.0.1:{}", store->port()), "Address already in use"}, [&] { master({.port = store->port()}); });
  expect_error<InitError>({"192.0.2.1", "Cannot assign requested address"}, [&] { master({.host = "192.0.2.1", .port = 1}); });
  expect_error<ArgumentError>({"key", "4 KiB"}, [&] { store->set(std::string(4097, 'k'), ""); });
  expect_error<ArgumentError>({"value of \"large\"", "8 MiB"}, [&] { store->set("large", std::string((8 << 20) + 1, 'v')); });
  store->set(std::string(4096, 'k'), std::string(8 << 20, 'v'));
  EXPECT_EQ(store->get(std::string(4096, 'k')).size(), size_t{8} << 20);
}

TEST(TCPStores, processes_add_to_the_exact_sum) {
  constexpr int count = 4, rounds = 200;
  SharedArray<std::atomic<int>> port(1);
  expect_all_succeeded(Children(count, [&](int index) {
    std::shared_ptr<TCPStore> store;
    if (index == 0) port[0] = (store = master())->port();
    EXPECT_TRUE(await([&] { return port[0] != 0; }));
    if (index > 0) store = user_of(port[0]);
    for (int round = 0; round < rounds; ++round) store->add("sum", index + 1);
    store->add("done", 1);
    EXPECT_TRUE(await([&] { return store->get("done") == std::to_string(count); }));
    EXPECT_EQ(store->get("sum"), std::to_string(rounds * (1 + 2 + 3 + 4)));
    store->add("seen", 1);
    EXPECT_TRUE(index > 0 || await([&] { return store->get("seen") == std::to_string(count); }));
  }).wait());
}

TEST(TCPStores, the_master_waits_for_its_workers) {
  const FreePort free;
  const int port = free.number();
  distributed::TCPStoreOptions options{.world_size = 3, .timeout_s = 60, .wait_for_workers = true};
  std::vector<std::shared_ptr<TCPStore>> users(2);
  std::vector<std::thread> threads;
  for (auto& user : users) threads.emplace_back([&] { user = made({.port = port, .options = options}); });
  TcpStoreRequest request{.port = port, .options = options};
  const auto store = master(request);
  for (std::thread& thread : threads) thread.join();
  users[0]->set("a", "1");
  EXPECT_EQ(store->num_keys(), 1);
  request.port = 0;
  request.options.timeout_s = 0.05;
  expect_error<TimeoutError>({"for 3 users", "1 came"}, [&] { master(request); });
}

TEST(TCPStores, what_goes_beyond_the_bounds_is_refused_to_that_user_alone) {
  const auto store = master({.caps = {.keys = 10, .bytes = 100'000}});
  const auto user = user_of(store->port());
  expect_error<ResourceError>({"full", "\"large\""}, [&] { user->set("large", std::string(100'000, 'x')); });
  for (int key = 0; key < 10; ++key) user->set(std::to_string(key), "");
  expect_error<ResourceError>({"full", "10 keys"}, [&] { user->set("more", ""); });
  EXPECT_EQ(user->num_keys(), 10);
  store->set("0", "still");
  EXPECT_EQ(user->get("0"), "still");
}

TEST(TCPStores, an_error_ends_the_requests_and_those_before_it_stand) {
  const auto store = master();
  store->set("word", "x");
  const auto result = store->perform({{.kind = StoreRequest::Kind::set, .key = "before", .value = "1"},
                                      {.kind = StoreRequest::Kind::add, .key = "word", .amount = 1},
                                      {.kind = StoreRequest::Kind::set, .key = "after", .value = "1"}});
  EXPECT_EQ(result.status().code(), ErrorCode::argument);
  EXPECT_TRUE(store->check({"before"}));
  EXPECT_FALSE(store->check({"after"}));
}

// Without reading a single answer; what it asks for is much longer than the question.
TEST(TCPStores, a_user_that_takes_no_answers_is_dropped_and_the_others_notice_nothing) {
  const auto store = master({.queued_bytes = 4_MiB});
  store->set("large", std::string(1_MiB, 'x'));
  RawStoreClient slow(store->port());
  slow.greet();
  slow.does_not_wait();
  const std::string question = *perform_frame({{.key = "large"}});
  std::vector<double> took;
  EXPECT_TRUE(await([&] {
    slow.say_what_goes(question);
    const int64_t started_ns = now_ns();
    store->add("count", 1);
    took.push_back(seconds_since(started_ns));
    return !slow.is_alive();
  }));
  std::sort(took.begin(), took.end());
  EXPECT_LT(took[took.size() * 99 / 100], under_sanitizer() ? 0.5 : 0.05);
  EXPECT_EQ(store->get("large").size(), size_t{1} << 20);
}

TEST(TCPStores, forked_children_use_the_store_of_their_parent) {
  if (under_sanitizer()) GTEST_SKIP() << "its allocator's locks, unlike malloc's, stay locked in a child if the server's thread holds one at the fork";
  auto store = master();
  const auto user = user_of(store->port());
  store->set("before", "1");
  expect_all_succeeded(Children(3, [&](int) {
    EXPECT_EQ(user->get("before"), "1");
    for (int round = 0; round < 100; ++round) store->add("sum", 1);
    store.reset();  // which is not the child's to end
  }).wait());
  EXPECT_EQ(store->add("sum", 0), 300);
  EXPECT_EQ(user_of(store->port())->get("sum"), "300");
}

// Whoever finds no descriptor left at the master waits, and the master does not turn in circles meanwhile.
TEST(TCPStores, a_master_without_descriptors_goes_on_and_lets_in_later) {
  SharedArray<std::atomic<int>> port(1), full(1), more(1);
  Children process(1, [&](int) {
    const auto store = master();
    port[0] = store->port();
    store->wait({"before"});
    rlimit limit = {};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit tight = {static_cast<rlim_t>(Descriptor(socket(AF_INET, SOCK_STREAM, 0)).number()), limit.rlim_max};  // the next would be this
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
    full[0] = 1;
    EXPECT_TRUE(await([&] { return store->check({"waits"}); }));
    rusage before = {}, after = {};
    getrusage(RUSAGE_SELF, &before);
    const Deadline a_while = Deadline::in_seconds(0.5);
    EXPECT_TRUE(await([&] { return a_while.passed(); }));  // in which the master would burn half a second
    getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(after.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_utime.tv_sec - before.ru_stime.tv_sec +
              1e-6 * static_cast<double>(after.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_utime.tv_usec - before.ru_stime.tv_usec), 0.3);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    more[0] = 1;
    EXPECT_TRUE(await([&] { return store->check({"came"}); }));
  });
  EXPECT_TRUE(await([&] { return port[0] != 0; }));
  const auto before = user_of(port[0]);
  before->set("before", "1");
  EXPECT_TRUE(await([&] { return full[0] != 0; }));
  const Descriptor in_line = connected_to(port[0]);  // so that there is somebody to let in
  std::thread late([&] {
    const auto user = user_of(port[0]);
    EXPECT_EQ(more[0], 1);
    user->set("came", "1");
  });
  before->set("waits", "1");  // the others are served
  late.join();
  expect_all_succeeded(process.wait());
}

// From this process: all connect, each says that it is there, and all hear of it once everybody is.
void meet(int port, int count) {
  constexpr int threads = 20;
  std::vector<std::thread> all;
  for (int thread = 0; thread < threads; ++thread)
    all.emplace_back([=] {
      std::vector<std::shared_ptr<TCPStore>> users;
      for (int user = 0; user < count / threads; ++user) users.push_back(user_of(port));
      for (const auto& user : users)
        if (user->add("here", 1) == count) user->set("all", "here");
      for (const auto& user : users) EXPECT_EQ(user->get("all"), "here");
    });
  for (std::thread& thread : all) thread.join();
}

TEST(TCPStores, a_thousand_users_meet) {
  const auto store = master();
  const int64_t started_ns = now_ns();
  meet(store->port(), small_run() ? 200 : 1000);
  EXPECT_LT(seconds_since(started_ns), under_sanitizer() ? 60 : 5);
}

TEST(TCPStores, ten_thousand_users_meet_in_little_memory) {
  if (!full_run()) GTEST_SKIP() << "takes long";
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 11'000) GTEST_SKIP() << "takes more descriptors than this process may have (ulimit -n)";
  const MasterProcess process;
  const auto before_kib = process.most_resident_kib();  // the test's program, OpenSSL included
  const int64_t started_ns = now_ns();
  meet(process.port(), 10'000);
  EXPECT_LT(seconds_since(started_ns), 60);
  if (!under_sanitizer()) {
    EXPECT_LT(process.most_resident_kib() - before_kib, 200 << 10);
  }
}

}  // namespace
}  // namespace unisono::testing
