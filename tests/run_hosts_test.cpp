// Every hierarchy performed by Runs that are turned by hand: ranks in one process, whose hosts are pretended. What they do within a host
// and between hosts is what they would do, but for announcements, which all of them see.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "algorithms/catalogue.hpp"
#include "engine/run.hpp"
#include "schedule/chunks.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/run_member.hpp"

namespace unisono::testing {
namespace {

using Ints = std::vector<int32_t>;

// What ranks give and what they must get, in so many elements a piece, or in all.
struct Case {
  const Algorithm* algorithm;
  int ranks, root;
  Hosts hosts;
  int count;
  ReduceOp op = ReduceOp::sum;

  bool works_in_pieces(Buffer buffer) const {
    const Cuts cuts = cuts_of(algorithm->collective);
    return (buffer == Buffer::input ? cuts.input : cuts.output) == Cut::parts;
  }
  size_t length(Buffer buffer) const { return static_cast<size_t>(works_in_pieces(buffer) ? count * ranks : count); }
  bool has(Buffer buffer, int rank) const {
    return chunk_count(Schedule{.collective = algorithm->collective, .algorithm = "", .place = {rank, ranks, root, hosts}, .teams = {}, .steps = {}}, buffer) > 0;
  }
  static int32_t given(int rank, int element) { return 1000 * (rank + 1) + 7 * element; }

  Ints input(int rank) const {
    Ints numbers(has(Buffer::input, rank) ? length(Buffer::input) : 0);
    for (size_t index = 0; index < numbers.size(); ++index) numbers[index] = given(rank, static_cast<int>(index));
    return numbers;
  }
  // Element `index` of a rank's output.
  int32_t wanted(int rank, int index) const {
    const auto sum_of = [&](int from_ranks, int element) {
      int32_t sum = 0;
      for (int other = 0; other < from_ranks; ++other) sum += given(other, element);
      return op.kind == ReduceKind::avg ? sum / ranks : sum * static_cast<int32_t>(op.factor);
    };
    switch (algorithm->collective) {
      case Collective::all_reduce:
      case Collective::reduce: return sum_of(ranks, index);
      case Collective::reduce_scatter: return sum_of(ranks, rank * count + index);
      case Collective::scan: return sum_of(rank + 1, index);
      case Collective::exscan: return sum_of(rank, index);
      case Collective::broadcast: return given(root, index);
      case Collective::scatter: return given(root, rank * count + index);
      case Collective::gather:
      case Collective::all_gather: return given(index / count, index % count);
      case Collective::all_to_all: return given(index / count, rank * count + index % count);
      case Collective::barrier: return 0;
    }
    return 0;
  }
};

class Member : public RunMember {
 public:
  Member(Machine& machine, int rank, int ranks) : RunMember(machine, rank), ranks_(ranks) {}

  void enter(const Case& what, uint32_t number, uint64_t base_tile) {
    schedule_ = what.algorithm->generate({rank_, ranks_, what.root, what.hosts});
    input_ = what.input(rank_);
    output_ = Ints(what.has(Buffer::output, rank_) ? what.length(Buffer::output) : 0, -1);
    call_ = {};
    call_.kind = what.algorithm->collective;
    call_.dtype = DType::int32;
    call_.op = what.op;
    call_.root = what.root;
    call_.count = what.count;
    call_.input = Pieces(input_.data(), static_cast<int64_t>(input_.size() * sizeof(int32_t)));
    call_.output = Pieces(output_.data(), static_cast<int64_t>(output_.size() * sizeof(int32_t)));
    start(call_, schedule_, number, base_tile);
  }
  const Ints& output() const { return output_; }

 private:
  int ranks_;
  Schedule schedule_;
  Call call_;
  Ints input_, output_;
};

// A group that makes one call after the other.
class Party {
 public:
  explicit Party(int ranks) : machine_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) members_.push_back(std::make_unique<Member>(machine_, rank, ranks));
  }

  // Turns all members; the later ranks first in every second call, so that others are ahead.
  void perform(const Case& what) {
    ++number_;
    for (auto& member : members_) ASSERT_NO_FATAL_FAILURE(member->enter(what, number_, base_tile_));
    for (auto& member : members_) ASSERT_EQ(member->run().tiles(), members_[0]->run().tiles());
    for (int quiet = 0; quiet < 3; ++quiet)
      for (size_t index = 0; index < members_.size(); ++index)
        if (members_[number_ % 2 == 0 ? index : members_.size() - 1 - index]->turn()) quiet = -1;
    for (size_t rank = 0; rank < members_.size(); ++rank) {
      const Member& member = *members_[rank];
      ASSERT_TRUE(member.is_done()) << "rank " << rank << " is stuck: " << member.run().failure().text();
      for (size_t index = 0; index < member.output().size(); ++index)
        ASSERT_EQ(member.output()[index], what.wanted(static_cast<int>(rank), static_cast<int>(index))) << "rank " << rank << " at " << index;
    }
    base_tile_ += static_cast<uint64_t>(members_[0]->run().tiles());
  }

 private:
  Machine machine_;
  std::vector<std::unique_ptr<Member>> members_;
  uint32_t number_ = 0;
  uint64_t base_tile_ = 0;
};

const std::vector<std::vector<int>> layouts_of_five = {
    {0, 0, 0, 1, 1}, {0, 0, 0, 0, 1}, {0, 1, 1, 2, 2}, {0, 1, 0, 1, 0}, {0, 1, 1, 0, 2}, {0, 1, 2, 3, 3}};

// A few elements fit in a tile, several tiles are in flight, and pieces are uneven; all calls on one group, one behind the other.
TEST(RunHosts, every_hierarchy_gives_what_it_should) {
  for (const std::vector<int>& layout : layouts_of_five) {
    Party party(5);
    for (const Algorithm& algorithm : catalogue()) {
      if (algorithm.is_for_one_host()) continue;
      for (int count : {0, 1, 3, 700})
        for (int root : {0, 2, 4}) {
          const Case what{&algorithm, 5, root, Hosts(layout), count};
          SCOPED_TRACE(fmt::format("{} of {} on {}, root {}", name_of(algorithm.collective), count, what.hosts.text(), root));
          ASSERT_NO_FATAL_FAILURE(party.perform(what));
        }
    }
  }
}

// A part that was divided or multiplied on its way through host and link would show.
TEST(RunHosts, sums_are_scaled_and_completed_once) {
  for (const std::vector<int>& layout : layouts_of_five) {
    Party party(5);
    for (Collective collective : {Collective::all_reduce, Collective::reduce, Collective::reduce_scatter, Collective::scan, Collective::exscan})
      for (const ReduceOp& op : {ReduceOp::avg, ReduceOp::premul_sum(3)}) {
        if (op == ReduceOp::avg && !adds_everyone(collective)) continue;
        const Case what{find_algorithm(collective, "hierarchy"), 5, 1, Hosts(layout), 700, op};
        SCOPED_TRACE(fmt::format("{} on {}", name_of(collective), what.hosts.text()));
        ASSERT_NO_FATAL_FAILURE(party.perform(what));
      }
  }
}

}  // namespace
}  // namespace unisono::testing
