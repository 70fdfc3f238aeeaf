// What a peer writes into the ring of its letters is believed only where it can be: every other frame is told as a fault, and
// nothing is written anywhere because of it.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/mail.hpp"
#include "transport/byte_ring.hpp"
#include "transport/ring_stream.hpp"

namespace unisono {
namespace {

constexpr int64_t letter_bytes = 40;

// Two ranks' memory in one process; rank 1 receives, and the test writes what rank 0 should have.
struct Pair {
  LaneLayout layout{2, 2};
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<int64_t> offsets;
  std::unique_ptr<Lanes> giver, taker;
  std::unique_ptr<RingStream> stream;

  Pair() {
    std::vector<Neighbour> neighbours;
    for (int rank = 0; rank < 2; ++rank) {
      auto arena = Arena::create(16_MiB);
      EXPECT_TRUE(arena.ok() && (*arena)->take(sizeof(ArenaHead), "a head").ok());
      arenas.push_back(std::move(*arena));
      offsets.push_back(*arenas.back()->take(layout.bytes(), "a lane"));
      neighbours.push_back({rank, 0, arenas.back()->mapping()});
    }
    giver = std::make_unique<Lanes>(layout, 0, neighbours);
    taker = std::make_unique<Lanes>(layout, 1, neighbours);
    for (Lanes* lanes : {giver.get(), taker.get()}) lanes->find(offsets);
    stream = std::make_unique<RingStream>(*giver, *arenas[0], LinkUse::letters, 1);
    EXPECT_TRUE(stream->open().ok());
  }
  // The frame, and behind it zeros until so many bytes were written.
  void write(const Frame& frame, int64_t bytes) {
    const std::vector<std::byte> body(static_cast<size_t>(std::max<int64_t>(bytes - static_cast<int64_t>(sizeof(frame)), 0)));
    const auto head = std::as_bytes(std::span(&frame, 1)).first(std::min(sizeof(frame), static_cast<size_t>(bytes)));
    EXPECT_EQ(stream->write(head, body), bytes);
  }
};

class TestLetter : public Letter {
 public:
  TestLetter(Envelope::Kind kind, int peer, std::vector<std::byte>& place) : Letter(envelope(kind, peer, place)) {}
  void over(const Status& status) override {
    is_over = true;
    outcome = status;
  }
  bool is_over = false;
  Status outcome;

 private:
  static Envelope envelope(Envelope::Kind kind, int peer, std::vector<std::byte>& place) {
    Envelope envelope;
    envelope.kind = kind;
    envelope.peer = peer;
    envelope.data = {place.data(), static_cast<int64_t>(place.size())};
    return envelope;
  }
};

struct Awaited : TestLetter {
  explicit Awaited(std::vector<std::byte>& place) : TestLetter(Envelope::Kind::receive, 0, place) {}
};
struct Given : TestLetter {
  explicit Given(std::vector<std::byte>& place) : TestLetter(Envelope::Kind::send, 1, place) {}
};

constexpr int64_t head = sizeof(Frame);

struct Wrong {
  std::string name;
  Frame frame;
  int64_t published = head + letter_bytes;
};

// Rank 1 awaits a letter of rank 0.
struct Waiting {
  Pair pair;
  Mail mail{*pair.taker, *pair.arenas[1]};
  std::vector<std::byte> place = std::vector<std::byte>(letter_bytes, std::byte{7});
  Awaited letter{place};

  explicit Waiting(int32_t tag = 0) {
    letter.tag = tag;
    mail.enter(letter);
    mail.post(letter);
  }
};

// Messages that nothing awaits are bounded by credit; of offers there is only a head each.
TEST(Mail, keeps_no_more_offers_than_anybody_would_make) {
  Waiting waiting(9);
  int64_t offered = 0;
  while (waiting.mail.failure().ok() && offered < 2 * most_offers) {
    waiting.pair.write({.kind = Frame::Kind::offer, .tag = 5, .bytes = 1 << 20, .sequence = static_cast<uint64_t>(++offered)}, head);
    while (waiting.mail.turn()) continue;
  }
  EXPECT_EQ(offered, most_offers + 1);
  EXPECT_EQ(waiting.mail.failure().code(), ErrorCode::protocol) << waiting.mail.failure().text();
}

TEST(Mail, takes_a_frame_that_can_be) {
  Waiting waiting;
  auto& [pair, mail, place, letter] = waiting;
  pair.write({.bytes = letter_bytes, .sequence = 1}, head + letter_bytes);
  EXPECT_TRUE(mail.turn());
  EXPECT_TRUE(letter.is_over && letter.outcome.ok());
  EXPECT_EQ(place, std::vector<std::byte>(letter_bytes)) << "what lay in the ring";
}

TEST(Mail, tells_of_frames_that_cannot_be) {
  const std::vector<Wrong> all = {
      {"a kind that there is not", {.kind = static_cast<Frame::Kind>(7), .bytes = letter_bytes}},
      {"a dtype that there is not", {.dtype = static_cast<DType>(200), .bytes = letter_bytes}},
      {"half an element", {.dtype = DType::float64, .bytes = 41}},
      {"less than nothing", {.bytes = -8}},
      {"more than a frame may have", {.bytes = int64_t{1} << 40}},
      {"a length that overflows", {.bytes = INT64_MAX}},
      {"more than was sent has been received", {.kind = Frame::Kind::credit, .bytes = 1}},
      {"more credit than there can be", {.kind = Frame::Kind::credit, .bytes = credit_bytes + 1}},
      {"bytes of no letter", {.kind = Frame::Kind::data, .bytes = letter_bytes, .sequence = 99}},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.name);
    Waiting waiting;
    auto& [pair, mail, place, letter] = waiting;
    pair.write(wrong.frame, wrong.published);
    mail.turn();
    EXPECT_EQ(mail.failure().code(), ErrorCode::protocol) << mail.failure().text();
    EXPECT_NE(mail.failure().message().find("rank 0"), std::string::npos) << mail.failure().text();
    EXPECT_FALSE(letter.is_over) << "the group ends it";
    EXPECT_EQ(place, std::vector<std::byte>(letter_bytes, std::byte{7}));
    mail.finish(letter, mail.failure());
  }
}

// What the peer wrote and has not come yet: the rest of a head, or of a body.
TEST(Mail, waits_for_the_rest_of_a_frame) {
  Waiting waiting;
  auto& [pair, mail, place, letter] = waiting;
  const Frame frame{.bytes = letter_bytes, .sequence = 1};
  const auto bytes = std::as_bytes(std::span(&frame, 1));
  const std::vector<std::byte> body(letter_bytes);
  for (const auto part : {bytes.first(5), bytes.subspan(5), std::span(body).first(1), std::span(body).subspan(1)}) {
    EXPECT_FALSE(letter.is_over);
    EXPECT_FALSE(mail.turn());
    ASSERT_EQ(pair.stream->write(part, {}), static_cast<int64_t>(part.size()));
    EXPECT_TRUE(mail.turn());
    EXPECT_TRUE(mail.failure().ok());
  }
  EXPECT_TRUE(letter.is_over && letter.outcome.ok());
  EXPECT_EQ(place, body);
}

// Its group breaks in the middle of a letter: its memory is its owner's again, whatever comes.
TEST(Mail, writes_nothing_into_a_letter_that_was_given_up) {
  Waiting waiting;
  auto& [pair, mail, place, letter] = waiting;
  Awaited other(place);
  pair.write({.bytes = letter_bytes, .sequence = 1}, head);
  EXPECT_TRUE(mail.turn());
  mail.finish(letter, Status(ErrorCode::state, "the test gives it up"));
  pair.stream->write(std::vector<std::byte>(letter_bytes), {});
  mail.enter(other);
  mail.post(other);
  EXPECT_FALSE(mail.turn());
  EXPECT_EQ(place, std::vector<std::byte>(letter_bytes, std::byte{7}));
  mail.finish(other, Status(ErrorCode::state, "the test is over"));
}

// Both ends of a pair, turned by hand.
struct Both {
  Pair pair;
  Mail from{*pair.giver, *pair.arenas[0]}, to{*pair.taker, *pair.arenas[1]};
  std::vector<std::byte> given = std::vector<std::byte>(letter_bytes, std::byte{1}), got = std::vector<std::byte>(letter_bytes, std::byte{7});

  void turn() {
    for (bool moved = true; moved;) moved = from.turn() | to.turn();
  }
};

// Letters that nobody receives: after credit_bytes of them they are offered, so the receiver never keeps more.
TEST(Mail, sends_no_more_unasked_than_it_has_credit_for) {
  Both both;
  constexpr int64_t eager = credit_bytes / (head + letter_bytes);
  std::vector<std::unique_ptr<Given>> letters;
  Mail& from = both.from;
  std::vector<std::byte> other_place(letter_bytes);
  Awaited other(other_place);
  other.tag = 5;  // something that never comes, so that the receiver looks
  both.to.enter(other);
  both.to.post(other);
  for (int64_t number = 0; number < eager + 3; ++number) {
    letters.push_back(std::make_unique<Given>(both.given));
    from.enter(*letters.back());
    from.post(*letters.back());
    both.turn();
    EXPECT_EQ(letters.back()->is_over, number < eager) << number;
  }
  // Whoever receives them gives credit, and those that were offered are taken in the order posted.
  for (size_t number = 0; number < letters.size(); ++number) {
    std::fill(both.got.begin(), both.got.end(), std::byte{7});
    Awaited letter(both.got);
    both.to.enter(letter);
    both.to.post(letter);
    both.turn();
    ASSERT_TRUE(letter.is_over && letter.outcome.ok()) << number << " " << both.to.failure().text();
    EXPECT_EQ(both.got, both.given);
    EXPECT_TRUE(letters[number]->is_over);
  }
  Given again(both.given);
  from.enter(again);
  from.post(again);
  EXPECT_TRUE(again.is_over) << "there is credit again";
  both.to.finish(other, Status(ErrorCode::state, "the test is over"));
}

// A letter of no bytes is a letter.
TEST(Mail, offers_letters_of_nothing_when_there_is_no_credit) {
  Both both;
  std::vector<std::byte> nothing;
  std::vector<std::unique_ptr<Given>> letters;
  for (int64_t number = 0; number <= credit_bytes / head; ++number) {
    letters.push_back(std::make_unique<Given>(nothing));
    both.from.enter(*letters.back());
    both.from.post(*letters.back());
    Awaited look(both.got);
    look.tag = 5;
    both.to.enter(look);
    both.to.post(look);
    both.turn();
    both.to.finish(look, Status(ErrorCode::state, "it only looks"));
  }
  EXPECT_FALSE(letters.back()->is_over);
  for (size_t number = 0; number < letters.size(); ++number) {
    Awaited letter(nothing);
    both.to.enter(letter);
    both.to.post(letter);
    both.turn();
    ASSERT_TRUE(letter.is_over && letter.outcome.ok()) << number;
  }
  EXPECT_TRUE(letters.back()->is_over);
}

// An answer that the channel has taken a part of is owed: the letter it answers is over, and nobody else would send the rest.
TEST(Mail, owes_an_answer_until_all_of_it_has_left) {
  Both both;
  std::vector<std::byte> large(eager_bytes + 8), place(large.size());
  Given given(large);
  both.from.enter(given);
  both.from.post(given);
  Channel& back = both.to.router().to(0);
  ASSERT_TRUE(back.open().ok());
  Awaited awaited(place);
  both.to.read_private_memory(0, false);
  both.to.enter(awaited);
  both.to.post(awaited);
  std::vector<std::byte> filler(ring_bytes - 5);
  back.post_send({}, filler);
  EXPECT_FALSE(back.sending());
  both.to.turn();
  EXPECT_TRUE(both.to.owes_replies()) << "five bytes of it fit";
  both.to.finish(awaited, Status(ErrorCode::state, "the test is over"));
  both.from.finish(given, Status(ErrorCode::state, "the test is over"));
}

TEST(Mail, tells_of_a_peer_that_sends_more_than_it_may) {
  Waiting waiting(/*tag=*/5);
  auto& [pair, mail, place, letter] = waiting;
  constexpr int64_t most = credit_bytes / (head + eager_bytes);
  for (int64_t sent = 0; sent <= most; ++sent) {
    EXPECT_TRUE(mail.failure().ok()) << sent;
    pair.write({.bytes = eager_bytes}, head + eager_bytes);
    mail.turn();
  }
  EXPECT_EQ(mail.failure().code(), ErrorCode::protocol) << mail.failure().text();
  mail.finish(letter, mail.failure());
}

// An answer to nothing is of a letter that was given up; it is passed over.
TEST(Mail, passes_over_answers_that_nobody_waits_for) {
  for (Frame::Kind kind : {Frame::Kind::taken, Frame::Kind::go, Frame::Kind::wrong}) {
    Pair pair;
    Mail mail(*pair.taker, *pair.arenas[1]);
    std::vector<std::byte> place(letter_bytes);
    Awaited letter(place);
    mail.enter(letter);
    mail.post(letter);
    pair.write({.kind = kind, .bytes = letter_bytes, .sequence = 99}, head);
    EXPECT_TRUE(mail.turn());
    EXPECT_TRUE(mail.failure().ok());
    EXPECT_FALSE(letter.is_over);
    mail.finish(letter, Status(ErrorCode::state, "the test is over"));
  }
}

}  // namespace
}  // namespace unisono
