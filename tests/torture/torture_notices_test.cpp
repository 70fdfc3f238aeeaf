// Notices between two ranks whose connections are cut again and again: every one is heard once, in order, and what was heard is not kept. The wire is this thread:
// it passes on as much as it likes, resets both ends or one of them, and refuses connections for a while.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <list>

#include "group/remotes.hpp"
#include "tests/torture/mutations.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

constexpr uint64_t tokens[] = {4711, 4712};
constexpr size_t most_kept = 32;  // when all was heard

// From one rank to the door of the other.
class CutWire {
 public:
  CutWire(Dice& dice, const Address& to) : dice_(dice), to_(to) { listen(); }

  const Address& address() const { return at_; }
  bool has_connections() const { return !pairs_.empty(); }

  void turn(bool cuts) {
    if (!listener_ && !is_shut_ && (!cuts || dice_.chance(5))) listen();
    let_in();
    for (Pair& pair : pairs_) {
      pass_on(pair, pair.near, pair.far, pair.near_is_over);
      pass_on(pair, pair.far, pair.near, pair.far_is_over);
      if (cuts && pair.far && pair.near && dice_.chance(2)) cut(pair);
      if ((!pair.far || !pair.near) && dice_.chance(1)) reset(pair.far ? pair.far : pair.near);  // its kernel has asked, and heard that nobody knows the connection
    }
    pairs_.remove_if([](const Pair& pair) { return (!pair.near && !pair.far) || (pair.near_is_over && pair.far_is_over); });
  }
  void shut(bool is_shut) {
    is_shut_ = is_shut;
    if (is_shut) listener_.reset();
    if (is_shut) reset_all();
  }
  void reset_all() {
    for (Pair& pair : pairs_) {
      reset(pair.near);
      reset(pair.far);
    }
  }

 private:
  struct Pair {
    Descriptor near, far;
    bool near_is_over = false, far_is_over = false;  // nothing more comes from there
  };

  void listen() {
    if (!place_) {
      place_ = bound_to(Address::loopback(0));
      at_ = Address::of_socket(place_.number());
    }
    listener_ = bound_to(at_);
    ASSERT_EQ(::listen(listener_.number(), 16), 0) << std::strerror(errno);
  }
  static Descriptor bound_to(const Address& at) {
    Descriptor bound(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    setsockopt(bound.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    EXPECT_EQ(bind(bound.number(), at.get(), at.bytes()), 0) << std::strerror(errno);
    return bound;
  }

  void let_in() {
    if (!listener_) return;
    Descriptor near(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!near) return;
    Descriptor far(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(far.number(), to_.get(), to_.bytes()) != 0) return;
    pairs_.push_back({std::move(near), std::move(far)});
  }

  // What comes for an end that is gone is answered with a reset, as by a machine that knows nothing of the connection.
  void pass_on(Pair& pair, Descriptor& from, const Descriptor& to, bool& is_over) {
    char bytes[3000];
    if (!from || is_over || dice_.chance(30)) return;
    const ssize_t count = recv(from.number(), bytes, static_cast<size_t>(dice_.between(1, sizeof(bytes))), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count > 0 && to) {
      for (ssize_t sent = 0; sent < count;) {
        const ssize_t went = send(to.number(), bytes + sent, static_cast<size_t>(count - sent), MSG_NOSIGNAL);
        if (went <= 0) break;
        sent += went;
      }
      return;
    }
    is_over = count == 0;
    if (is_over && to) {
      shutdown(to.number(), SHUT_WR);
      return;
    }
    reset(pair.near);
    reset(pair.far);
  }

  void cut(Pair& pair) {
    const int ends = dice_.between(1, 3);
    if (ends & 1) reset(pair.near);
    if (ends & 2) reset(pair.far);
    if (dice_.chance(30)) listener_.reset();
  }

  static void reset(Descriptor& end) {
    const linger at_once{1, 0};
    if (end) setsockopt(end.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    end.reset();
  }

  Dice& dice_;
  Address to_, at_;
  Descriptor place_;  // never listens: while no listener does either, the port is given to nobody else and refuses whoever comes
  Descriptor listener_;
  std::list<Pair> pairs_;
  bool is_shut_ = false;
};

// Its notices are numbered, and their lengths follow from the numbers.
class Talker {
 public:
  explicit Talker(int me) : me_(me), sockets_(*Sockets::open({.me = me})) { sockets_->know(tokens[me]); }

  const Address& address() const { return sockets_->address(); }
  void meet(const Address& other) {
    auto nobody = std::shared_ptr<Mapping>(std::shared_ptr<Mapping>(), reinterpret_cast<Mapping*>(1));
    for (int rank : {0, 1}) everybody_.push_back({rank, 0, rank == me_ ? nobody : nullptr, {{rank == me_ ? address() : other}}, tokens[rank]});
    remotes_ = std::make_unique<Remotes>(everybody_, me_, Ways{.choice = {}, .sockets = sockets_.get()}, [] {});
  }

  void tell(Dice& dice) {
    for (int count = dice.below(8); count > 0; --count) {
      Notice notice;
      notice.head = {.kind = NoticeHead::Kind::last_words, .finished = told_};
      notice.add_text(std::string(length(told_), 'x'));
      remotes_->tell(other(), notice);
      ++told_;
    }
  }
  void say_goodbye() {
    Notice notice;
    notice.head = {.kind = NoticeHead::Kind::goodbye};
    remotes_->tell(other(), notice);
  }
  void finish(const std::function<void()>& meanwhile) {
    const auto let_in = [&] { sockets_->rang(), meanwhile(); };
    remotes_->finish(let_in, Deadline::in_seconds(20));
    remotes_->close();
  }

  void listen() {
    sockets_->rang();
    Remotes::News news;
    remotes_->listen(news);
    for (const auto& [rank, notice] : news.heard) {
      if (notice.head.kind == NoticeHead::Kind::goodbye) {
        EXPECT_FALSE(was_told_goodbye_);
        was_told_goodbye_ = true;
        continue;
      }
      ASSERT_EQ(notice.head.finished, heard_) << "in order, and once";
      ASSERT_EQ(notice.body.size(), length(heard_));
      ++heard_;
    }
    for (const auto& [rank, is_wrong, why] : news.ended) {
      ASSERT_FALSE(is_wrong) << why;
      remotes_->reopen(rank);
    }
  }

  bool has_heard_all_of(const Talker& other) const { return heard_ == other.told_; }
  size_t kept() { return remotes_->kept(other()); }
  bool was_told_goodbye() const { return was_told_goodbye_; }

 private:
  int other() const { return 1 - me_; }
  static size_t length(uint32_t number) { return number * 7919 % most_notice_text_bytes; }

  int me_;
  std::unique_ptr<Sockets> sockets_;
  std::vector<Neighbour> everybody_;
  std::unique_ptr<Remotes> remotes_;
  uint32_t told_ = 0, heard_ = 0;
  bool was_told_goodbye_ = false;
};

int64_t talk_through_cuts(uint64_t seed) {
  Dice dice(seed);
  Talker zero(0), one(1);
  CutWire to_one(dice, one.address()), to_zero(dice, zero.address());
  zero.meet(to_one.address());
  one.meet(to_zero.address());
  const auto turn = [&](bool cuts) {
    to_one.turn(cuts);
    to_zero.turn(cuts);
    if (!dice.chance(20)) zero.listen();
    if (!dice.chance(20)) one.listen();
  };
  CutWire* const shut = dice.chance(50) ? nullptr : dice.chance(50) ? &to_one : &to_zero;  // from some time on only one end can reach the other
  for (int turns = 400; turns > 0 && !::testing::Test::HasFailure(); --turns) {
    if (turns == 200 && shut) shut->shut(true);
    if (dice.chance(25)) zero.tell(dice);
    if (dice.chance(25)) one.tell(dice);
    turn(true);
  }
  const auto settle = [&](auto is_settled, auto go_on) {
    for (const Deadline patience = Deadline::in_seconds(30); !is_settled() && !patience.passed() && !::testing::Test::HasFailure(); go_on()) continue;
    EXPECT_TRUE(is_settled());
  };
  settle([&] { return zero.has_heard_all_of(one) && one.has_heard_all_of(zero); }, [&] { turn(false); });
  settle([&] { return zero.kept() < most_kept && one.kept() < most_kept; }, [&] { turn(false); });
  if (shut) shut->shut(false);
  // Who leaves is heard, though its connection was reset just then.
  to_one.reset_all();
  to_zero.reset_all();
  zero.tell(dice);
  zero.say_goodbye();
  const auto turn_without_zero = [&] {
    to_one.turn(false);
    to_zero.turn(false);
    one.listen();
  };
  zero.finish(turn_without_zero);
  settle([&] { return one.has_heard_all_of(zero) && one.was_told_goodbye(); }, turn_without_zero);
  return 1;
}

TEST(Notices, are_heard_once_and_in_order_whatever_is_cut) { run_rounds("conversations", talk_through_cuts); }

}  // namespace
}  // namespace unisono::testing
