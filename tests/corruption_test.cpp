// Bytes in a lane that no rank of ours writes: whoever reads them says so, and neither crashes nor waits.
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "base/sizes.hpp"
#include "group/group.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "transport/byte_ring.hpp"

namespace unisono::testing {
namespace {

constexpr int64_t arena_bytes[] = {32_MiB, 48_MiB};  // by which a rank tells the two arenas apart
const std::string group_name = "corrupted";
constexpr uint32_t number = 1;  // of the group's first call

// An arena where this process has mapped it.
ArenaHead* arena_of(int rank) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0, last = 0;
    const bool ours = line.find("/memfd:unisono") != std::string::npos;
    if (ours && sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &first, &last) == 2 &&
        static_cast<int64_t>(last - first) == arena_bytes[rank])
      return reinterpret_cast<ArenaHead*>(first);
  }
  return nullptr;
}

// The lane of a rank in the group of this test, as any of its neighbours could write to it.
struct Lane {
  LaneControl* control = nullptr;
  Cell* cells = nullptr;

  explicit Lane(int rank) {
    const LaneLayout layout{2, 2};
    ArenaHead* head = arena_of(rank);
    for (BoardEntry& entry : head->board) {
      if (entry.key != board_key(group_name, {0, 1}, 1).key) continue;
      std::byte* lane = reinterpret_cast<std::byte*>(head) + entry.lane.load();
      control = reinterpret_cast<LaneControl*>(lane);
      cells = reinterpret_cast<Cell*>(lane + layout.cells_at());
    }
  }
  void announce(const Announcement& announcement) const {
    std::memcpy(cells[number % 2].bytes, &announcement, sizeof(announcement));
    control->words[number % 2].store(make_word(number, 0xbadbad));
  }
};

struct Corruption {
  std::string name;
  std::function<void(const Lane& mine, const Lane& theirs)> write;  // on rank 1
  ErrorCode code;
  std::string words;
};

// Rank 1 writes nonsense instead of making the first call of a group; rank 0 makes it.
void expect_clear_error(const Corruption& corruption) {
  SCOPED_TRACE(corruption.name);
  Outcomes outcomes(2);
  WorldChoice choice{.size = 2};
  std::vector<Ending> endings = Children(2, [&](int rank) {
    WorldChoice mine = choice;
    mine.settings.arena_bytes = arena_bytes[rank];
    mine.settings.first_call = number;
    as_rank(rank, mine, [&](TestWorld& world) {
      GroupHandle group = distributed::new_group({0, 1}, {.name = group_name});
      if (rank == 1) {
        const Lane own(1), other(0);
        ASSERT_TRUE(own.control && other.control);
        corruption.write(own, other);
      } else {
        Scratch scratch;
        outcomes.note(0, [&] { make_call(group, scratch, {.op = ReduceOp::premul_sum(2)}); });
        EXPECT_TRUE(scratch.is_untouched());
      }
      expect_works(world);  // another group, which both stay for
    });
  }).wait();
  expect_all_succeeded(endings);
  EXPECT_EQ(outcomes.of(0).code, corruption.code) << outcomes.of(0).text();
  EXPECT_NE(outcomes.of(0).text().find(corruption.words), std::string::npos) << outcomes.of(0).text();
  EXPECT_LT(outcomes.of(0).took_s(), 10.0);
}

Announcement plain() {
  Announcement announcement;
  announcement.kind = Collective::all_reduce;
  announcement.dtype = DType::float32;
  announcement.count = 8;
  return announcement;
}

// An announcement in which one field names nothing.
template <typename Change>
Announcement wrong(Change change) {
  Announcement announcement = plain();
  change(announcement);
  return announcement;
}

struct Wrong {
  std::string name;
  Announcement announcement;
};

std::vector<Wrong> wrong_announcements() {
  return {{"kind", wrong([](Announcement& one) { one.kind = static_cast<Collective>(all_collectives().size()); })},
          {"kind, far", wrong([](Announcement& one) { one.kind = static_cast<Collective>(0xff); })},
          {"dtype", wrong([](Announcement& one) { one.dtype = static_cast<DType>(all_dtypes().size()); })},
          {"dtype, far", wrong([](Announcement& one) { one.dtype = static_cast<DType>(0xff); })},
          {"op", wrong([](Announcement& one) { one.op = static_cast<ReduceKind>(all_reduce_kinds().size()); })},
          {"op, far", wrong([](Announcement& one) { one.op = static_cast<ReduceKind>(0xff); })},
          {"purpose", wrong([](Announcement& one) { one.purpose = static_cast<Purpose>(3); })}};
}

// In a child, since what is looked up beyond the end of a table may be anything.
TEST(Corruption, of_an_announcement_is_put_into_words) {
  const Announcement good = plain();
  for (const auto& [name, bad] : wrong_announcements()) {
    SCOPED_TRACE(name);
    expect_all_succeeded(Children(1, [&](int) {
      EXPECT_EQ(describe(bad), "a call that cannot be");
      EXPECT_EQ(difference({3, &good}, {5, &bad}), "call: rank 3 = all_reduce float32[8] sum, rank 5 = a call that cannot be");
      EXPECT_EQ(difference({3, &bad}, {5, &good}), "call: rank 3 = a call that cannot be, rank 5 = all_reduce float32[8] sum");
    }).wait());
  }
}

TEST(Corruption, of_an_announcement_is_told_as_a_difference) {
  for (const auto& [name, bad] : wrong_announcements())
    expect_clear_error({name, [&bad](const Lane& mine, const Lane&) { mine.announce(bad); }, ErrorCode::mismatch,
                        "rank 1 called a call that cannot be"});
}

TEST(Corruption, of_a_refusal_is_told_as_far_as_it_can_be_read) {
  const Announcement bad = wrong([](Announcement& one) {
    one.state = CallState::refused;
    one.kind = static_cast<Collective>(0xff);
    std::memset(one.text, 'x', sizeof(one.text));  // without an end
  });
  expect_clear_error({"refusal", [&bad](const Lane& mine, const Lane&) { mine.announce(bad); }, ErrorCode::peer_argument,
                      "rank 1 refused its call: " + std::string(sizeof(bad.text) - 1, 'x') + "; group"});
}

TEST(Corruption, of_a_verdict_that_names_nobody_is_told) {
  for (uint32_t members : {0x00000002u, 0x00020000u, 0xffffffffu, 0xffff0000u, 0x0000ffffu})
    expect_clear_error({"verdict " + std::to_string(members),
                        [members](const Lane& mine, const Lane& theirs) {  // verdicts lie in the first member's lane
                          theirs.control->verdicts[number % 2].store(make_word(number, members));
                          Announcement other = plain();
                          other.count = 9;
                          mine.announce(other);
                        },
                        ErrorCode::protocol, "a verdict names ranks that are not in the group"});
}

TEST(Corruption, of_an_abort_word_is_told) {
  for (uint64_t word : {uint64_t{0xff} << 56, uint64_t{0xffff} << 32, uint64_t{2} << 32, ~uint64_t{0}})
    expect_clear_error({"abort " + std::to_string(word),
                        [word](const Lane&, const Lane& theirs) { theirs.control->abort.store(word); }, ErrorCode::protocol,
                        "an invalid abort word"});
}

// Both ranks make a good call, rank 1 writes nonsense between calls, both make it again.
struct LaterCorruption {
  std::string name, plan;
  std::function<void(const Lane& mine, const Lane& theirs)> write;  // on rank 1
};

void expect_protocol_error(const LaterCorruption& corruption) {
  SCOPED_TRACE(corruption.name);
  Outcomes outcomes(2);
  WorldChoice choice{.size = 2};
  choice.settings.plan = corruption.plan;
  choice.settings.timeout_s = 20;
  std::vector<Ending> endings = Children(2, [&](int rank) {
    WorldChoice mine = choice;
    mine.settings.arena_bytes = arena_bytes[rank];
    as_rank(rank, mine, [&](TestWorld& world) {
      GroupHandle group = distributed::new_group({0, 1}, {.name = group_name});
      std::vector<float> data(100'000, 1);
      auto call = [&] { distributed::all_reduce(view(data), {.group = group}); };
      call();
      expect_works(world);
      if (rank == 1) corruption.write(Lane(1), Lane(0));
      expect_works(world);
      outcomes.note(rank, call);
      expect_works(world);
    });
  }).wait();
  expect_all_succeeded(endings);
  EXPECT_EQ(outcomes.of(0).code, ErrorCode::protocol) << outcomes.of(0).text();
  EXPECT_NE(outcomes.of(0).text().find("cannot be"), std::string::npos) << outcomes.of(0).text();
  EXPECT_LT(outcomes.of(0).took_s(), 1.0);
}

TEST(Corruption, of_the_place_of_tiles_is_told) {
  for (uint64_t place : {uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 127, uint64_t{arena_bytes[1]} - 128, uint64_t{4097}})
    expect_protocol_error({"tiles at " + std::to_string(place), "all_reduce=two_shot", [place](const Lane& mine, const Lane&) { mine.control->tiles.store(place); }});
}

// A ring of the steps' links, as the sender's lane says where it lies.
ByteRing& ring_of(const Lane& lane, int sender) {
  auto* links = reinterpret_cast<std::atomic<uint64_t>*>(reinterpret_cast<std::byte*>(lane.control) + LaneLayout{2, 2}.links_at());
  return *reinterpret_cast<ByteRing*>(reinterpret_cast<std::byte*>(arena_of(sender)) + links[1 - sender].load());
}

TEST(Corruption, of_what_a_ring_says_of_its_bytes_is_told) {
  expect_protocol_error({"received", "all_reduce=ring", [](const Lane&, const Lane& theirs) { ring_of(theirs, 0).tail += uint64_t{1} << 33; }});
  expect_protocol_error({"sent", "all_reduce=ring", [](const Lane& mine, const Lane&) { ring_of(mine, 1).head += uint64_t{1} << 33; }});
}

// An entry that rank 1 writes by hand for a group that rank 0 makes.
TEST(Corruption, of_the_place_of_a_lane_is_told) {
  for (uint64_t place : {uint64_t{0}, uint64_t{128}, uint64_t{1} << 40, ~uint64_t{0} - 127, static_cast<uint64_t>(arena_bytes[1]) - 4096, uint64_t{1} << 20 | 1}) {
    SCOPED_TRACE(place);
    Outcomes outcomes(1);
    WorldChoice choice{.size = 2};
    expect_all_succeeded(Children(2, [&](int rank) {
      WorldChoice mine = choice;
      mine.settings.arena_bytes = arena_bytes[rank];
      as_rank(rank, mine, [&](TestWorld& world) {
        if (rank == 0) {
          outcomes.note(0, [&] { distributed::new_group({0, 1}, {.timeout_s = 20, .name = group_name}); });
        } else {
          const BoardKey key = board_key(group_name, {0, 1}, 1);
          auto entry_of = [&](int owner) -> BoardEntry* {
            for (BoardEntry& entry : arena_of(owner)->board)
              if (entry.key == key.key) return &entry;
            return nullptr;
          };
          ASSERT_TRUE(await([&] { return entry_of(0) != nullptr; }));
          BoardEntry& mine = arena_of(1)->board[(key.name + 1) % board_entries];
          mine.members = entry_of(0)->members.load();
          mine.making = entry_of(0)->making.load();
          mine.lane = place;
          mine.key = key.key;
          ring_bell(*arena_of(0));
        }
        expect_works(world);
      });
    }).wait());
    EXPECT_EQ(outcomes.of(0).code, ErrorCode::protocol) << outcomes.of(0).text();
    EXPECT_LT(outcomes.of(0).took_s(), 5.0);
  }
}

}  // namespace
}  // namespace unisono::testing
