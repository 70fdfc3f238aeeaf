// The ways between two ranks, turned by hand: whatever moves the bytes, what was posted arrives, whole and in order.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/children.hpp"
#include "tests/support/machine.hpp"
#include "transport/byte_ring.hpp"
#include "transport/router.hpp"
#include "transport/socket_stream.hpp"

namespace unisono {
namespace {

using testing::Machine;
using Bytes = std::vector<std::byte>;

// Two ranks and the channels between them.
class Two {
 public:
  // "sockets*3": as many connections.
  explicit Two(const std::string& text) : machine_(2) {
    const size_t star = text.find('*');
    auto choice = StreamChoice::parse(text.substr(0, star));
    const int per_peer = star == text.npos ? 1 : std::stoi(text.substr(star + 1));
    EXPECT_TRUE(choice.ok()) << choice.status().text();
    std::vector<Neighbour> neighbours = machine_.neighbours();
    for (size_t rank = 0; rank < 2; ++rank) {
      auto sockets = Sockets::open({.send_buffer_bytes = choice->send_buffer_bytes, .per_peer = per_peer});
      EXPECT_TRUE(sockets.ok()) << sockets.status().text();
      sockets_[rank] = std::move(*sockets);
      neighbours[rank].where.addresses = {sockets_[rank]->address()};
      neighbours[rank].token = 100 + rank;
      sockets_[rank]->know(100 + rank);
      sockets_[rank]->expect(group);
    }
    for (size_t rank = 0; rank < 2; ++rank) {
      lanes_[rank] = std::make_unique<Lanes>(machine_.layout, static_cast<int>(rank), neighbours);
      lanes_[rank]->find(machine_.offsets);
      routers_[rank] = std::make_unique<Router>(*lanes_[rank], *machine_.arenas[rank], LinkUse::steps, Ways{*choice, sockets_[rank].get()});
      routers_[rank]->met(group);
      EXPECT_TRUE(channel(static_cast<int>(rank)).open().ok());
    }
  }
  Router& router(int rank) { return *routers_[static_cast<size_t>(rank)]; }
  Channel& channel(int rank) { return router(rank).to(1 - rank); }
  Sockets& sockets(int rank) { return *sockets_[static_cast<size_t>(rank)]; }

 private:
  static constexpr uint64_t group = 4711;

  Machine machine_;
  std::unique_ptr<Sockets> sockets_[2];
  std::unique_ptr<Lanes> lanes_[2];
  std::unique_ptr<Router> routers_[2];
};

Bytes random_bytes(std::mt19937& random, size_t count) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// One direction: what its sender has posted, and how far its receiver has come.
struct Direction {
  std::deque<Bytes> bodies;  // posted; a deque, so that they stay where they are
  Bytes all, got;
  size_t landed = 0;         // of `got`
};

void post(Channel& channel, Direction& direction, std::mt19937& random) {
  const Bytes head = random_bytes(random, random() % (Channel::most_head_bytes + 1));
  direction.bodies.push_back(random_bytes(random, random() % 4 == 0 ? random() % 400'000 : random() % 50));
  direction.all.insert(direction.all.end(), head.begin(), head.end());
  direction.all.insert(direction.all.end(), direction.bodies.back().begin(), direction.bodies.back().end());
  channel.post_send(head, direction.bodies.back());
}

// Receives in lengths of its own.
bool receive(Channel& channel, Direction& direction, std::mt19937& random) {
  bool moved = false;
  if (!channel.receiving() && direction.landed < direction.all.size()) {
    const size_t wanted = std::min<size_t>(1 + random() % 100'000, direction.all.size() - direction.landed);
    direction.got.resize(direction.all.size());  // moves only while nothing is posted
    channel.post_receive(std::span(direction.got).subspan(direction.landed, wanted));
    direction.landed += wanted;
    moved = true;
  }
  return channel.turn() || moved;
}

class EveryStream : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryStream, carries_what_is_posted_both_ways_whole_and_in_order) {
  std::mt19937 random(7);
  Two two(GetParam());
  Direction directions[2];
  constexpr int sends = 40;
  for (int sent = 0; sent < sends; ++sent) {
    for (int rank : {0, 1}) post(two.channel(rank), directions[rank], random);
    for (int rank : {0, 1}) receive(two.channel(rank), directions[1 - rank], random);
  }
  // A rough stream may rest for a few turns, and the kernel may need a moment to carry bytes from one socket to the other.
  for (int quiet = 0; quiet < 100'000;) {
    bool moved = false;
    for (int rank : {0, 1}) moved |= receive(two.channel(rank), directions[1 - rank], random);
    const bool over = directions[0].landed == directions[0].all.size() && directions[1].landed == directions[1].all.size() &&
                      !two.channel(0).receiving() && !two.channel(1).receiving();
    if (over) break;
    quiet = moved ? 0 : quiet + 1;
  }
  for (int rank : {0, 1}) {
    EXPECT_EQ(directions[rank].got, directions[rank].all) << "from rank " << rank;
    EXPECT_EQ(two.channel(rank).sent(), static_cast<uint64_t>(sends));
    EXPECT_FALSE(two.channel(rank).sending());
    EXPECT_TRUE(two.channel(rank).state().ok()) << two.channel(rank).state().text();
  }
}

// What was given up is its owner's again.
TEST_P(EveryStream, writes_nothing_into_a_target_that_was_dropped) {
  Two two(GetParam());
  Bytes given(100, std::byte{1}), target(100, std::byte{7});
  two.channel(0).post_receive(target);
  two.channel(0).turn();
  two.router(0).drop_unfinished();
  two.channel(1).post_send({}, given);
  for (int turns = 0; turns < 1000; ++turns)
    for (int rank : {0, 1}) two.channel(rank).turn();
  EXPECT_EQ(target, Bytes(100, std::byte{7}));
}

INSTANTIATE_TEST_SUITE_P(Of, EveryStream, ::testing::Values("rings", "sockets", "sockets:4K", "sockets:4K*3", "sockets*2", "rough:1", "rough:2"), [](const auto& info) {
  std::string name = info.param;
  for (char& letter : name)
    if (letter == ':' || letter == '*') letter = '_';
  return name;
});

TEST(Channel, counts_a_send_when_all_of_it_has_left_its_place) {
  Two two("rings");
  Bytes long_body(ring_bytes + 1), short_body(1);
  two.channel(0).post_send({}, long_body);
  two.channel(0).post_send({}, short_body);
  EXPECT_EQ(two.channel(0).posted(), 2u);
  EXPECT_EQ(two.channel(0).sent(), 0u);
  Bytes target(2);
  two.channel(1).post_receive(target);
  EXPECT_TRUE(two.channel(1).turn());
  EXPECT_FALSE(two.channel(1).receiving());
  EXPECT_TRUE(two.channel(0).turn());
  EXPECT_EQ(two.channel(0).sent(), 2u);
}

// A hundred bytes over a stream that ends after ten; what it says then.
Status state_after_ten_bytes(const std::string& streams) {
  Two two(streams);
  Bytes given(100, std::byte{1}), target(100, std::byte{7});
  two.channel(0).post_send({}, given);
  two.channel(1).post_receive(target);
  for (int turns = 0; turns < 1000; ++turns)
    for (int rank : {0, 1}) two.channel(rank).turn();
  EXPECT_TRUE(two.channel(1).receiving());
  EXPECT_EQ(std::count(target.begin(), target.end(), std::byte{1}), 10);
  return two.channel(1).state();
}

TEST(RoughStream, falls_silent_and_says_nothing) { EXPECT_TRUE(state_after_ten_bytes("rough:1,silent=10").ok()); }

TEST(RoughStream, breaks_and_says_so) { EXPECT_EQ(state_after_ten_bytes("rough:1,broken=10").code(), ErrorCode::peer_lost); }

// Who was told of a connection by nobody is let in by nobody.
TEST(Sockets, take_a_connection_only_for_what_it_was_opened_for) {
  auto sockets = Sockets::open(), other = Sockets::open();
  ASSERT_TRUE(sockets.ok() && other.ok());
  (*sockets)->know(7);
  for (uint64_t group : {1, 2}) (*sockets)->expect(group);
  const SocketKey key{.token = 7, .group = 1, .use = 0, .from = 0, .to = 1};
  auto knock = [&](const SocketKey& as) {
    std::unique_ptr<Opening> opening = (*other)->open((*other)->connect((*sockets)->address()), as);
    EXPECT_TRUE(opening && opening->turn() && opening->is_open());
    return opening->take();
  };
  std::vector<Wire> strangers;
  for (SocketKey wrong : {SocketKey{8, 1, 0, 0, 1}, SocketKey{7, 2, 0, 0, 1}, SocketKey{7, 1, 1, 0, 1}, SocketKey{7, 1, 0, 2, 1}}) {
    strangers.push_back(knock(wrong));
    EXPECT_FALSE((*sockets)->arrived(key));
  }
  const Wire member = knock(key);
  EXPECT_TRUE((*sockets)->arrived(key));
  EXPECT_FALSE((*sockets)->arrived(key)) << "it was fetched";
  EXPECT_TRUE((*sockets)->arrived({7, 2, 0, 0, 1})) << "who came early waits";
}

TEST(Sockets, close_what_comes_for_no_group_of_theirs_or_without_the_token) {
  auto sockets = Sockets::open(), other = Sockets::open();
  ASSERT_TRUE(sockets.ok() && other.ok());
  (*sockets)->know(7);
  (*sockets)->expect(1);
  auto is_closed = [&](const SocketKey& as) {
    std::unique_ptr<Opening> opening = (*other)->open((*other)->connect((*sockets)->address()), as);
    EXPECT_TRUE(opening && opening->turn() && opening->is_open());
    const Wire wire = opening->take();
    EXPECT_FALSE((*sockets)->arrived({7, 1, 0, 5, 5}));
    std::byte byte;
    return wire.receive({&byte, 1}) == 0;
  };
  EXPECT_FALSE(is_closed({7, 1, 0, 0, 1}));
  EXPECT_TRUE(is_closed({8, 1, 0, 0, 1})) << "another token";
  EXPECT_TRUE(is_closed({7, 2, 0, 0, 1})) << "a group that is not there";
  (*sockets)->forget(1);
  EXPECT_TRUE(is_closed({7, 1, 0, 0, 1})) << "a group that has ended";
}

void begin_and_end_at_once(int rounds) {
  std::unique_ptr<Sockets> sockets[2];
  for (size_t end : {0, 1}) {
    sockets[end] = std::move(*Sockets::open());
    sockets[end]->know(end);
  }
  std::atomic<int> at_the_start{0};
  int received[2] = {};
  auto one_end = [&](size_t me) {
    for (int round = 0; round < rounds; ++round) {
      const auto group = static_cast<uint64_t>(round + 1);
      const auto from = static_cast<int32_t>(me), to = 1 - from;
      sockets[me]->expect(group);
      SocketStream stream(*sockets[me], {{1 - me, group, 0, from, to}, {me, group, 0, to, from}, {{sockets[1 - me]->address()}}});
      for (++at_the_start; at_the_start < 2 * (round + 1);) std::this_thread::yield();
      const Deadline deadline = Deadline::in_seconds(20);
      std::byte bytes[8] = {};
      size_t sent = 0, got = 0;
      while ((sent < 8 || got < 8) && stream.state().ok() && !deadline.passed()) {
        if (sent < 8) sent += static_cast<size_t>(stream.write(Channel::Sent(bytes).subspan(sent), {}));
        if (got < 8) got += static_cast<size_t>(stream.read(std::span(bytes).subspan(got)));
      }
      received[me] += got == 8;
    }
  };
  std::thread other(one_end, 1);
  one_end(0);
  other.join();
  EXPECT_EQ(received[0], rounds);
  EXPECT_EQ(received[1], rounds);
}

// Where both begin at once there are two connections. Each end closes as soon as it has what it waits for, and that must not cost the
// other what is on its way to it.
TEST(SocketStream, loses_nothing_where_both_ends_begin_and_end_at_once) {
  constexpr int pairs = 8;
  const int rounds = testing::small_run() ? 40 : 250;
  std::vector<std::thread> threads;
  for (int pair = 0; pair < pairs; ++pair)  // more threads than cores, so that they are interrupted anywhere
    threads.emplace_back([rounds] { begin_and_end_at_once(rounds); });
  for (std::thread& thread : threads) thread.join();
}

// What the other end wrote and nobody reads any more would reset the connection if it were closed at once.
TEST(Sockets, that_go_leave_what_was_sent_to_the_other_end) {
  auto leaving = std::move(*Sockets::open()), staying = std::move(*Sockets::open());
  staying->expect(1);
  const SocketKey there{0, 1, 0, 0, 1}, back{0, 1, 0, 1, 0};
  auto out = std::make_unique<SocketStream>(*leaving, SocketStream::Ends{there, back, {{staying->address()}}});
  SocketStream in(*staying, {back, there, {{leaving->address()}}});
  Bytes piece(100'000), got(100'000);
  size_t sent = 0;
  while (const auto count = static_cast<size_t>(out->write(piece, {}))) sent += count;
  size_t received = static_cast<size_t>(in.read(got));
  out.reset();
  std::thread gone([&] { leaving.reset(); });
  const Deadline deadline = Deadline::in_seconds(20);
  while (in.state().ok() && !deadline.passed()) {
    in.write(Channel::Sent(piece).first(8), {});
    received += static_cast<size_t>(in.read(got));
  }
  gone.join();
  EXPECT_GT(sent, 200'000u);
  EXPECT_EQ(received, sent);
}

TEST(StreamChoice, reads_what_it_may_be_and_tells_of_the_rest) {
  EXPECT_EQ(StreamChoice::parse("rings")->kind, StreamChoice::Kind::rings);
  EXPECT_EQ(StreamChoice::parse("sockets:4K")->send_buffer_bytes, 4096);
  EXPECT_EQ(StreamChoice::parse("rough:7,silent=100")->roughness, (Roughness{.seed = 7, .silent_after = 100}));
  for (const char* wrong : {"", "ring", "rings:1", "sockets:x", "sockets:0", "rough:x", "rough:1,deaf=2", "rough:1,silent="}) {
    const Status status = StreamChoice::parse(wrong).status();
    EXPECT_EQ(status.code(), ErrorCode::init) << wrong;
    EXPECT_NE(status.message().find("UNISONO_TEST_STREAMS"), std::string::npos) << status.text();
  }
}

}  // namespace
}  // namespace unisono
