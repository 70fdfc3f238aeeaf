// What travels on an open connection, as none of ours sends it: notices, as functions of bytes, through a socket and to a whole world; heads of frames, to
// letters and calls that await something. Each reader takes it or says what is wrong, within its bounds; AddressSanitizer sees to the rest.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

#include "base/legible.hpp"
#include "engine/mail.hpp"
#include "group/ballot_box.hpp"
#include "schedule/builder.hpp"
#include "tests/support/machine.hpp"
#include "tests/support/run_member.hpp"
#include "tests/support/test_world.hpp"
#include "tests/torture/mutations.hpp"
#include "tests/torture/rounds.hpp"
#include "transport/ring_stream.hpp"

namespace unisono::testing {
namespace {

constexpr int ranks_told = 4;

Notice random_notice(Dice& dice) {
  Notice notice;
  notice.head = {.kind = static_cast<NoticeHead::Kind>(dice.below(NoticeHead::kinds)), .group = dice.seed(), .finished = static_cast<uint32_t>(dice.below(9))};
  ToldEntry entry{.index = static_cast<uint64_t>(dice.below(board_entries)), .key = dice.seed(), .name = dice.seed(), .lane = dice.seed(), .members = dice.seed(), .making = dice.seed()};
  ToldCall call{.word = dice.seed(), .announcement = {}};
  const int members[] = {0, 1, dice.between(0, ranks_told - 1)};
  switch (notice.head.kind) {
    case NoticeHead::Kind::entry:
      notice.add(&entry, sizeof(entry));
      notice.add(members, sizeof(members));
      break;
    case NoticeHead::Kind::announced:
      notice.head.asks = static_cast<uint8_t>(dice.below(2));
      notice.add(&call, sizeof(call));
      notice.add_text("waits in call #7");
      break;
    case NoticeHead::Kind::fault: notice.head.code = static_cast<uint16_t>(dice.between(1, 17)); [[fallthrough]];
    case NoticeHead::Kind::lost:
      notice.head.rank = dice.between(0, ranks_told - 1);
      notice.add_text("was killed");
      break;
    case NoticeHead::Kind::ended:
    case NoticeHead::Kind::silent: notice.head.rank = 1; break;
    case NoticeHead::Kind::heard: notice.head.group = static_cast<uint64_t>(dice.below(3)); break;
    case NoticeHead::Kind::last_words: notice.add_text("ValueError: a bad batch"); break;
    case NoticeHead::Kind::ballots: {
      notice.head.asks = static_cast<uint8_t>(dice.below(2));
      HostRecord record(ranks_told);
      record.version = static_cast<uint64_t>(dice.below(1000));
      record.gone.add(dice.between(0, ranks_told - 1));
      record[Topic::shrink].promised = static_cast<uint64_t>(dice.below(50));
      std::vector<uint64_t> words = record.words();
      for (int vote = 0; vote < static_cast<int>(vote_words) * dice.between(1, ranks_told); ++vote) words.push_back(static_cast<uint64_t>(dice.below(9)));
      notice.add(words.data(), words.size() * sizeof(uint64_t));
      break;
    }
    default: break;
  }
  notice.head.bytes = static_cast<uint32_t>(notice.body.size());
  return notice;
}

void mutate(Dice& dice, Notice& notice) {
  if (notice.head.kind == NoticeHead::Kind::entry && dice.chance(30)) {  // its place on the board
    const uint64_t place = dice.one_of<uint64_t>({board_entries, UINT32_MAX, uint64_t{1} << 40, UINT64_MAX});
    std::memcpy(notice.body.data(), &place, sizeof(place));
    return;
  }
  if (dice.chance(50)) {
    const std::string head = mutated_in_place(dice, bytes_of(notice.head));
    std::memcpy(static_cast<void*>(&notice.head), head.data(), sizeof(notice.head));
  }
  if (dice.chance(50)) {
    const std::string body = mutated(dice, {reinterpret_cast<const char*>(notice.body.data()), notice.body.size()});
    notice.body.assign(span_of(body).begin(), span_of(body).end());
    if (dice.chance(80)) notice.head.bytes = static_cast<uint32_t>(body.size());
  }
}

void expect_bounds(const Notice& notice, int ranks) {
  EXPECT_LT(static_cast<int>(notice.head.kind), NoticeHead::kinds);
  EXPECT_TRUE(notice.head.rank >= -1 && notice.head.rank < ranks);
  EXPECT_LE(notice.body.size(), std::max(sizeof(ToldEntry) + 4 * most_told_members, most_ballots_bytes));
  ToldEntry entry;
  if (notice.head.kind == NoticeHead::Kind::entry) {
    EXPECT_TRUE(notice.read(entry) && entry.index < board_entries);
  }
  ToldCall call;
  if (notice.head.kind != NoticeHead::Kind::announced) return;
  EXPECT_TRUE(notice.read(call));
  EXPECT_NE(describe(call.announcement), "a call that cannot be");
}

int64_t read_one_notice(uint64_t seed) {
  Dice dice(seed);
  Notice notice = random_notice(dice);
  const Status good = check_notice(notice, ranks_told);
  EXPECT_TRUE(good.ok()) << good.text();
  mutate(dice, notice);
  const Status status = check_notice(notice, ranks_told);
  if (status.ok()) return expect_bounds(notice, ranks_told), 1;
  EXPECT_EQ(status.code(), ErrorCode::protocol) << status.text();
  EXPECT_TRUE(!status.message().empty() && is_legible(status.message())) << status.text();
  return 1;
}

TEST(Frames, notices) { run_rounds("notices", read_one_notice); }

// Rank 1's sockets are the test's: it greets as rank 1 would, and says notices in pieces.
int64_t hear_notices(uint64_t seed) {
  Dice dice(seed);
  constexpr uint64_t token = 4711;
  auto sockets = *Sockets::open();
  sockets->know(token);
  const std::vector<Neighbour> everybody = {{0, 0, std::shared_ptr<Mapping>(std::shared_ptr<Mapping>(), reinterpret_cast<Mapping*>(1)), {{sockets->address()}}, token},
                                            {1, 0, nullptr, {{sockets->address()}}, token}};
  Remotes remotes(everybody, 0, {.choice = {}, .sockets = sockets.get()}, [] {});
  Descriptor teller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(teller.number(), sockets->address().get(), sockets->address().bytes()), 0);
  std::string said = greeting_words({.key = {.token = token, .use = link_uses, .from = 1, .to = 0, .sealed = 1}});
  int told = 0;
  for (int left = dice.between(1, 6); left > 0; --left, ++told) {
    Notice notice = random_notice(dice);
    if (dice.chance(40)) mutate(dice, notice);
    said += bytes_of(notice.head) + std::string(reinterpret_cast<const char*>(notice.body.data()), notice.body.size());
  }
  Remotes::News news;
  in_pieces(dice, said, [&](std::string_view piece) {
    static_cast<void>(send(teller.number(), piece.data(), piece.size(), MSG_NOSIGNAL));
    remotes.listen(news);
  });
  teller.reset();
  const Deadline patience = Deadline::in_seconds(20);
  while (news.ended.empty() && !patience.passed()) remotes.listen(news);
  EXPECT_EQ(news.ended.size(), 1u) << "its end is seen";
  for (const auto& [rank, notice] : news.heard) EXPECT_TRUE(rank == 1 && check_notice(notice, 2).ok());
  return told;
}

TEST(Frames, notices_through_a_socket) { run_rounds("notices", hear_notices); }

// A rank on another host tells what can be and what cannot; whoever hears it goes on, or says in its calls why not.
TEST(Frames, notices_to_a_world) {
  run_rounds("notices", [](uint64_t seed) {
    auto settings = Worlds::test_settings();
    settings.pretend_hosts = "1,1";
    settings.timeout_s = 10;
    const int told = Dice(seed).between(1, 30);
    for_each_world(ranks(2).with(Kind::threads).with([&](Settings& chosen) { chosen = settings; }), [&](TestWorld& world) {
      Dice dice(seed + 1);
      for (int left = told; left > 0 && world.rank() == 1; --left) {
        Notice notice = random_notice(dice);
        if (dice.chance(50)) notice.head.group = world.world().world_group()->board_key().key;
        if (dice.chance(30)) mutate(dice, notice);
        world.world().remotes()->tell(0, notice);
      }
      std::vector<float> data(3, 1);
      try {
        distributed::all_reduce(view(data), {.group = world.group()});
        EXPECT_EQ(data[0], 2);
      } catch (const Error& error) {
        EXPECT_TRUE(is_legible(error.what())) << error.what();
      }
    });
    return told;
  });
}

class WireLetter : public Letter {
 public:
  WireLetter(const Envelope& envelope, std::vector<std::byte>& place) : Letter(envelope) { data = {place.data() + guard, static_cast<int64_t>(place.size() - 2 * guard)}; }
  void over(const Status& status) override { outcome = status; is_over = true; }
  static constexpr size_t guard = 64;
  Status outcome;
  bool is_over = false;
};

Frame random_mail_frame(Dice& dice, int64_t letter_bytes) {
  const bool is_long = letter_bytes > eager_bytes;
  const Frame::Kind likely = !is_long ? Frame::Kind::message : dice.chance(50) ? Frame::Kind::offer : Frame::Kind::data;
  const Frame::Kind kind = dice.chance(70) ? likely : static_cast<Frame::Kind>(dice.below(7));
  Frame frame{.kind = kind, .dtype = dice.chance(90) ? DType::uint8 : DType::float64, .tag = dice.chance(80) ? 0 : 1,
              .bytes = letter_bytes, .sequence = dice.chance(80) ? 1u : 2u};
  if (frame.kind == Frame::Kind::data) frame.bytes = dice.below(most_data_in_a_frame + 1);
  if (frame.kind == Frame::Kind::credit) frame.bytes = dice.below(credit_bytes);
  if (dice.chance(20)) {
    const std::string bytes = mutated_in_place(dice, bytes_of(frame));
    std::memcpy(static_cast<void*>(&frame), bytes.data(), sizeof(frame));
  }
  return frame;
}

// Rank 1 awaits letters from rank 0 and sends one; the test writes what rank 0 should have.
int64_t take_letters(uint64_t seed) {
  Dice dice(seed);
  Machine machine(2);
  Lanes giver(machine.layout, 0, machine.neighbours()), taker(machine.layout, 1, machine.neighbours());
  for (Lanes* lanes : {&giver, &taker}) lanes->find(machine.offsets);
  RingStream stream(giver, *machine.arenas[0], LinkUse::letters, 1);
  EXPECT_TRUE(stream.open().ok());
  const int64_t letter_bytes = dice.chance(70) ? dice.between(0, 200) : eager_bytes + dice.between(0, 200);
  const std::byte untouched{0xa5};
  std::vector<std::vector<std::byte>> places(3, std::vector<std::byte>(static_cast<size_t>(letter_bytes) + 2 * WireLetter::guard, untouched));
  std::vector<std::unique_ptr<WireLetter>> letters;
  Mail mail(taker, *machine.arenas[1]);
  for (auto& place : places) {
    Envelope envelope;
    envelope.kind = letters.empty() ? Envelope::Kind::send : Envelope::Kind::receive;
    envelope.peer = 0;
    envelope.tag = dice.chance(80) ? 0 : 1;
    letters.push_back(std::make_unique<WireLetter>(envelope, place));
    mail.enter(*letters.back());
    mail.post(*letters.back());
  }
  int64_t frames = 0;
  for (int left = dice.between(1, 12); left > 0 && mail.failure().ok(); --left, ++frames) {
    const Frame frame = random_mail_frame(dice, letter_bytes);
    const bool carries = frame.kind == Frame::Kind::message || frame.kind == Frame::Kind::data;
    std::string said = bytes_of(frame) + (carries ? random_bytes(dice, std::clamp<int64_t>(frame.bytes, 0, 70'000)) : "");
    in_pieces(dice, said, [&](std::string_view piece) {
      for (auto rest = std::as_bytes(std::span(piece)); !rest.empty() && mail.failure().ok();) {
        const int64_t written = stream.write(rest, {});
        if (!mail.turn() && written == 0) return;
        rest = rest.subspan(static_cast<size_t>(written));
      }
    });
  }
  EXPECT_TRUE(mail.failure().ok() || mail.failure().code() == ErrorCode::protocol) << mail.failure().text();
  for (auto& letter : letters)
    if (!letter->is_over) mail.finish(*letter, Status(ErrorCode::state, "the test is over"));
  for (const auto& place : places)
    for (size_t at = 0; at < WireLetter::guard; ++at) EXPECT_TRUE(place[at] == untouched && place[place.size() - 1 - at] == untouched);
  return frames;
}

TEST(Frames, frames_of_letters) { run_rounds("frames", take_letters); }

// One that receives four tiles of eight bytes from rank 0, two in flight, and adds up as much.
class WireMember : public RunMember {
 public:
  static constexpr size_t numbers = 64;
  explicit WireMember(Machine& machine) : RunMember(machine, 1), place_(numbers + 2 * guard, untouched), schedule_(plan()) {
    call_.kind = Collective::all_reduce;
    call_.dtype = DType::int32;
    call_.count = numbers;
    call_.input = Pieces(place_.data() + guard, numbers * 4);
    call_.output = Pieces(place_.data() + guard, numbers * 4);
    start(call_, schedule_, 1, 0);
  }
  bool is_guarded() const {
    const auto is_untouched = [](int32_t number) { return number == untouched; };
    return std::all_of(place_.begin(), place_.begin() + guard, is_untouched) && std::all_of(place_.end() - guard, place_.end(), is_untouched);
  }

 private:
  static constexpr int32_t untouched = -77;
  static constexpr ptrdiff_t guard = 16;
  static Schedule plan() {
    Builder receives(Collective::all_reduce, "receives", {1, 2});
    receives.receive(0, output(0));
    receives.receive_reduce(0, output(0));
    return receives.finish();
  }
  std::vector<int32_t> place_;
  Schedule schedule_;
  Call call_;
};

int64_t take_steps(uint64_t seed) {
  Dice dice(seed);
  Machine machine(2);
  Lanes giver(machine.layout, 0, machine.neighbours());
  giver.find(machine.offsets);
  const uint64_t word = make_word(1, 4711);
  giver.word(0, 1).store(word);
  RingStream stream(giver, *machine.arenas[0], LinkUse::steps, 1);
  EXPECT_TRUE(stream.open().ok());
  WireMember member(machine);
  int64_t frames = 0;
  for (int left = dice.between(1, 12); left > 0 && member.run().failure().ok(); --left, ++frames) {
    const int64_t tile = dice.chance(80) ? std::min<int64_t>(frames / 2, 3) : dice.below(5);
    LinkFrame frame{word, 0, static_cast<uint32_t>(tile), dice.chance(90) ? 64u : static_cast<uint32_t>(4 * dice.below(40))};
    if (dice.chance(20)) {
      const std::string bytes = mutated_in_place(dice, bytes_of(frame));
      std::memcpy(static_cast<void*>(&frame), bytes.data(), sizeof(frame));
    }
    in_pieces(dice, bytes_of(frame) + random_bytes(dice, std::min<int64_t>(frame.bytes, 70'000)), [&](std::string_view piece) {
      stream.write(std::as_bytes(std::span(piece)), {});
      while (member.turn()) continue;
    });
  }
  const Status& failure = member.run().failure();
  EXPECT_TRUE(failure.ok() || failure.code() == ErrorCode::protocol) << failure.text();
  EXPECT_TRUE(member.is_guarded());
  return frames;
}

TEST(Frames, frames_of_steps) { run_rounds("frames", take_steps); }

}  // namespace
}  // namespace unisono::testing
