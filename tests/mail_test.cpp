// What a peer writes into the ring of its letters is believed only where it can be: every other frame is told as a fault, and
// nothing is written anywhere because of it.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/mail.hpp"

namespace unisono {
namespace {

constexpr int64_t letter_bytes = 40;

// Two ranks' memory in one process; rank 1 receives, and the test writes what rank 0 should have.
struct Pair {
  LaneLayout layout{2, 2};
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<int64_t> offsets;
  std::unique_ptr<Lanes> giver, taker;
  std::unique_ptr<Links> links;

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
    links = std::make_unique<Links>(*giver, *arenas[0], LinkUse::letters);
    EXPECT_TRUE(links->open_to(1).ok());
  }
  void write(const Frame& frame, int64_t published) {
    ByteRing& ring = *links->to(1);
    ring.write(0, &frame, sizeof(frame));
    ring.publish(published);
  }
};

class Awaited final : public Letter {
 public:
  explicit Awaited(std::vector<std::byte>& place) : Letter(envelope(place)) {}
  void over(const Status& status) override {
    is_over = true;
    outcome = status;
  }
  bool is_over = false;
  Status outcome;

 private:
  static Envelope envelope(std::vector<std::byte>& place) {
    Envelope envelope;
    envelope.kind = Envelope::Kind::receive;
    envelope.peer = 0;
    envelope.data = {place.data(), static_cast<int64_t>(place.size())};
    return envelope;
  }
};

constexpr int64_t head = sizeof(Frame);

struct Wrong {
  std::string name;
  Frame frame;
  int64_t published = head + letter_bytes;
};

TEST(Mail, takes_a_frame_that_can_be) {
  Pair pair;
  Mail mail(*pair.taker, *pair.arenas[1]);
  std::vector<std::byte> place(letter_bytes, std::byte{7});
  Awaited letter(place);
  mail.enter(letter);
  mail.post(letter);
  pair.write({.bytes = letter_bytes, .sequence = 1}, head + letter_bytes);
  EXPECT_TRUE(mail.turn());
  EXPECT_TRUE(letter.is_over && letter.outcome.ok());
  EXPECT_EQ(place, std::vector<std::byte>(letter_bytes)) << "what lay in the ring";
}

TEST(Mail, tells_of_frames_that_cannot_be) {
  const std::vector<Wrong> all = {
      {"a kind that there is not", {.kind = static_cast<Frame::Kind>(6), .bytes = letter_bytes}},
      {"a dtype that there is not", {.dtype = static_cast<DType>(200), .bytes = letter_bytes}},
      {"half an element", {.dtype = DType::float64, .bytes = 41}},
      {"less than nothing", {.bytes = -8}},
      {"more than is there", {.bytes = 4096}},
      {"more than a frame may have", {.bytes = int64_t{1} << 40}},
      {"a length that overflows", {.bytes = INT64_MAX}},
      {"less than a head", {.bytes = 0}, head - 8},
      {"more than a ring holds", {.bytes = letter_bytes}, static_cast<int64_t>(ring_bytes) + 64},
      {"bytes of no letter", {.kind = Frame::Kind::data, .bytes = letter_bytes, .sequence = 99}},
  };
  for (const Wrong& wrong : all) {
    SCOPED_TRACE(wrong.name);
    Pair pair;
    Mail mail(*pair.taker, *pair.arenas[1]);
    std::vector<std::byte> place(letter_bytes, std::byte{7});
    Awaited letter(place);
    mail.enter(letter);
    mail.post(letter);
    pair.write(wrong.frame, wrong.published);
    mail.turn();
    EXPECT_EQ(mail.failure().code(), ErrorCode::protocol) << mail.failure().text();
    EXPECT_NE(mail.failure().message().find("rank 0"), std::string::npos) << mail.failure().text();
    EXPECT_FALSE(letter.is_over) << "the group ends it";
    EXPECT_EQ(place, std::vector<std::byte>(letter_bytes, std::byte{7}));
    mail.finish(letter, mail.failure());
  }
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
