// Connections between ranks that have a secret in common: what is said before the first byte of data, who is let in, and who is not.
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "tests/support/children.hpp"
#include "tests/support/trusted_rank.hpp"
#include "transport/connecting.hpp"

namespace unisono::testing {
namespace {

class TrustedStreams : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(In, TrustedStreams, ::testing::Bool(), [](const auto& chosen) { return chosen.param ? "tls" : "plain_bytes"; });

TEST_P(TrustedStreams, carry_bytes_both_ways) {
  Rank zero(0, 'a', GetParam()), one(1, 'a', GetParam());
  SocketStream there = stream_between(zero, 0, one, 1), back = stream_between(one, 1, zero, 0);
  for (size_t bytes : {1, 8, 5000, 3'000'000}) {
    expect_bytes_pass(there, back, bytes);
    expect_bytes_pass(back, there, bytes);
  }
}

// Both begin at once: two connections, of which each carries one direction.
TEST_P(TrustedStreams, carry_bytes_where_both_begin_at_once) {
  Rank zero(0, 'a', GetParam()), one(1, 'a', GetParam());
  for (int round = 0; round < (testing::small_run() ? 5 : 30); ++round) {
    SocketStream there = stream_between(zero, 0, one, 1), back = stream_between(one, 1, zero, 0);
    auto pass = [&](SocketStream& stream) {
      std::byte bytes[8] = {}, got[8];
      size_t out = 0, in = 0;
      const Deadline deadline = Deadline::in_seconds(patience_s);
      while ((in < 8 || out < 8) && stream.state().ok() && !deadline.passed()) {
        if (out < 8) out += static_cast<size_t>(stream.write(Channel::Sent(bytes).subspan(out), {}));
        if (in < 8) in += static_cast<size_t>(stream.read(std::span(got).subspan(in)));
      }
      EXPECT_EQ(in, 8u) << stream.state().text();
    };
    std::thread other([&] { pass(back); });
    pass(there);
    other.join();
  }
}

// Rank 1 sends its part on the connection that it made, takes rank 0's from the other, and leaves. Rank 0 sees the end of that one, while the thread that lets
// others in has not looked again since it answered: the part is in a connection that is not all the way open, and counts.
TEST_P(TrustedStreams, carry_what_was_sent_before_somebody_left_though_nobody_looked_again) {
  Rank zero(0, 'a', GetParam()), one(1, 'a', GetParam());
  zero.stop_control();
  SocketStream there = stream_between(zero, 0, one, 1), back = stream_between(one, 1, zero, 0);
  std::byte bytes[8] = {}, got[8];
  size_t out_there = 0, out_back = 0, in_back = 0, in_there = 0;
  const Deadline deadline = Deadline::in_seconds(patience_s);
  while ((out_there < 8 || out_back < 8 || in_back < 8) && there.state().ok() && back.state().ok() && !deadline.passed()) {
    if (out_back < 8) out_back += static_cast<size_t>(back.write(Channel::Sent(bytes).subspan(out_back), {}));
    if (out_there < 8) out_there += static_cast<size_t>(there.write(Channel::Sent(bytes).subspan(out_there), {}));
    if (in_back < 8) in_back += static_cast<size_t>(back.read(std::span(got).subspan(in_back)));
    if (out_back < 8) zero.sockets().rang();
  }
  back.close();
  while (in_there < 8 && there.state().ok() && !deadline.passed()) in_there += static_cast<size_t>(there.read(std::span(got).subspan(in_there)));
  EXPECT_EQ(in_there, 8u) << there.state().text();
}

// Rank 0 begins to connect, and what it wanted to write then goes by another of their connections. Rank 1 has seen the connection open, and writes into it.
TEST_P(TrustedStreams, that_begin_to_open_go_on_while_they_are_only_read) {
  Rank zero(0, 'a', GetParam()), one(1, 'a', GetParam());
  one.stop_control();
  SocketStream there = stream_between(zero, 0, one, 1), back = stream_between(one, 1, zero, 0);
  std::byte bytes[8] = {}, got[8];
  size_t out = 0, in = 0;
  const Deadline deadline = Deadline::in_seconds(patience_s);
  for (; !back.holds_more() && !deadline.passed(); one.sockets().rang()) static_cast<void>(there.write({}, {}));
  while (in < 8 && !deadline.passed()) {
    if (out < 8) out += static_cast<size_t>(back.write(Channel::Sent(bytes).subspan(out), {}));
    in += static_cast<size_t>(there.read(std::span(got).subspan(in)));
  }
  EXPECT_EQ(in, 8u) << there.state().text();
}

int option_of(int socket, int level, int option) {
  int value = 0;
  socklen_t length = sizeof(value);
  EXPECT_EQ(getsockopt(socket, level, option, &value, &length), 0);
  return value;
}
int send_buffer_of(int socket) { return option_of(socket, SOL_SOCKET, SO_SNDBUF); }

// Both ends, so that a firewall does not forget them; and nothing ends them because nobody reads.
TEST(TrustedSockets, are_kept_alive_where_nothing_is_sent) {
  Rank zero(0, 'a'), one(1, 'a');
  SocketStream there = stream_between(zero, 0, one, 1), back = stream_between(one, 1, zero, 0);
  expect_bytes_pass(there, back, 8);
  int ends = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int number = std::stoi(entry.path().filename());
    if (!Address::of_peer(number)) continue;
    ++ends;
    EXPECT_EQ(option_of(number, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option_of(number, IPPROTO_TCP, TCP_KEEPIDLE), 60);
    EXPECT_EQ(option_of(number, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
  }
  EXPECT_GE(ends, 2);
}

// That is, on the same machine.
TEST(TrustedSockets, have_little_under_way_where_the_other_end_is_near) {
  constexpr int near_bytes = 2 * (256 << 10);  // the kernel counts its own part, too
  for (const auto& [asked, most] : {std::pair<int64_t, int>{0, near_bytes}, {4096, 2 * 4096}}) {
    auto here = Sockets::open({.send_buffer_bytes = asked}), there = Sockets::open();
    const Descriptor connection = (*here)->connect((*there)->address());
    pollfd connected{connection.number(), POLLOUT, 0};
    ASSERT_EQ(poll(&connected, 1, 5000), 1);
    EXPECT_TRUE(asked != 0 || send_buffer_of(connection.number()) > near_bytes) << "the kernel's own is smaller here";
    (*here)->fit(connection.number());
    EXPECT_LE(send_buffer_of(connection.number()), most);
    EXPECT_GE(send_buffer_of(connection.number()), most / 2);  // net.core.wmem_max may allow less
  }
}

TEST(TrustedSockets, refuse_another_secret_and_another_rank) {
  Rank zero(0, 'a'), one(1, 'a'), stranger(2, 'b');
  const Status secret = refusal(stranger, 2, zero, {zero.token(), group, 0, 2, 0});
  EXPECT_EQ(secret.code(), ErrorCode::auth);
  EXPECT_NE(secret.message().find("the secret does not match"), std::string::npos) << secret.text();
  EXPECT_TRUE(testing::await([&] { return zero.log().find("its secret does not match this job's") != std::string::npos; })) << zero.log();
  const Status passed_on = refusal(one, 1, zero, {zero.token(), group, 0, 1, 5});
  EXPECT_EQ(passed_on.code(), ErrorCode::auth) << passed_on.text();
}

TEST(TrustedSockets, refuse_in_words_what_is_over_or_not_there) {
  Rank zero(0), one(1);
  const Status over = refusal(one, 1, zero, {zero.token() + 1, group, 0, 1, 0});
  EXPECT_EQ(over.code(), ErrorCode::init);
  EXPECT_NE(over.message().find("a run of this job that is over"), std::string::npos) << over.text();
  const Status gone = refusal(one, 1, zero, {zero.token(), group + 1, 0, 1, 0});
  EXPECT_EQ(gone.code(), ErrorCode::peer_lost);
  EXPECT_NE(gone.message().find("that group is not on rank 0 any more"), std::string::npos) << gone.text();
  EXPECT_TRUE(refusal(one, 1, zero, {zero.token(), group, 0, 1, 0}).ok());
}

TEST(TrustedSockets, refuse_plain_bytes_where_all_are_to_be_sealed) {
  Rank zero(0, 'a', true), one(1, 'a', false);
  const Status open = refusal(one, 1, zero, {zero.token(), group, 0, 1, 0});
  EXPECT_EQ(open.code(), ErrorCode::init);
  EXPECT_NE(open.message().find("UNISONO_ENCRYPT is on on rank 0 and off on rank 1"), std::string::npos) << open.text();
}

constexpr double hours_s = 10'000;

// Connect and say nothing.
class Strangers {
 public:
  Strangers(const Address& to, int count) {
    for (int index = 0; index < count; ++index) {
      Descriptor stranger(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      if (!stranger) break;
      static_cast<void>(connect(stranger.number(), to.get(), to.bytes()));
      sockets_.push_back(std::move(stranger));
    }
    EXPECT_GE(sockets_.size(), static_cast<size_t>(std::min(count, 100)));
  }
  int64_t kept() const {
    return std::ranges::count_if(sockets_, [](const Descriptor& stranger) {
      std::byte byte;
      return recv(stranger.number(), &byte, 1, 0) < 0 && (errno == EAGAIN || errno == EINTR);
    });
  }

 private:
  std::vector<Descriptor> sockets_;
};

TEST(TrustedSockets, let_a_member_in_past_a_thousand_silent_strangers_and_keep_a_few) {
  Rank zero(0, 'a', false, hours_s), one(1);
  const Strangers strangers(zero.sockets().address(), testing::small_run() ? 200 : 900);
  SocketStream there = stream_between(one, 1, zero, 0), back = stream_between(zero, 0, one, 1);
  expect_bytes_pass(there, back, 100);
  EXPECT_TRUE(testing::await([&] { return strangers.kept() <= 64; })) << strangers.kept();
}

// What strangers hold is there for members: in a process that has hardly any descriptors left they are sent away first.
TEST(TrustedSockets, let_a_member_in_where_strangers_took_the_last_descriptors) {
  constexpr double hours_s = 10'000;
  expect_all_succeeded(testing::Children(1, [&](int) {
    Rank zero(0, 'a', false, hours_s), one(1);
    auto open_here = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    const auto before = open_here();
    const Strangers strangers(zero.sockets().address(), 40);
    EXPECT_TRUE(testing::await([&] { return open_here() >= before + 80; })) << "each has a descriptor at both ends";
    std::vector<Descriptor> others;  // until no number below the last is free
    for (int count = 0; count < 200; ++count) others.emplace_back(dup(0));
    const auto all = static_cast<rlim_t>(others.back().number() + 1);
    const rlimit limit{all, all};
    setrlimit(RLIMIT_NOFILE, &limit);
    others.pop_back();  // one, with which rank 1 connects
    SocketStream there = stream_between(one, 1, zero, 0), back = stream_between(zero, 0, one, 1);
    expect_bytes_pass(there, back, 100);
  }).wait());
}

// More connections than anybody would expect wait for a rank that has not come to its call. Those of other groups are let in meanwhile, and nobody turns in circles.
TEST(TrustedSockets, are_not_held_up_by_connections_that_come_early) {
  const int many = testing::small_run() ? 100 : 1100;
  constexpr rlim_t enough = 4096;
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < enough) GTEST_SKIP() << "takes " << enough << " descriptors, and this user may have " << limit.rlim_max;
  limit.rlim_cur = enough;
  expect_all_succeeded(testing::Children(1, [&](int) {
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    constexpr uint64_t third_group = 4712, other_group = 4713;
    Rank zero(0), one(1);
    for (uint64_t each : {third_group, other_group}) zero.sockets().expect(each);
    auto open = [&](const SocketKey& key) {
      Connecting connecting(one.sockets(), {zero.sockets().address()}, key);
      EXPECT_TRUE(testing::await([&] { return connecting.turn(); }));
      EXPECT_TRUE(connecting.state().ok()) << connecting.state().text();
      return connecting.take();
    };
    std::vector<Wire> early;
    for (int number = 0; number < many; ++number)
      early.push_back(open({.token = zero.token(), .group = number < 800 ? group : third_group, .use = number / 4 % 200, .from = 1, .to = 0}));
    early.push_back(open({.token = zero.token(), .group = other_group, .use = 0, .from = 1, .to = 0}));
    SocketStream again(one.sockets(), {{zero.token(), group, 0, 1, 0}, {one.token(), group, 0, 0, 1}, {{zero.sockets().address()}}});
    const std::byte byte{};
    EXPECT_TRUE(testing::await([&] { return again.write({&byte, 1}, {}) > 0 || !again.state().ok(); }));
    EXPECT_NE(again.state().message().find("more often"), std::string::npos) << "a fifth of the same kind: " << again.state().text();
  }, 60).wait());
}

TEST(TrustedSockets, wake_again_after_they_were_to_wake_at_once) {
  auto sockets = *Sockets::open();
  auto wakes = [&] {
    pollfd descriptor{sockets->descriptor(), POLLIN, 0};
    const bool woke = poll(&descriptor, 1, 5000) > 0;
    sockets->rang();
    return woke;
  };
  sockets->wake_by(0);
  EXPECT_TRUE(wakes());
  sockets->wake_by(now_ns() + 1'000'000);
  EXPECT_TRUE(wakes());
}

TEST(TrustedSockets, keep_no_stranger_for_long) {
  Rank zero(0, 'a', false, 0.05);
  const Strangers strangers(zero.sockets().address(), 200);
  EXPECT_TRUE(testing::await([&] { return strangers.kept() == 0; })) << strangers.kept();
}

// Who says what no rank says goes at once, however long strangers may stay.
TEST(TrustedSockets, are_not_disturbed_by_noise) {
  Rank zero(0, 'a', false, hours_s), one(1);
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  for (const char* said : {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "\xff\xff\xff\xff\xff\xff"}) {
    Descriptor stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Address& to = zero.sockets().address();
    ASSERT_EQ(connect(stranger.number(), to.get(), to.bytes()), 0);
    EXPECT_GT(send(stranger.number(), said, strlen(said), MSG_NOSIGNAL), 0);
    ASSERT_EQ(setsockopt(stranger.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    std::byte rest[256];
    ssize_t count = 0;
    while ((count = recv(stranger.number(), rest, sizeof(rest), 0)) > 0) continue;  // an alert, and the end
    EXPECT_TRUE(count == 0 || errno == ECONNRESET) << "it was kept, whose first byte is " << static_cast<int>(static_cast<unsigned char>(said[0]));
  }
  SocketStream there = stream_between(one, 1, zero, 0), back = stream_between(zero, 0, one, 1);
  expect_bytes_pass(there, back, 100);
}

TEST(Address, reads_what_it_writes_and_nothing_else) {
  for (const char* text : {"127.0.0.1:1", "10.1.2.3:65535", "[::1]:29500", "[fd00::17]:0"}) {
    const auto address = Address::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), text);
  }
  for (const char* text : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "localhost:1", "::1:1", "[::1:1", "[127.0.0.1]:1", "1.2.3:4", "1.2.3.4:5x"})
    EXPECT_FALSE(Address::parse(text)) << text;
  EXPECT_TRUE(Address::parse("127.9.9.9:1")->is_loopback());
  EXPECT_TRUE(Address::parse("[::1]:1")->is_loopback());
  EXPECT_FALSE(Address::parse("10.0.0.1:1")->is_loopback());
}

// Sends eight bytes through one stream until the other has them; false: it did not come to that.
bool passes(SocketStream& from, SocketStream& to, double within_s = patience_s) {
  std::byte bytes[8] = {}, got[8];
  size_t out = 0, in = 0;
  const Deadline deadline = Deadline::in_seconds(within_s);
  while (in < 8 && from.state().ok() && to.state().ok() && !deadline.passed()) {
    if (out < 8) out += static_cast<size_t>(from.write(Channel::Sent(bytes).subspan(out), {}));
    in += static_cast<size_t>(to.read(std::span(got).subspan(in)));
  }
  return in == 8;
}

SocketStream stream_to(Rank& one, Rank& other, const Whereabouts& there, int32_t use = 0) {
  const int32_t rank = one.number(), peer = other.number();
  return {one.sockets(), {{other.token(), group, use, rank, peer}, {one.token(), group, use, peer, rank}, there}};
}

// Every machine has a docker0, and who listens there at this port is somebody else. The address that worked is tried first from then on.
TEST(Connecting, passes_over_an_address_that_leads_to_another_rank_and_remembers_which_did_not) {
  Rank zero(0), one(1), wrong(2);
  const Whereabouts there{{wrong.sockets().address(), one.sockets().address()}};
  for (int32_t use : {0, 1, 2}) {
    SocketStream out = stream_to(zero, one, there, use), in = stream_to(one, zero, {{zero.sockets().address()}}, use);
    EXPECT_TRUE(passes(out, in)) << out.state().text();
  }
  const std::string log = wrong.log();
  EXPECT_NE(log.find("it looks for rank 1, and this is rank 2"), log.npos) << log;
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

TEST(Connecting, goes_on_beside_an_address_where_somebody_answers_and_says_nothing) {
  Rank zero(0), one(1);
  auto silent = open_listeners({Address::loopback(0)}, {}, 0);
  ASSERT_TRUE(silent.ok());
  SocketStream out = stream_to(zero, one, {{silent->front().address, one.sockets().address()}}), in = stream_to(one, zero, {{zero.sockets().address()}});
  EXPECT_TRUE(passes(out, in)) << out.state().text();
}

TEST(Connecting, that_fails_names_every_address_and_what_became_of_it) {
  Rank zero(0), one(1), wrong(2);
  Address closed;
  {
    auto gone = open_listeners({Address::loopback(0)}, {}, 0);
    closed = gone->front().address;
  }
  SocketStream out = stream_to(zero, one, {{closed, wrong.sockets().address()}}), in = stream_to(one, zero, {});
  EXPECT_FALSE(passes(out, in));
  EXPECT_EQ(out.state().code(), ErrorCode::peer_lost);
  for (const std::string& part : {closed.text() + " from 127.0.0.1 (lo): Connection refused", wrong.sockets().address().text() + " from 127.0.0.1 (lo): the other side belongs to"})
    EXPECT_NE(out.state().message().find(part), std::string::npos) << part << " in " << out.state().text();
}

// The address would do, but is not to be used: a firewall would swallow what is sent there.
TEST(SocketStream, that_cannot_reach_the_other_end_waits_for_it_and_the_other_end_connects_in_order_to_receive) {
  Rank zero(0), one(1);
  SocketStream shut = stream_to(zero, one, {.addresses = {one.sockets().address()}, .out_of_reach = true});
  SocketStream unaware = stream_to(one, zero, {{zero.sockets().address()}});
  EXPECT_FALSE(passes(shut, unaware, 0.3)) << "nobody connects";
  SocketStream eager = stream_to(one, zero, {.addresses = {zero.sockets().address()}, .waits_for_us = true});
  EXPECT_TRUE(passes(shut, eager)) << shut.state().text();
  EXPECT_TRUE(passes(eager, shut)) << eager.state().text();
}

}  // namespace
}  // namespace unisono::testing
