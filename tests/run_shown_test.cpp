// Runs on lists of tensors, turned by hand: who has all of its tensors in its arena stages nothing, and the others read them
// there; who has not stages its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "algorithms/algorithms.hpp"
#include "engine/run.hpp"
#include "tests/support/machine.hpp"

namespace unisono {
namespace {

constexpr int ranks = 3;
constexpr int64_t tile_bytes = 8_KiB;
constexpr uint64_t word = make_word(1, 4711);
constexpr int64_t lengths[] = {5, 40'001, 1, 7'000, 33};  // elements of the tensors in a list
constexpr std::byte untouched{0xee};
using testing::Machine;

// One rank and what it gives: a list of int32 tensors for the data, or one for every rank.
class Rank {
 public:
  Rank(Machine& machine, Schedule what, bool shares)
      : schedule_(std::move(what)),
        arena_(*machine.arenas[static_cast<size_t>(schedule_.place.rank)]),
        lanes_(machine.layout, schedule_.place.rank, machine.neighbours()),
        router_(lanes_, arena_, LinkUse::steps),
        run_(lanes_, router_, arena_) {
    lanes_.find(machine.offsets);
    EXPECT_TRUE(lanes_.ensure_tiles(arena_).ok());
    std::fill_n(lanes_.stage(lanes_.me(), 0), slot_sets * lanes_.set_bytes(), untouched);
    const bool reduces_all = schedule_.collective == Collective::all_reduce;
    std::vector<std::vector<Bytes>> parts(reduces_all ? 1 : ranks);
    for (std::vector<Bytes>& part : parts)
      for (int64_t length : lengths) part.push_back(tensor(length, shares));
    call_.kind = schedule_.collective;
    call_.dtype = DType::int32;
    call_.tensors = std::size(lengths);
    call_.input = call_.output = Pieces(parts);
    const auto mine = static_cast<size_t>(lanes_.me());
    if (!reduces_all) call_.output = Pieces(std::vector<std::vector<Bytes>>{parts[mine]});  // in place
    EXPECT_TRUE(run_.prepare(call_, {&schedule_, tile_bytes, 2}).ok());
    run_.show(call_of(word), false);
    lanes_.word(lanes_.me(), call_of(word)).store(word);
    run_.start(word, 0);
  }

  Turn turn() { return run_.turn(); }
  bool has_staged() const {
    const std::byte* stage = lanes_.stage(lanes_.me(), 0);
    return std::any_of(stage, stage + slot_sets * lanes_.set_bytes(), [](std::byte byte) { return byte != untouched; });
  }
  // Every element of the result is the sum of what the ranks gave, which is their number plus its place in its tensor.
  void expect_sums() const {
    for (Stretch left = call_.output.all(); left.bytes > 0; left.drop(left.here)) {
      const auto* numbers = reinterpret_cast<const int32_t*>(left.data);
      for (int32_t index = 0; index < left.here / static_cast<int64_t>(sizeof(int32_t)); ++index)
        ASSERT_EQ(numbers[index], 0 + 100'000 + 200'000 + ranks * index);
    }
  }

 private:
  Bytes tensor(int64_t length, bool shares) {
    const int64_t bytes = length * static_cast<int64_t>(sizeof(int32_t));
    if (!shares) own_.emplace_back(static_cast<size_t>(length));
    std::byte* data = shares ? arena_.mapping()->data() + *arena_.take(bytes, "a tensor")
                             : reinterpret_cast<std::byte*>(own_.back().data());
    auto* numbers = reinterpret_cast<int32_t*>(data);
    for (int32_t index = 0; index < length; ++index) numbers[index] = lanes_.me() * 100'000 + index;
    return {data, bytes};
  }

  Schedule schedule_;
  Arena& arena_;
  Lanes lanes_;
  Router router_;
  Run run_;
  Call call_;
  std::vector<std::vector<int32_t>> own_;
};

// Turns all ranks until they are done, and checks the sums; who has staged anything.
std::vector<bool> staged_by(Schedule (*algorithm)(Place), const std::vector<bool>& shares) {
  Machine machine(ranks);
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(std::make_unique<Rank>(machine, algorithm({rank, ranks}), shares[static_cast<size_t>(rank)]));
  std::vector<bool> done(ranks), staged;
  for (int quiet = 0; quiet < 2; ++quiet)
    for (size_t rank = 0; rank < ranks; ++rank) {
      const Turn outcome = done[rank] ? Turn::blocked : all[rank]->turn();
      done[rank] = done[rank] || outcome == Turn::done;
      if (outcome != Turn::blocked) quiet = -1;
    }
  EXPECT_EQ(done, std::vector<bool>(ranks, true));
  for (const auto& rank : all) {
    rank->expect_sums();
    staged.push_back(rank->has_staged());
  }
  return staged;
}

TEST(RunShown, lists_that_lie_in_arenas_are_not_staged) {
  const std::vector<bool> everybody(ranks, true), nobody(ranks, false);
  for (auto* algorithm : {two_shot_all_reduce, direct_reduce_scatter}) EXPECT_EQ(staged_by(algorithm, everybody), nobody);
}

TEST(RunShown, every_rank_decides_for_its_own_list) {
  for (auto* algorithm : {two_shot_all_reduce, direct_reduce_scatter}) {
    EXPECT_EQ(staged_by(algorithm, {true, false, true}), std::vector<bool>({false, true, false}));
    EXPECT_EQ(staged_by(algorithm, {false, false, true}), std::vector<bool>({true, true, false}));
  }
}

// In place its result is written where others may still read.
TEST(RunShown, a_list_that_would_be_overwritten_early_is_staged) {
  EXPECT_EQ(staged_by(one_shot_all_reduce, {true, true, true}), std::vector<bool>(ranks, true));
}

}  // namespace
}  // namespace unisono
