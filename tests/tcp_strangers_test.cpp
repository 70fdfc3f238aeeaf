// Who connects to a TCPStore and is not of the job, or is and speaks nonsense: each is refused in words that help, and nobody else notices.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <list>
#include <thread>

#include "rendezvous/store_trust.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/raw_store_client.hpp"

namespace unisono::testing {
namespace {

// What was written to standard error meanwhile.
std::string said_during(const std::function<void()>& body) {
  ::testing::internal::CaptureStderr();
  body();
  return ::testing::internal::GetCapturedStderr();
}

int lines_in(const std::string& text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

std::string bytes_of(auto... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
  return bytes;
}

TEST(TCPStrangers, with_another_secret_are_told_so_at_once) {
  const auto store = master();
  const std::string said = said_during([&] {
    const int64_t started_ns = now_ns();
    for (int again = 0; again < 20; ++again)
      expect_error<AuthError>({"127.0.0.1", "secret does not match"}, [&] { made({.port = store->port(), .trust = trust_of('b')}); });
    EXPECT_LT(now_ns() - started_ns, 10'000'000'000);
    store->set("a", "1");
  });
  EXPECT_NE(said.find("secret does not match"), std::string::npos) << said;
  EXPECT_EQ(lines_in(said), 1) << said;
}

TEST(TCPStrangers, of_another_job_are_told_so_and_the_log_names_both) {
  const auto store = master();
  const std::string said = said_during([&] {
    expect_error<AuthError>({"another job", trust_of('a', "other")->job_id()}, [&] { made({.port = store->port(), .trust = trust_of('a', "other")}); });
    store->set("a", "1");
  });
  EXPECT_NE(said.find(trust_of('a')->job_id()), std::string::npos) << said;
  EXPECT_NE(said.find(trust_of('a', "other")->job_id()), std::string::npos) << said;
}

TEST(TCPStrangers, a_secret_is_needed_but_on_the_loopback_interface) {
  for (const bool is_master : {true, false})
    expect_error<AuthError>({"192.0.2.1:9", "unisono secret new", "UNISONO_SECRET_FILE"},
                            [&] { TCPStore store("192.0.2.1", 9, {.is_master = is_master}); });
  const std::string secret(64, '5');
  setenv("UNISONO_SECRET", secret.c_str(), 1);
  const TCPStore store("127.0.0.1", 0, {.is_master = true, .job = "mine"});
  TCPStore("127.0.0.1", store.port(), {.job = "mine"}).set("a", "1");
  setenv("UNISONO_SECRET", std::string(64, '6').c_str(), 1);
  expect_error<AuthError>({"secret does not match"}, [&] { TCPStore("127.0.0.1", store.port(), {.job = "mine"}); });
  for (const std::string& wrong : {std::string(63, '5'), std::string(64, 'g'), std::string(65, '5'), std::string()}) {
    setenv("UNISONO_SECRET", wrong.c_str(), 1);
    try {
      TCPStore("127.0.0.1", store.port());
      ADD_FAILURE() << wrong;
    } catch (const InitError& error) {
      EXPECT_NE(std::string(error.what()).find("64 hexadecimal digits"), std::string::npos) << error.what();
      EXPECT_TRUE(wrong.empty() || std::string(error.what()).find(wrong) == std::string::npos) << error.what();
    }
  }
  setenv("UNISONO_SECRET", std::string(64, '7').c_str(), 1);
  expect_error<AuthError>({"secret does not match"}, [&] { TCPStore("127.0.0.1", store.port(), {.job = "mine"}); });
}

// Somebody who answers, but has no secret.
TEST(TCPStrangers, that_pretend_to_be_the_store_are_not_believed) {
  const std::string banners[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "220 smtp ready\r\n",
                                 std::string("\x15\x03\x03\x00\x02\x02\x46", 7)};
  for (const std::string& banner : banners) {
    const Descriptor listener = listening();
    std::thread fake([&] {
      const Descriptor visitor = accepted_by(listener);
      EXPECT_EQ(send(visitor.number(), banner.data(), banner.size(), MSG_NOSIGNAL), static_cast<ssize_t>(banner.size()));
      is_closed(visitor);
    });
    const int64_t started_ns = now_ns();
    expect_error<AuthError>({"127.0.0.1"}, [&] { user_of(Address::of_socket(listener.number()).port()); });
    EXPECT_LT(now_ns() - started_ns, 1'000'000'000);
    fake.join();
  }
}

// They hold a part of a process's descriptors, however few it may open, and those of the last are taken for who comes next.
TEST(TCPStrangers, that_are_silent_do_not_keep_users_out_where_descriptors_are_few) {
  SharedArray<std::atomic<int>> ports(1), over(1);
  Children children(1, [&](int) {
    const rlimit few{48, 48};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto store = master({.stranger_s = 10'000});
    ports[0] = store->port();
    EXPECT_TRUE(await([&] { return over[0] == 1; }));
  });
  ASSERT_TRUE(await([&] { return ports[0] != 0; }));
  std::list<Descriptor> strangers;
  for (int count = 0; count < 150; ++count) strangers.push_back(connected_to(ports[0]));
  const int64_t started_ns = now_ns();
  for (int user = 0; user < 5; ++user) EXPECT_NO_THROW(user_of(ports[0], 5)->set("a", "1"));
  EXPECT_LT(now_ns() - started_ns, 3'000'000'000);
  over[0] = 1;
  expect_all_succeeded(children.wait());
}

TEST(TCPStrangers, noise_is_dropped_while_users_work) {
  const auto store = master();
  const std::string corpus[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", std::string(1_MiB, '\xff'), std::string(1_MiB, '\0'),
                                hello_frame({}), std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(600, 'r'), "x"};
  const std::string said = said_during([&] {
    std::atomic<bool> over{false};
    std::thread users([&] {
      while (!over) user_of(store->port())->add("count", 1);
    });
    for (const std::string& noise : corpus) {
      const Descriptor visitor = connected_to(store->port());
      std::thread talks([&] { static_cast<void>(send(visitor.number(), noise.data(), noise.size(), MSG_NOSIGNAL)); });  // as much as is taken
      EXPECT_EQ(is_closed(visitor, noise == "x" ? 100 : 3000), noise != "x") << noise.substr(0, 20);
      talks.join();
    }
    for (int scan = 0; scan < 200; ++scan) connected_to(store->port());  // and closed
    over = true;
    users.join();
  });
  EXPECT_LE(lines_in(said), 2) << said;
  EXPECT_GT(store->add("count", 0), 0);
}

// A record of TLS that says more is to come, as far as it is taken: no more than 64 KiB, and a little that the kernel has.
TEST(TCPStrangers, hold_little_memory) {
  const auto store = master();
  const Descriptor visitor = connected_to(store->port());
  std::string record("\x16\x03\x01\x40\x00", 5);
  std::string hello = std::string("\x01\x02\x00\x00", 4) + std::string(16384 - 4, '\0');
  EXPECT_GT(send(visitor.number(), (record + hello).data(), record.size() + hello.size(), MSG_NOSIGNAL), 0);
  const std::string more = record + std::string(16384, '\0');
  int sent = 1;
  while (sent < 8 && send(visitor.number(), more.data(), more.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(more.size())) ++sent;
  EXPECT_TRUE(is_closed(visitor, 3000));
}

TEST(TCPStrangers, that_are_silent_are_dropped_in_time_and_users_come_in_meanwhile) {
  const int count = small_run() ? 200 : 1000;
  const auto store = master({.stranger_s = 0.5});
  std::list<Descriptor> silent;
  const int64_t started_ns = now_ns();
  for (int visitor = 0; visitor < count; ++visitor) {
    silent.push_back(connected_to(store->port()));
    if (visitor % 2 == 0) static_cast<void>(send(silent.back().number(), "\x16\x03", 1 + visitor % 3, MSG_NOSIGNAL));
    if (visitor % 100 == 99) user_of(store->port(), 5)->add("count", 1);
  }
  EXPECT_EQ(store->add("count", 0), count / 100);
  for (const Descriptor& visitor : silent) EXPECT_TRUE(is_closed(visitor));
  EXPECT_GE(now_ns() - started_ns, 500'000'000);
}

// As fast as one thread connects, each kept open until there are a hundred more.
TEST(TCPStrangers, in_a_flood_leave_room_for_users) {
  const auto store = master();
  std::atomic<bool> over{false};
  std::atomic<int> connected{0};
  std::thread flood([&] {
    std::list<Descriptor> open;
    while (!over) {
      open.push_back(connected_to(store->port()));
      if (open.size() > 100) open.pop_front();
      ++connected;
    }
  });
  EXPECT_TRUE(await([&] { return connected > 500; }));
  for (int user = 0; user < 10; ++user) {
    const int64_t started_ns = now_ns();
    user_of(store->port(), 30)->add("count", 1);
    EXPECT_LT(now_ns() - started_ns, 5'000'000'000);
  }
  over = true;
  flood.join();
  EXPECT_EQ(store->add("count", 0), 10);
}

// Somebody who knows the job's id, which is no secret, and says no more than that.
struct KnowsTheJob {
  explicit KnowsTheJob(int port) : socket(connected_to(port)), tls(trust_of('a'), socket.number(), Tls::Role::connects, {TlsEnds::client, TlsEnds::store}) {
    fcntl(socket.number(), F_SETFL, O_NONBLOCK);
    static_cast<void>(tls.shake_hands());
  }
  Descriptor socket;
  Tls tls;
};

bool is_open(const Descriptor& socket) {
  char byte;
  return recv(socket.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0 && (errno == EAGAIN || errno == 0);
}

// First those who have not named the job, and of those first the ones from where most come.
TEST(TCPStrangers, are_at_most_sixty_four_at_once) {
  const auto store = master({.stranger_s = 60});
  KnowsTheJob knows_the_job(store->port());
  const Descriptor from_elsewhere = connected_to(store->port(), "127.0.0.9");
  std::list<Descriptor> silent;
  for (int visitor = 0; visitor < 100; ++visitor) silent.push_back(connected_to(store->port()));
  auto open = [&] { return std::count_if(silent.begin(), silent.end(), is_open); };
  EXPECT_TRUE(await([&] { return open() == 62; })) << open();
  EXPECT_TRUE(is_open(from_elsewhere));
  EXPECT_TRUE(knows_the_job.tls.state().ok());
  user_of(store->port())->set("a", "1");
  EXPECT_EQ(open(), 61);
  EXPECT_TRUE(is_open(from_elsewhere));
  EXPECT_FALSE(is_closed(knows_the_job.socket, 0));
}

TEST(TCPStrangers, that_only_know_the_job_do_not_keep_users_out) {
  const auto store = master({.stranger_s = 60});
  std::list<KnowsTheJob> visitors;
  for (int count = 0; count < 70; ++count) visitors.emplace_back(store->port());
  const int64_t started_ns = now_ns();
  user_of(store->port(), 30)->set("a", "1");
  EXPECT_LT(now_ns() - started_ns, 5'000'000'000);
}

// What a user says first is recorded on its way and said again, many times: it proves the secret once.
TEST(TCPStrangers, that_repeat_what_a_user_has_said_do_not_keep_users_out) {
  char said[4096];
  size_t bytes = 0;
  {
    const Descriptor ear = listening();
    std::thread user([&] { expect_error<TimeoutError>({"127.0.0.1"}, [&] { user_of(Address::of_socket(ear.number()).port(), 0.5); }); });
    const Descriptor heard(accept(ear.number(), nullptr, nullptr));
    bytes = static_cast<size_t>(recv(heard.number(), said, sizeof(said), 0));
    user.join();
  }
  ASSERT_GT(bytes, 100u);
  const auto store = master({.stranger_s = 60});
  std::list<Descriptor> crowd;
  const int64_t started_ns = now_ns();
  for (int count = 0; count < 400; ++count) {
    crowd.push_back(connected_to(store->port()));
    EXPECT_EQ(send(crowd.back().number(), said, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  user_of(store->port(), 30)->set("a", "1");
  EXPECT_LT(now_ns() - started_ns, 3'000'000'000) << "64 of them a second would be let past";
}

TEST(TCPStrangers, of_another_version_are_told_both) {
  const auto store = master();
  RawStoreClient other(store->port());
  other.say(hello_frame({.rank = TlsEnds::client, .library = "9.8.7"}));
  other.expect_refused(ErrorCode::version, "version 9.8.7 of the library (protocol 1), and the store has " UNISONO_VERSION);
  RawStoreClient future(store->port());
  future.say(hello_frame({.protocol = 2, .rank = TlsEnds::client, .library = "9.8.7"}));
  future.expect_refused(ErrorCode::version, "(protocol 2), and the store has " UNISONO_VERSION " (protocol 1)");
}

TEST(TCPStrangers, with_the_secret_that_speak_nonsense_lose_their_connection_alone) {
  const auto store = master();
  RawStoreClient bystander(store->port());
  bystander.greet();
  const std::string hello = hello_frame({.rank = TlsEnds::client});
  const struct {
    std::string first, then;
    const char* words;
  } rows[] = {
      {bytes_of(uint32_t{1} << 31, 1u), "", "allowed here"},
      {bytes_of(2000u, 1u), "", "allowed here"},
      {*perform_frame({}), "", "did not say who it is"},
      {bytes_of(5u, 1u) + "hello", "", "a hello that is none"},
      {hello_frame({.rank = 3}), "", "calls itself 3"},
      {hello, bytes_of(~uint32_t{0}, 3u), "allowed here"},
      {hello, bytes_of(static_cast<uint32_t>(most_frame_bytes) + 1, 3u), "allowed here"},
      {hello, bytes_of(0u, 77u), "kind 77"},
      {hello, hello, "kind 1, which no client sends"},
      {hello, hello + std::string(8_MiB, 'x'), "kind 1, which no client sends"},  // and it hears so, with all that still lies unread
      {hello, bytes_of(4u, 3u, ~uint32_t{0}), "more requests"},
      {hello, bytes_of(12u, 4u, int64_t{5}, ~uint32_t{0}), "keys that cannot be"},
      {hello, *await_frame({never_ns, {"never"}}) + *perform_frame({}), "while another is still waiting"},
  };
  for (const auto& row : rows) {
    RawStoreClient wrong(store->port());
    wrong.say(row.first);
    if (!row.then.empty()) {
      EXPECT_EQ(wrong.heard()->kind, StoreFrameKind::welcome);
      wrong.say(row.then);
    }
    wrong.expect_refused(ErrorCode::protocol, row.words);
  }
  bystander.say(*perform_frame({{.kind = distributed::StoreRequest::Kind::num_keys}}));
  EXPECT_EQ(bystander.heard()->kind, StoreFrameKind::answers);
}

// Between the two, byte by byte or with one bit turned over somewhere: right, or an error.
class Proxy {
 public:
  enum class Mode { one_byte, flip };
  Proxy(int port, Mode mode, int64_t flip_at = 0) : mode_(mode), flip_at_(flip_at), listener_(listening()), thread_([this, port] { run(port); }) {}
  ~Proxy() {
    shutdown(listener_.number(), SHUT_RDWR);
    thread_.join();
  }
  int port() const { return Address::of_socket(listener_.number()).port(); }

 private:
  void run(int port) {
    for (Descriptor client = accepted_by(listener_); client; client = accepted_by(listener_)) {
      const Descriptor server = connected_to(port);
      int64_t passed = 0;
      while (pass(client, server, passed, true) && pass(server, client, passed, false)) continue;
    }
  }
  // What is there now, if anything; false where the connection has ended.
  bool pass(const Descriptor& from, const Descriptor& to, int64_t& passed, bool counts) const {
    pollfd look{from.number(), POLLIN, 0};
    if (poll(&look, 1, 1) <= 0) return true;
    char bytes[4096];
    const ssize_t count = recv(from.number(), bytes, sizeof(bytes), 0);
    if (count <= 0) return false;
    if (counts && mode_ == Mode::flip && flip_at_ >= passed && flip_at_ < passed + count) bytes[flip_at_ - passed] ^= 0x10;
    if (counts) passed += count;
    const ssize_t step = mode_ == Mode::one_byte ? 1 : count;
    for (ssize_t at = 0; at < count; at += step)
      if (send(to.number(), bytes + at, static_cast<size_t>(step), MSG_NOSIGNAL) != step) return false;
    return true;
  }

  Mode mode_;
  int64_t flip_at_;
  Descriptor listener_;
  std::thread thread_;
};

TEST(TCPStrangers, that_pass_on_every_byte_alone_change_nothing) {
  const auto store = master();
  const Proxy proxy(store->port(), Proxy::Mode::one_byte);
  const auto user = user_of(proxy.port());
  const std::string value(10'000, 'v');
  user->set("a", value);
  EXPECT_EQ(user->get("a"), value);
}

TEST(TCPStrangers, that_change_a_bit_are_found_out) {
  const auto store = master();
  const int64_t step = small_run() ? 97 : 23;
  for (int64_t at = 0; at < 1200; at += step) {
    SCOPED_TRACE(at);
    const Proxy proxy(store->port(), Proxy::Mode::flip, at);
    try {
      const auto user = user_of(proxy.port(), 0.3);
      user->set("a", std::string(1000, 'v'));
      EXPECT_EQ(user->get("a"), std::string(1000, 'v'));
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::auth || error.code() == ErrorCode::store_lost || error.code() == ErrorCode::timeout) << error.what();
    }
    EXPECT_TRUE(!store->check({"a"}) || store->get("a") == std::string(1000, 'v'));
  }
}

}  // namespace
}  // namespace unisono::testing
