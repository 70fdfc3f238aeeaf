// A stream by a fabric and by the way beside it: when it moves, what it does where one end has no fabric, how it ends, and what it says to frames that cannot be. No UCX is needed.
#include "transport/fabric_stream.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "tests/support/memory_stream.hpp"
#include "tests/support/post_office.hpp"
#include "tests/torture/mutations.hpp"

namespace unisono::testing {
namespace {

using Bytes = std::vector<std::byte>;

// One end of a connection within this process.
class PairedStream final : public Stream {
 public:
  explicit PairedStream(int socket) : socket_(socket) {}
  size_t written = 0;

  Status open() override { return Status::success(); }
  void close() override { socket_.reset(); }
  int64_t write(Channel::Sent first, Channel::Sent second) override {
    int64_t all = 0;
    for (Channel::Sent part : {first, second}) {
      const ssize_t count = socket_ ? ::send(socket_.number(), part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
      all += std::max<ssize_t>(count, 0);
      if (count < static_cast<ssize_t>(part.size())) break;
    }
    written += static_cast<size_t>(all);
    return all;
  }
  int64_t read(std::span<std::byte> target) override {
    const ssize_t count = socket_ && !target.empty() ? recv(socket_.number(), target.data(), target.size(), MSG_DONTWAIT) : -1;
    ended_ |= count == 0;
    return std::max<ssize_t>(count, 0);
  }
  void arm(bool to_write, bool to_read) override {
    armed_to_write = to_write;
    armed_to_read = to_read;
  }
  void finish() override { close(); }
  bool holds_more() override { return !ended_; }
  Status state() const override { return ended_ ? Status(ErrorCode::peer_lost, "the way has ended") : Status(); }

  bool armed_to_write = false, armed_to_read = false;

 private:
  Descriptor socket_;
  bool ended_ = false;
};

// Two ranks, a fabric and a way between them.
class Fabrics : public ::testing::Test {
 protected:
  Fabrics() {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    for (size_t rank : {0, 1}) {
      auto way = std::make_unique<PairedStream>(sockets[rank]);
      ways[rank] = way.get();
      streams[rank] = std::make_unique<FabricStream>(counters[rank], std::move(way));
    }
  }

  // Both have said hello, and what follows goes by the fabric.
  void move() {
    std::byte one[1];
    for (int turn = 0; turn < 3; ++turn)
      for (size_t rank : {0, 1}) {
        streams[rank]->write(Bytes(1), {});
        streams[rank]->read(one);
      }
    for (size_t rank : {0, 1}) {
      while (streams[rank]->read(one) > 0) continue;
      ASSERT_TRUE(streams[rank]->sends_by_fabric() && streams[rank]->hears_by_fabric());
    }
  }

  PostOffice office;
  PostCounter counters[2] = {{office, "zero"}, {office, "one"}};
  PairedStream* ways[2];
  std::unique_ptr<FabricStream> streams[2];
};

Bytes numbered(size_t count) {
  Bytes bytes(count);
  for (size_t index = 0; index < count; ++index) bytes[index] = static_cast<std::byte>(index * 31 >> 3);
  return bytes;
}

// What rank 1 gets of what rank 0 writes, in pieces of odd lengths.
Bytes carried(FabricStream& from, FabricStream& to, const Bytes& all) {
  Bytes got;
  size_t sent = 0;
  for (int quiet = 0; got.size() < all.size() && quiet < 1000; ++quiet) {
    const auto rest = Channel::Sent(all).subspan(sent);
    const size_t head = std::min<size_t>(rest.size(), 24);
    const auto count = static_cast<size_t>(rest.empty() ? 0 : from.write(rest.first(head), rest.subspan(head)));
    sent += count;
    Bytes piece(7919);
    const auto came = static_cast<size_t>(to.read(piece));
    got.insert(got.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(came));
    if (count + came > 0) quiet = 0;
  }
  return got;
}

TEST_F(Fabrics, carry_all_bytes_in_order_from_the_way_to_the_fabric) {
  const Bytes all = numbered(5'000'000);
  EXPECT_EQ(carried(*streams[0], *streams[1], all), all);
  EXPECT_TRUE(streams[0]->sends_by_fabric());
  EXPECT_FALSE(streams[1]->sends_by_fabric()) << "it has sent nothing";
  EXPECT_EQ(carried(*streams[1], *streams[0], all), all);
  EXPECT_TRUE(streams[1]->sends_by_fabric());
  EXPECT_LT(ways[0]->written, 2'000'000u) << "nearly all of it went by the fabric";
}

TEST_F(Fabrics, nobody_waits_for_the_other_to_answer) {
  Bytes short_one(100);
  EXPECT_EQ(streams[0]->write(short_one, {}), 100) << "it goes by the way";
  EXPECT_FALSE(streams[0]->sends_by_fabric());
}

TEST_F(Fabrics, that_one_end_has_not_got_are_done_without) {
  for (const bool is_sender : {true, false}) {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    PostCounter lacking(office, "");
    FabricStream from(is_sender ? lacking : counters[0], std::make_unique<PairedStream>(sockets[0]));
    FabricStream to(is_sender ? counters[1] : lacking, std::make_unique<PairedStream>(sockets[1]));
    const Bytes all = numbered(1'000'000);
    EXPECT_EQ(carried(from, to, all), all);
    EXPECT_EQ(carried(to, from, all), all);
    EXPECT_FALSE(from.sends_by_fabric() || to.sends_by_fabric());
  }
}

TEST_F(Fabrics, are_left_alone_in_the_direction_that_does_not_work) {
  counters[0].unreachable = "one";
  const Bytes all = numbered(1'000'000);
  EXPECT_EQ(carried(*streams[0], *streams[1], all), all);
  EXPECT_EQ(carried(*streams[1], *streams[0], all), all);
  EXPECT_FALSE(streams[0]->sends_by_fabric());
  EXPECT_TRUE(streams[1]->sends_by_fabric());
}

TEST_F(Fabrics, hold_no_more_for_a_rank_that_does_not_read_than_the_window) {
  move();
  const Bytes piece(100'000);
  size_t sent = 0;
  for (int writes = 0; writes < 100; ++writes) sent += static_cast<size_t>(streams[0]->write(piece, {}));
  EXPECT_LE(sent, FabricStream::window_bytes);
  EXPECT_EQ(office.bytes_waiting(), sent);
  streams[0]->arm(true, false);
  EXPECT_TRUE(ways[0]->armed_to_read) << "that something was taken comes by the way";
  Bytes target(FabricStream::window_bytes / 2);
  for (size_t got = 0; got < target.size();) got += static_cast<size_t>(streams[1]->read(std::span(target).subspan(got)));
  EXPECT_GT(streams[0]->write(piece, {}), 0);
}

TEST_F(Fabrics, deliver_what_was_sent_before_the_end) {
  move();
  office.delivers = false;
  EXPECT_EQ(streams[0]->write(Bytes(1000, std::byte{7}), {}), 1000);
  streams[0]->close();
  Bytes target(2000);
  for (int looks = 0; looks < 1000; ++looks) EXPECT_EQ(streams[1]->read(target), 0);
  EXPECT_TRUE(streams[1]->state().ok()) << "it is still on its way";
  EXPECT_TRUE(streams[1]->holds_more());
  office.delivers = true;
  EXPECT_EQ(streams[1]->read(target), 1000);
  for (int looks = 0; looks < 1000; ++looks) EXPECT_EQ(streams[1]->read(target), 0);
  EXPECT_EQ(streams[1]->state().code(), ErrorCode::peer_lost);
  EXPECT_FALSE(streams[1]->holds_more());
}

TEST_F(Fabrics, do_not_keep_who_waits_for_what_never_comes) {
  move();
  office.delivers = false;
  streams[0]->write(Bytes(1000), {});
  streams[0]->close();
  Bytes target(1000);
  const Deadline patience = Deadline::in_seconds(20);
  while (streams[1]->state().ok() && !patience.passed()) streams[1]->read(target);
  EXPECT_EQ(streams[1]->state().code(), ErrorCode::peer_lost);
}

// A process that is killed says no farewell.
TEST_F(Fabrics, end_when_the_way_does) {
  move();
  streams[0]->write(Bytes(10), {});
  ways[0]->close();
  Bytes target(100);
  EXPECT_EQ(streams[1]->read(target), 10);
  for (int looks = 0; looks < 1000; ++looks) streams[1]->read(target);
  EXPECT_EQ(streams[1]->state().message(), "the way has ended");
}

TEST_F(Fabrics, that_break_are_told_of) {
  move();
  counters[0].broken = {ErrorCode::peer_lost, "the cable was pulled"};
  EXPECT_EQ(streams[0]->write(Bytes(10), {}), 0);
  EXPECT_EQ(streams[0]->state().message(), "the cable was pulled");
}

TEST_F(Fabrics, that_break_are_told_of_to_a_reader_once_it_has_what_came) {
  move();
  streams[0]->write(Bytes(10), {});
  counters[1].broken = {ErrorCode::peer_lost, "the cable was pulled"};
  Bytes target(100);
  EXPECT_EQ(streams[1]->read(target), 10);
  EXPECT_EQ(streams[1]->read(target), 0);
  EXPECT_EQ(streams[1]->state().message(), "the cable was pulled");
}

// A network may still write into what it was given long after its reader has gone.
TEST_F(Fabrics, never_touch_what_was_given_to_be_read_into) {
  move();
  office.holds_back = true;
  const Bytes sent(1000, std::byte{7});
  streams[0]->write(sent, {});
  Bytes target(1000);
  EXPECT_EQ(streams[1]->read(target), 0);
  office.release(FabricMessage::State::whole);
  EXPECT_EQ(target, Bytes(1000));
  EXPECT_EQ(streams[1]->read(target), 1000);
  EXPECT_EQ(target, sent);
}

TEST_F(Fabrics, say_when_a_message_has_not_come_whole) {
  move();
  office.holds_back = true;
  streams[0]->write(Bytes(1000), {});
  Bytes target(1000);
  EXPECT_EQ(streams[1]->read(target), 0);
  office.release(FabricMessage::State::failed);
  EXPECT_EQ(streams[1]->read(target), 0);
  EXPECT_EQ(streams[1]->state().code(), ErrorCode::peer_lost);
}

TEST_F(Fabrics, are_armed_where_something_may_come_by_them) {
  streams[0]->arm(false, true);
  EXPECT_EQ(counters[0].armed, 0);
  EXPECT_TRUE(ways[0]->armed_to_read);
  EXPECT_FALSE(ways[0]->armed_to_write);
  streams[0]->arm(true, false);
  EXPECT_TRUE(ways[0]->armed_to_write);
  move();
  streams[0]->arm(true, true);
  EXPECT_EQ(counters[0].armed, 1);
  EXPECT_FALSE(ways[0]->armed_to_write) << "it is writable all the time";
}

TEST(FabricFrames, that_cannot_be_there_are_refused) {
  using Kind = FabricFrame::Kind;
  const FabricHeard begun, greeted{.hello = true, .sent = 1000, .taken = 10}, moved{.hello = true, .moved = true}, ended{.hello = true, .moved = true, .ended = true};
  const auto can_be = [](const FabricFrame& frame, const FabricHeard& heard) { return check_fabric_frame(frame, heard).ok(); };
  EXPECT_TRUE(can_be({Kind::hello, most_fabric_address_bytes, 7}, begun));
  EXPECT_TRUE(can_be({Kind::hello, 0, 7}, begun));
  EXPECT_FALSE(can_be({Kind::hello, most_fabric_address_bytes + 1, 7}, begun));
  EXPECT_FALSE(can_be({Kind::hello, 0, 7}, greeted)) << "once";
  for (const Kind kind : {Kind::data, Kind::moves, Kind::took, Kind::ended}) EXPECT_FALSE(can_be({kind, kind == Kind::data ? 1u : 0u, kind == Kind::took ? 1u : 0u}, begun)) << "hello comes first";
  EXPECT_TRUE(can_be({Kind::data, 1, 0}, greeted));
  EXPECT_TRUE(can_be({Kind::data, most_fabric_data_bytes, 0}, greeted));
  EXPECT_FALSE(can_be({Kind::data, most_fabric_data_bytes + 1, 0}, greeted));
  EXPECT_FALSE(can_be({Kind::data, 0, 0}, greeted));
  EXPECT_FALSE(can_be({Kind::data, 1, 0}, moved)) << "after it has moved";
  EXPECT_TRUE(can_be({Kind::moves, 0, 0}, greeted));
  EXPECT_FALSE(can_be({Kind::moves, 1, 0}, greeted));
  EXPECT_FALSE(can_be({Kind::moves, 0, 0}, moved)) << "once";
  EXPECT_TRUE(can_be({Kind::took, 0, 1000}, greeted));
  EXPECT_FALSE(can_be({Kind::took, 0, 1001}, greeted)) << "more than was sent";
  EXPECT_FALSE(can_be({Kind::took, 0, 10}, greeted)) << "no more than before";
  EXPECT_TRUE(can_be({Kind::ended, 0, 5}, moved));
  EXPECT_FALSE(can_be({Kind::ended, 0, 5}, greeted)) << "nothing came by the fabric";
  EXPECT_TRUE(can_be({Kind::ended, 0, 0}, greeted));
  EXPECT_FALSE(can_be({Kind::took, 0, 1}, ended)) << "nothing after the end";
  EXPECT_FALSE(can_be({static_cast<Kind>(0), 0, 0}, moved));
  EXPECT_FALSE(can_be({static_cast<Kind>(6), 0, 0}, moved));
}

std::string frame_words(FabricFrame::Kind kind, uint64_t number, const std::string& rest = "") {
  return bytes_of(FabricFrame{kind, static_cast<uint32_t>(rest.size()), number}) + rest;
}

// A conversation that is right, with bytes changed, lost or added: the reader gets bytes, or is told, and never waits for ever.
TEST(FabricFrames, that_were_changed_are_refused_or_read) {
  PostOffice office;
  using Kind = FabricFrame::Kind;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Dice dice(seed);
    PostCounter counter(office, "here");
    auto memory = std::make_unique<MemoryStream>();
    MemoryStream& way = *memory;
    const std::string good = frame_words(Kind::hello, seed, "there") + frame_words(Kind::data, 0, random_bytes(dice, 100)) + frame_words(Kind::moves, 0) + frame_words(Kind::ended, 0);
    way.bytes = dice.chance(10) ? good : mutated(dice, good);
    way.ends = true;
    FabricStream stream(counter, std::move(memory), 0);
    std::string target(300, '\xa5');
    int64_t got = 0;
    int turns = 0;
    for (; stream.state().ok() && got < 200 && turns < 1000; ++turns) got += stream.read(std::as_writable_bytes(std::span(target)).subspan(static_cast<size_t>(got), 200 - static_cast<size_t>(got)));
    EXPECT_LT(turns, 1000) << "seed " << seed;
    EXPECT_EQ(target.find_first_not_of('\xa5', 200), target.npos);
  }
}

}  // namespace
}  // namespace unisono::testing
