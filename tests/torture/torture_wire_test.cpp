// What is said before the first byte of data, as none of ours says it: identities, greetings, verdicts and seats as functions of bytes, then openings
// behind a good handshake. Each reader takes it or says what is wrong, in legible words and within its bounds; AddressSanitizer sees to the rest.
// What follows on an open connection: torture_frames_test.cpp, torture_stripes_test.cpp.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/clock.hpp"
#include "base/legible.hpp"
#include "rendezvous/reach.hpp"
#include "rendezvous/roster.hpp"
#include "rendezvous/running_world.hpp"
#include "tests/torture/mutations.hpp"
#include "tests/torture/rounds.hpp"
#include "transport/opening.hpp"

namespace unisono::testing {
namespace {

SocketKey random_key(Dice& dice) {
  return {.token = dice.seed(), .group = dice.seed(), .use = dice.between(0, 5), .from = 1, .to = 0, .sealed = dice.between(0, 1)};
}

int64_t read_one_identity(uint64_t seed) {
  Dice dice(seed);
  const std::string text = maybe_mutated(dice, Identity{"01234abf", {dice.between(-2, 9), dice.between(-1, 9)}}.text());
  if (const auto identity = Identity::parse(text)) {
    EXPECT_EQ(identity->text(), text);
    EXPECT_TRUE(is_legible(text));
    EXPECT_TRUE(identity->ends.from >= TlsEnds::client && identity->ends.to >= TlsEnds::store);
  }
  return 1;
}

void expect_refusal(const Status& status) {
  EXPECT_TRUE(status.code() == ErrorCode::protocol || status.code() == ErrorCode::version) << status.text();
  EXPECT_FALSE(status.message().empty());
  EXPECT_TRUE(is_legible(status.message())) << status.text();
}

int64_t read_one_greeting(uint64_t seed) {
  Dice dice(seed);
  const std::string words = maybe_mutated(dice, greeting_words({.protocol = dice.chance(90) ? 1u : 2u, .key = random_key(dice)}));
  if (words.size() >= greeting_head_bytes) {
    auto length = greeting_length(span_of(words).first<greeting_head_bytes>());
    EXPECT_TRUE(!length.ok() || *length <= most_greeting_bytes);
  }
  auto greeting = read_greeting(span_of(words));
  if (!greeting.ok()) return expect_refusal(greeting.status()), 1;
  EXPECT_TRUE(is_legible(greeting->library));
  if (const Status status = check_versions(*greeting, 1, 0); !status.ok()) expect_refusal(status);
  if (greeting->protocol == rank_protocol) {
    EXPECT_EQ(greeting_words(*greeting), words) << "what is read is written the same";
  }
  return 1;
}

int64_t read_one_verdict(uint64_t seed) {
  Dice dice(seed);
  const Status verdict = dice.chance(30) ? Status() : Status(static_cast<ErrorCode>(dice.between(1, 17)), "that group is not on rank 0 any more");
  const std::string words = maybe_mutated(dice, verdict_words(verdict));
  const Status read = read_verdict(span_of(words));
  EXPECT_TRUE(is_legible(read.message()));
  if (read.ok()) {
    EXPECT_EQ(words, verdict_words(Status())) << "nothing else is a welcome";
  }
  return 1;
}

int64_t read_one_seat(uint64_t seed) {
  Dice dice(seed);
  const Seat seat{dice.between(-1, 9), dice.between(-1, 9), dice.between(-1, 99999), dice.seed(), dice.seed(), dice.chance(90) ? "two" : "",
                  dice.between(-1, 9), dice.chance(50), dice.between(0, 16), dice.between(-1, 4), dice.chance(50) ? "10.0.0.1:29500" : ""};
  const std::string text = maybe_mutated(dice, seat.text());
  if (const auto read = Seat::parse(text)) {
    EXPECT_EQ(read->text(), text);
    EXPECT_TRUE(read->rank >= 0 && read->pid >= 0 && is_legible(read->addresses) && text.size() <= 1024);
  }
  const Status reason = reason_to_give_up(maybe_mutated(dice, "8 rank 3 did not come"));
  EXPECT_FALSE(reason.ok());
  EXPECT_TRUE(is_legible(reason.message())) << reason.text();
  return 2;
}

int64_t read_one_seat_of_the_past(uint64_t seed) {
  Dice dice(seed);
  const Seat seat{dice.between(1, 9), dice.between(0, 9), dice.between(0, 99999), dice.seed(), dice.seed(), "two", dice.between(0, 3), false, 1, dice.between(0, 2), "10.0.0.1:29500"};
  const std::string ended = maybe_mutated(dice, seat.ended_text());
  if (const auto read = Seat::parse_ended(ended)) {
    EXPECT_EQ(read->ended_text(), ended) << "what is read is written the same";
    EXPECT_FALSE(Seat::parse(ended));
  }
  const std::string running = maybe_mutated(dice, RunningWorld{dice.between(0, 9), "store " + std::string(32, 'a'), std::string(32, '7'), seat}.text());
  if (const auto read = RunningWorld::parse(running)) {
    EXPECT_EQ(read->text(), running);
    EXPECT_GT(read->generation, 0);
    EXPECT_TRUE(is_legible(running));
  }
  return 1;
}

int64_t read_one_reach(uint64_t seed) {
  Dice dice(seed);
  std::vector<std::string> rows;
  for (const char* row : {"++-\n2 rank 0 on one could not reach rank 2: 10.0.0.3:20001: no answer for 6 s", "+++", "--+\n0 refused\n1 refused"})
    rows.push_back(maybe_mutated(dice, row));
  const Status read = check_reach(rows, dice.between(2, 4));
  EXPECT_TRUE(is_legible(read.message()) && read.message().size() < 1200) << read.text();
  return 1;
}

TEST(Wire, identities) { run_rounds("identities", read_one_identity); }
TEST(Wire, greetings) { run_rounds("greetings", read_one_greeting); }
TEST(Wire, verdicts) { run_rounds("verdicts", read_one_verdict); }
TEST(Wire, seats) { run_rounds("seats", read_one_seat); }
TEST(Wire, seats_of_ranks_that_ended_and_of_running_worlds) { run_rounds("seats of the past", read_one_seat_of_the_past); }
TEST(Wire, reach) { run_rounds("reach", read_one_reach); }

std::shared_ptr<const Trust> wire_trust() {
  static const std::shared_ptr<const Trust> trust = [] {
    std::array<std::byte, 32> secret;
    secret.fill(std::byte{7});
    return *Trust::of(secret, "job");
  }();
  return trust;
}

struct OpenedBy {
  OpenedBy() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    mine = Descriptor(ends[0]);
    theirs = Descriptor(ends[1]);
  }
  Descriptor mine, theirs;
};

// Shakes hands, says the bytes in pieces, hears what is answered until the end.
std::string say_behind_tls(Dice& dice, Tls& tls, Opening& opening, const std::string& said) {
  for (bool shaken = false; !shaken && tls.state().ok();) {
    shaken = tls.shake_hands();
    opening.turn();
  }
  std::string heard(1024, 0);
  size_t count = 0;
  const auto listen = [&] { count += static_cast<size_t>(tls.read(std::as_writable_bytes(std::span(heard)).subspan(count))); };
  in_pieces(dice, said, [&](std::string_view piece) {
    static_cast<void>(tls.write(std::as_bytes(std::span(piece))));
    opening.turn();
    if (opening.asks()) opening.answer(dice.chance(50) ? Status() : Status(ErrorCode::init, "the test says no"));
    opening.turn();
    listen();
  });
  listen();
  heard.resize(count);
  return heard;
}

int64_t open_for_strangers(uint64_t seed) {
  Dice dice(seed);
  OpenedBy ends;
  Tls visitor(wire_trust(), ends.mine.number(), Tls::Role::connects, {1, 0});
  Opening opening(std::move(ends.theirs), wire_trust(), 0);
  std::string said = maybe_mutated(dice, greeting_words({.protocol = dice.chance(90) ? 1u : 2u, .key = random_key(dice)}));
  if (dice.chance(30)) said += random_bytes(dice, dice.between(1, 300));
  const std::string heard = say_behind_tls(dice, visitor, opening, said);
  ends.mine.reset();
  const Deadline patience = Deadline::in_seconds(20);
  while (!opening.turn() && !patience.passed()) continue;
  if (opening.asks()) opening.answer({ErrorCode::init, "the test says no"});
  while (!opening.turn() && !patience.passed()) continue;
  EXPECT_TRUE(opening.is_open() || !opening.state().ok()) << "it comes to an end";
  EXPECT_TRUE(is_legible(opening.state().message())) << opening.state().text();
  if (heard.size() == verdict_bytes) {
    EXPECT_TRUE(is_legible(read_verdict(span_of(heard)).message()));
  }
  return 1;
}

TEST(Wire, greetings_behind_a_handshake) { run_rounds("openings", open_for_strangers); }

int64_t answer_with_nonsense(uint64_t seed) {
  Dice dice(seed);
  OpenedBy ends;
  const SocketKey key{.token = 1, .group = 2, .from = 1, .to = 0, .sealed = dice.between(0, 1)};
  Tls host(wire_trust(), ends.mine.number(), Tls::Role::accepts, {.to = 0});
  Opening opening(std::move(ends.theirs), wire_trust(), key);
  const Status verdict = dice.chance(50) ? Status() : Status(ErrorCode::peer_lost, "that group is not on rank 0 any more");
  const std::string said = maybe_mutated(dice, verdict_words(verdict));
  for (bool shaken = false; !shaken && host.state().ok();) {
    opening.turn();
    shaken = host.shake_hands();
  }
  say_behind_tls(dice, host, opening, said);
  ends.mine.reset();
  const Deadline patience = Deadline::in_seconds(20);
  while (!opening.turn() && !patience.passed()) continue;
  EXPECT_TRUE(opening.is_open() || !opening.state().ok()) << "it comes to an end";
  EXPECT_TRUE(is_legible(opening.state().message())) << opening.state().text();
  if (opening.is_open()) {
    EXPECT_EQ(said.substr(0, verdict_bytes), verdict_words(Status()));
  }
  return 1;
}

TEST(Wire, verdicts_behind_a_handshake) { run_rounds("openings", answer_with_nonsense); }

}  // namespace
}  // namespace unisono::testing
