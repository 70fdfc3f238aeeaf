// Stripes that come in any order, and stripes that none of ours sends: nothing is written beside the target, and no receive is over before every byte of
// it came. Whole channels over sockets: channel_test.cpp; mutated stripes: torture_stripes_test.cpp.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/memory_stream.hpp"

namespace unisono {
namespace {

using testing::stripe_words;
using testing::StripedStreams;

constexpr size_t head_bytes = sizeof(StripeHead);

std::string stripe(uint64_t at, uint32_t bytes, char fill) { return stripe_words({.at = at, .bytes = bytes}, std::string(bytes, fill)); }

// Targets one behind the other, each with room before and behind it that nobody may write to.
class Receiver {
 public:
  explicit Receiver(StripedChannel& channel) : channel_(channel) {}

  void post(size_t bytes) {
    place_.assign(bytes + 2 * guard, '.');
    channel_.post_receive(std::as_writable_bytes(std::span(place_).subspan(guard, bytes)));
  }
  bool turn() {
    const bool moved = channel_.turn();
    EXPECT_EQ(place_.substr(0, guard), std::string(guard, '.')) << "before the target";
    EXPECT_EQ(place_.substr(place_.size() - guard), std::string(guard, '.')) << "behind the target";
    return moved;
  }
  std::string target() const { return place_.substr(guard, place_.size() - 2 * guard); }

 private:
  static constexpr size_t guard = 1024;
  StripedChannel& channel_;
  std::string place_;
};

TEST(Stripes, come_in_any_order_and_go_into_their_places) {
  StripedStreams streams(3);
  streams[0].bytes = stripe(100, 50, 'c') + stripe(150, 10, 'd');
  streams[1].bytes = stripe(40, 60, 'b') + stripe(160, 40, 'e');
  streams[2].bytes = stripe(0, 40, 'a');
  Receiver receiver(streams.channel());
  std::string got;
  for (const size_t bytes : {1, 59, 80, 60}) {
    receiver.post(bytes);
    while (receiver.turn()) continue;
    EXPECT_FALSE(streams.channel().receiving());
    got += receiver.target();
  }
  EXPECT_EQ(got, std::string(40, 'a') + std::string(60, 'b') + std::string(50, 'c') + std::string(10, 'd') + std::string(40, 'e'));
  EXPECT_TRUE(streams.channel().state().ok());
}

// Only heads are taken in order: a connection that falls silent in the middle of a stripe holds up nobody else.
TEST(Stripes, do_not_wait_for_the_bytes_of_those_before_them) {
  StripedStreams streams(2);
  streams[0].bytes = stripe(0, 50, 'a');
  streams[0].allowed = head_bytes + 10;
  streams[1].bytes = stripe(50, 50, 'b');
  Receiver receiver(streams.channel());
  receiver.post(100);
  while (receiver.turn()) continue;
  EXPECT_EQ(receiver.target(), std::string(10, 'a') + std::string(40, '.') + std::string(50, 'b'));
  EXPECT_EQ(streams.channel().unreceived_bytes(), 40);
}

// Some of it may have left the kernel with its head, so that nothing would wake whoever goes to sleep now.
TEST(Stripes, that_waited_are_taken_in_the_same_turn_as_the_head_they_waited_for) {
  StripedStreams streams(2);
  streams[0].bytes = stripe(50, 50, 'b');
  streams[1].bytes = stripe(0, 50, 'a');
  streams[1].allowed = 0;
  Receiver receiver(streams.channel());
  receiver.post(100);
  EXPECT_FALSE(receiver.turn());
  EXPECT_EQ(streams[0].read_so_far(), head_bytes);
  streams[1].allowed = head_bytes;
  EXPECT_TRUE(receiver.turn());
  EXPECT_EQ(streams[0].read_so_far(), head_bytes + 50);
}

TEST(Stripes, that_cannot_go_on_ask_for_no_bell) {
  StripedStreams streams(3);
  streams[0].bytes = stripe(0, 50, 'a');
  streams[0].allowed = head_bytes + 10;
  streams[1].bytes = stripe(50, 100, 'b');
  streams[2].bytes = stripe(160, 40, 'd');
  Receiver receiver(streams.channel());
  receiver.post(100);
  while (receiver.turn()) continue;
  streams.channel().arm();
  EXPECT_TRUE(streams[0].armed_to_read) << "it is awaited";
  EXPECT_FALSE(streams[1].armed_to_read) << "the rest lies behind the target";
  EXPECT_FALSE(streams[2].armed_to_read) << "all of it does";
  streams[0].allowed = SIZE_MAX;
  while (receiver.turn()) continue;
  receiver.post(100);
  while (receiver.turn()) continue;
  streams.channel().arm();
  EXPECT_TRUE(streams[0].armed_to_read && streams[1].armed_to_read) << "either may bring the next";
  EXPECT_FALSE(streams[2].armed_to_read) << "it is early";
}

// What comes by two connections, and cannot be, for a row of targets of 64 bytes.
struct Wrong {
  const char* name;
  std::string first, second;
  size_t whole_targets;  // that may be over before it is told
  size_t allowed_at_first = SIZE_MAX;  // of the first, until nothing else moves
};

const Wrong wrongs[] = {
    {"the same stripe twice, by one connection", stripe(0, 32, 'a') + stripe(0, 32, 'b'), "", 0},
    {"the same stripe twice, by two", stripe(0, 32, 'a'), stripe(0, 32, 'b'), 0},
    {"the same stripe twice, where the second waits while the first is read", stripe(0, 64, 'a') + stripe(64, 64, 'b'), stripe(64, 64, 'x'), 1, head_bytes + 63},
    {"one that waits, and begins in what comes meanwhile", stripe(0, 40, 'a') + stripe(40, 40, 'b'), stripe(60, 40, 'x'), 1, head_bytes + 39},
    {"one that begins in what came", stripe(0, 40, 'a'), stripe(39, 40, 'x'), 0},
    {"one that ends in what came", stripe(0, 40, 'a') + stripe(80, 40, 'b'), stripe(40, 41, 'x'), 1},
    {"one around what came", stripe(0, 40, 'a') + stripe(41, 1, 'b'), stripe(40, 40, 'x'), 1},
    {"one before what was read", stripe(0, 64, 'a') + stripe(0, 64, 'b'), "", 1},
    {"one that ends where what was read ends", stripe(0, 64, 'a') + stripe(63, 1, 'b'), "", 1},
    {"all far ahead", stripe(64, 64, 'a'), stripe(uint64_t{1} << 40, 64, 'b'), 0},
    {"a hole", stripe(0, 32, 'a') + stripe(33, 31, 'b'), stripe(64, 64, 'c'), 0},
    {"one of no bytes", stripe(0, 0, 'a'), "", 0},
    {"one of no bytes, ahead", stripe(100, 0, 'a'), "", 0},
    {"one that is too long", stripe(0, most_in_a_stripe + 1, 'a'), "", 0},
    {"one of as many bytes as can be said", stripe_words({.at = 0, .bytes = UINT32_MAX}, std::string(100, 'a')), "", 0},
    {"one at the end of all streams", stripe(UINT64_MAX, 1, 'a'), "", 0},
    {"one beyond the end of all streams", stripe(UINT64_MAX - 30, 32, 'a'), "", 0},
    {"a number where none is", stripe_words({.at = 0, .bytes = 64, .unused = 1}, std::string(64, 'a')), "", 0},
};

TEST(Stripes, that_cannot_be_are_told_and_write_nowhere_else) {
  for (const Wrong& wrong : wrongs) {
    SCOPED_TRACE(wrong.name);
    StripedStreams streams(2);
    streams[0].bytes = wrong.first;
    streams[0].allowed = wrong.allowed_at_first;
    streams[1].bytes = wrong.second;
    Receiver receiver(streams.channel());
    size_t over = 0;
    for (int targets = 0; targets < 4 && !streams.channel().receiving(); ++targets) {
      receiver.post(64);
      while (receiver.turn()) continue;
      streams[0].allowed = SIZE_MAX;
      while (receiver.turn()) continue;
      if (streams.channel().receiving()) break;
      EXPECT_EQ(receiver.target().find('.'), std::string::npos) << "a byte that never came";
      ++over;
    }
    EXPECT_TRUE(streams.channel().receiving());
    EXPECT_LE(over, wrong.whole_targets);
    EXPECT_EQ(streams.channel().state().code(), ErrorCode::protocol) << streams.channel().state().text();
    EXPECT_FALSE(streams.channel().turn());
  }
}

// What an early stripe waits for was to come by a connection that has ended.
TEST(Stripes, that_wait_for_what_cannot_come_any_more_are_lost) {
  StripedStreams streams(2);
  streams[0].bytes = stripe(32, 32, 'b');
  streams[1].ends = true;
  Receiver receiver(streams.channel());
  receiver.post(64);
  while (receiver.turn()) continue;
  EXPECT_EQ(streams.channel().state().code(), ErrorCode::peer_lost);
  EXPECT_FALSE(streams.channel().holds_more());
}

TEST(Stripes, may_all_come_by_one_connection_when_the_other_has_ended) {
  StripedStreams streams(2);
  streams[0].bytes = stripe(32, 32, 'b');
  streams[1].bytes = stripe(0, 32, 'a');
  streams[1].ends = true;
  Receiver receiver(streams.channel());
  receiver.post(128);
  while (receiver.turn()) continue;
  EXPECT_TRUE(streams.channel().state().ok());
  EXPECT_TRUE(streams.channel().holds_more());
  streams[0].bytes += stripe(64, 64, 'c');
  while (receiver.turn()) continue;
  EXPECT_FALSE(streams.channel().receiving());
  EXPECT_EQ(receiver.target(), std::string(32, 'a') + std::string(32, 'b') + std::string(64, 'c'));
}

}  // namespace
}  // namespace unisono
