// Connections between ranks that have a secret in common: what is said before the first byte of data, who is let in, and who is not.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "tests/support/children.hpp"
#include "transport/socket_stream.hpp"

namespace unisono {
namespace {

constexpr uint64_t group = 4711;
constexpr double patience_s = 20;

std::shared_ptr<const Trust> trust_of(char secret) {
  std::array<std::byte, 32> bytes;
  bytes.fill(static_cast<std::byte>(secret));
  return *Trust::of(bytes, "job");
}

// A rank's sockets, and the thread that lets others in.
class Rank {
 public:
  explicit Rank(int rank, char secret = 'a', bool sealed = false, double stranger_s = 5, bool has_control = true)
      : token_(100 + static_cast<uint64_t>(rank)) {
    auto refused = [this](const std::string& why) {
      std::lock_guard lock(mutex_);
      log_ += why + "\n";
    };
    sockets_ = *Sockets::open({.trust = trust_of(secret), .me = rank, .sealed = sealed, .stranger_s = stranger_s, .refused = refused});
    sockets_->know(token_);
    sockets_->expect(group);
    if (has_control) control_ = std::thread([this] {
      pollfd wakes{sockets_->descriptor(), POLLIN, 0};
      while (!stops_) {
        if (poll(&wakes, 1, 10) > 0) sockets_->rang();
        sockets_->look_after_left();
      }
    });
  }
  ~Rank() {
    stops_ = true;
    if (control_.joinable()) control_.join();
  }
  Sockets& sockets() { return *sockets_; }
  uint64_t token() const { return token_; }
  std::string log() {
    std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  uint64_t token_;
  std::mutex mutex_;
  std::string log_;
  std::unique_ptr<Sockets> sockets_;
  std::atomic<bool> stops_{false};
  std::thread control_;
};

SocketStream stream_between(Rank& one, int rank, Rank& other, int peer) {
  return {one.sockets(), {{other.token(), group, 0, rank, peer}, {one.token(), group, 0, peer, rank}, other.sockets().address()}};
}

void expect_bytes_pass(SocketStream& from, SocketStream& to, size_t bytes) {
  std::vector<std::byte> sent(bytes), got(bytes);
  for (size_t index = 0; index < bytes; ++index) sent[index] = static_cast<std::byte>(index * 7 + index / 251);
  size_t out = 0, in = 0;
  const Deadline deadline = Deadline::in_seconds(patience_s);
  while (in < bytes && from.state().ok() && to.state().ok() && !deadline.passed()) {
    if (out < bytes) out += static_cast<size_t>(from.write(Channel::Sent(sent).subspan(out, (bytes - out) / 2), Channel::Sent(sent).subspan(out + (bytes - out) / 2)));
    in += static_cast<size_t>(to.read(std::span(got).subspan(in)));
  }
  EXPECT_EQ(in, bytes) << from.state().text() << to.state().text();
  EXPECT_EQ(got, sent);
}

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
  Rank zero(0, 'a', GetParam(), 5, false), one(1, 'a', GetParam());
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

// What a connector hears in the end.
Status refusal(Rank& from, int rank, Rank& to, const SocketKey& key) {
  SocketStream stream(from.sockets(), {key, {from.token(), group, 0, key.to, rank}, to.sockets().address()});
  const std::byte byte{};
  const Deadline deadline = Deadline::in_seconds(patience_s);
  while (stream.state().ok() && !deadline.passed())
    if (stream.write({&byte, 1}, {}) > 0) return Status::success();
  return stream.state();
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
    EXPECT_GT(sockets_.size(), 100u);
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
  constexpr double hours_s = 10'000;
  Rank zero(0, 'a', false, hours_s), one(1);
  const Strangers strangers(zero.sockets().address(), testing::small_run() ? 200 : 900);
  SocketStream there = stream_between(one, 1, zero, 0), back = stream_between(zero, 0, one, 1);
  expect_bytes_pass(there, back, 100);
  EXPECT_TRUE(testing::await([&] { return strangers.kept() <= 64; })) << strangers.kept();
}

TEST(TrustedSockets, keep_no_stranger_for_long) {
  Rank zero(0, 'a', false, 0.05);
  const Strangers strangers(zero.sockets().address(), 200);
  EXPECT_TRUE(testing::await([&] { return strangers.kept() == 0; })) << strangers.kept();
}

TEST(TrustedSockets, are_not_disturbed_by_noise) {
  Rank zero(0), one(1);
  for (const char* said : {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "\xff\xff\xff\xff\xff\xff"}) {
    Descriptor stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Address& to = zero.sockets().address();
    ASSERT_EQ(connect(stranger.number(), to.get(), to.bytes()), 0);
    EXPECT_GT(send(stranger.number(), said, strlen(said), MSG_NOSIGNAL), 0);
    std::byte rest[256];
    while (recv(stranger.number(), rest, sizeof(rest), 0) > 0) continue;  // an alert, and the end
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

}  // namespace
}  // namespace unisono
