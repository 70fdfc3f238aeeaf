// Sums of 8- and 16-bit floats by Runs that are turned by hand, over links and between pretended hosts: their bits are those of float32 sums
// in the order that the schedule adds in, rounded once. What those are is worked out from the same schedules, step by step, without a Run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "engine/run.hpp"
#include "schedule/chunks.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/run_member.hpp"
#include "tests/support/schedules.hpp"

namespace unisono::testing {
namespace {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

// One call of all ranks, and what they give.
struct Case {
  const Algorithm* algorithm;
  Hosts hosts;
  int ranks, root;
  int64_t count;  // of the data, or of one piece
  DType dtype;
  ReduceOp op;
  bool in_place;

  Reduction reduction() const { return {dtype, op, ranks}; }
  Set schedules() const { return schedules_of(*algorithm, ranks, hosts, root); }
  std::string text() const {
    return fmt::format("{} {} of {} {} on {}, root {}{}, {}", name_of(algorithm->collective), algorithm->name, count, name_of(dtype), hosts.text(), root,
                       in_place ? ", in place" : "", name_of(op.kind));
  }
  size_t bytes(Cut cut) const { return static_cast<size_t>((cut == Cut::parts ? ranks : 1) * count * element_bytes(dtype)); }

  Bytes input(int rank) const {
    std::mt19937 random(static_cast<unsigned>(rank + 1));
    Bytes given(bytes(cuts_of(algorithm->collective).input));
    const int64_t element = element_bytes(dtype);
    for (size_t at = 0; at < given.size(); at += static_cast<size_t>(element)) {
      const float number = std::ldexp(static_cast<float>(random() % 4096) - 2048.0f, static_cast<int>(random() % 8) - 12);
      if (rounds_partials(dtype)) narrow({dtype}, given.data() + at, &number, 1);
      else std::memcpy(given.data() + at, &number, sizeof(number));
    }
    return given;
  }
  Call call(Bytes& given, Bytes& taken) const {
    Call call;
    call.kind = algorithm->collective;
    call.dtype = dtype;
    call.op = op;
    call.root = root;
    call.count = count;
    call.input = Pieces(given.data(), static_cast<int64_t>(given.size()));
    call.output = Pieces(taken.data(), static_cast<int64_t>(taken.size()));
    return call;
  }
};

// Plays schedules with float32 in every chunk; or, with `rounds`, with what is left of it in the dtype.
class Oracle {
 public:
  Oracle(const Case& what, bool rounds) : what_(what), set_(what.schedules()), rounds_(rounds), ranks_(set_.size()) {
    for (int rank = 0; rank < what.ranks; ++rank) {
      Bytes given = what.input(rank), none;
      const Call call = what.call(given, none);
      const Schedule& schedule = set_[static_cast<size_t>(rank)];
      for (int chunk = 0; chunk < chunk_count(schedule, Buffer::input); ++chunk) {
        const Stretch part = chunk_of(call, Buffer::input, chunk, {schedule.chunks, what.ranks});
        at(rank, unisono::input(chunk)) = widened(part.data, part.bytes / element_bytes(what.dtype));
      }
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < what.ranks; ++rank)
        for (State& me = state(rank); me.step < steps_of(rank).size() && perform(rank, steps_of(rank)[me.step]); ++me.step) moved = true;
    }
  }

  Bytes output(int rank) {
    EXPECT_EQ(state(rank).step, steps_of(rank).size());
    Bytes all;
    for (int chunk = 0; chunk < chunk_count(set_[static_cast<size_t>(rank)], Buffer::output); ++chunk) {
      const Bytes part = narrowed(at(rank, unisono::output(chunk)));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

 private:
  struct State {
    size_t step = 0;
    std::map<std::pair<Buffer, int>, Floats> chunks;
    std::map<int, std::deque<Floats>> messages;  // by sender
    bool published[max_flags] = {};
  };

  State& state(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const std::vector<Step>& steps_of(int rank) const { return set_[static_cast<size_t>(rank)].steps; }
  Floats& at(int rank, ChunkRef chunk) { return state(rank).chunks[{chunk.buffer, chunk.chunk}]; }

  Floats widened(const std::byte* from, int64_t count) const {
    Floats numbers(static_cast<size_t>(count));
    const Reduction plain{what_.dtype, ReduceOp::sum, 1};
    if (rounds_partials(what_.dtype)) widen(plain, numbers.data(), from, count);
    else if (count > 0) std::memcpy(numbers.data(), from, numbers.size() * sizeof(float));
    return numbers;
  }
  Bytes narrowed(const Floats& numbers) const {
    Bytes bytes(numbers.size() * static_cast<size_t>(element_bytes(what_.dtype)));
    if (rounds_partials(what_.dtype)) narrow({what_.dtype}, bytes.data(), numbers.data(), static_cast<int64_t>(numbers.size()));
    else if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return bytes;
  }

  Floats combined(const std::vector<const Floats*>& operands, bool scales, bool completes) const {
    Floats sum(operands.front()->size());
    std::vector<const void*> sources;
    for (const Floats* operand : operands) sources.push_back(operand->data());
    reduce({DType::float32, what_.op, what_.ranks},
           {.target = sum.data(), .sources = sources, .count = static_cast<int64_t>(sum.size()), .contributions = scales, .complete = completes});
    return sum;
  }
  void put(int rank, ChunkRef target, Floats numbers) {
    if (rounds_) {
      const Bytes rounded = narrowed(numbers);
      numbers = widened(rounded.data(), static_cast<int64_t>(numbers.size()));
    }
    at(rank, target) = std::move(numbers);
  }

  bool perform(int rank, const Step& step) {
    State& me = state(rank);
    const Team team(set_[static_cast<size_t>(rank)], step);
    std::deque<Floats>& coming = me.messages[step.peer];
    const auto read = [&](int peer) { return &(peer == rank ? at(rank, step.own) : step.source.buffer == Buffer::gathered ? at(rank, gathered(peer)) : at(peer, step.source)); };
    if ((step.kind == StepKind::receive || step.kind == StepKind::receive_reduce) && coming.empty()) return false;
    switch (step.kind) {
      case StepKind::send: state(step.peer).messages[rank].push_back(at(rank, step.source)); break;
      case StepKind::receive: put(rank, step.target, coming.front()), coming.pop_front(); break;
      case StepKind::receive_reduce: {
        const Floats &mine = at(rank, step.target), &theirs = coming.front();
        put(rank, step.target, step.peer < rank ? combined({&theirs, &mine}, false, step.completes) : combined({&mine, &theirs}, false, step.completes));
        coming.pop_front();
        break;
      }
      case StepKind::copy: put(rank, step.target, step.scales ? combined({&at(rank, step.source)}, true, false) : at(rank, step.source)); break;
      case StepKind::reduce: put(rank, step.target, combined({&at(rank, step.target), &at(rank, step.source)}, false, step.completes)); break;
      case StepKind::publish: me.published[step.flag] = true; break;
      case StepKind::await:
        for (int index = 0; index < team.size(); ++index)
          if (team[index] != rank && !state(team[index]).published[step.flag]) return false;
        break;
      case StepKind::read_peer: put(rank, step.target, at(step.peer, step.source)); break;
      case StepKind::reduce_peers: {
        std::vector<const Floats*> operands;
        for (int index = 0; index < team.size(); ++index) operands.push_back(read(team[index]));
        put(rank, step.target, combined(operands, step.scales, step.completes));
        break;
      }
    }
    return true;
  }

  const Case& what_;
  Set set_;
  bool rounds_;
  std::vector<State> ranks_;
};

class Member : public RunMember {
 public:
  using RunMember::RunMember;

  void enter(const Case& what, uint32_t number, uint64_t base_tile) {
    schedule_ = what.algorithm->generate({rank_, what.ranks, what.root, what.hosts});
    input_ = what.input(rank_);
    const size_t bytes = chunk_count(schedule_, Buffer::output) > 0 ? what.bytes(cuts_of(what.algorithm->collective).output) : 0;
    if (!what.in_place) output_ = Bytes(bytes, std::byte{0xAB});
    call_ = what.call(input_, what.in_place ? input_ : output_);
    const bool is_piece = cuts_of(what.algorithm->collective).input == Cut::parts;
    begin_ = !what.in_place ? output_.data() : input_.data() + (is_piece ? static_cast<size_t>(rank_) * bytes : 0);
    call_.output = Pieces(begin_, static_cast<int64_t>(bytes));
    start(call_, schedule_, number, base_tile);
  }
  Bytes output() const { return {begin_, begin_ + call_.output.bytes()}; }

 private:
  Schedule schedule_;
  Call call_;
  Bytes input_, output_;
  std::byte* begin_ = nullptr;
};

// A group that makes one call after the other.
class Party {
 public:
  explicit Party(int ranks, const Ways& ways = {}) : machine_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) members_.push_back(std::make_unique<Member>(machine_, rank, ways));
  }

  void perform(const Case& what) {
    ++number_;
    for (auto& member : members_) ASSERT_NO_FATAL_FAILURE(member->enter(what, number_, base_tile_));
    const auto is_done = [](const auto& member) { return member->is_done(); };
    for (int quiet = 0; quiet < 1000 && !std::ranges::all_of(members_, is_done); ++quiet)  // a rough stream may move little in many turns
      for (size_t index = 0; index < members_.size(); ++index)
        if (members_[number_ % 2 == 0 ? index : members_.size() - 1 - index]->turn()) quiet = -1;
    Oracle once(what, /*rounds=*/false), every_time(what, /*rounds=*/true);
    for (size_t rank = 0; rank < members_.size(); ++rank) {
      const Member& member = *members_[rank];
      ASSERT_TRUE(member.is_done()) << "rank " << rank << " is stuck: " << member.run().failure().text();
      const Bytes wanted = once.output(static_cast<int>(rank));
      ASSERT_EQ(member.output(), wanted) << "rank " << rank;
      would_differ_ += wanted != every_time.output(static_cast<int>(rank));
    }
    base_tile_ += static_cast<uint64_t>(members_[0]->run().tiles());
  }
  int64_t most_held_bytes() const {  // by any of them, in private memory
    int64_t most = 0;
    for (const auto& member : members_) most = std::max(most, member->run().private_bytes());
    return most;
  }
  void drop_private_memory() {
    for (auto& member : members_) member->drop_private_memory();
  }
  int would_differ() { return std::exchange(would_differ_, 0); }  // outputs that would be others if every hop rounded, since it was asked

 private:
  Machine machine_;
  std::vector<std::unique_ptr<Member>> members_;
  uint32_t number_ = 0;
  uint64_t base_tile_ = 0;
  int would_differ_ = 0;
};

std::vector<const Algorithm*> algorithms_that_add_over_links() {
  std::vector<const Algorithm*> algorithms;
  for (const Algorithm& algorithm : catalogue()) {
    const bool is_over_links = algorithm.generate && includes(Need::links | Need::host_memory, algorithm.need);
    if (is_over_links && adds(algorithm.collective)) algorithms.push_back(&algorithm);
  }
  return algorithms;
}

std::vector<Hosts> layouts() {
  std::vector<Hosts> all{apart(2), apart(3), apart(6), apart(8), in_a_row({2, 2}), in_a_row({2, 2, 2}), in_a_row({2, 2, 2, 2}), in_a_row({3, 1})};
  for (const std::vector<int>& hosts : {std::vector{0, 1, 0, 1, 0}, {0, 1, 1, 0, 2}, {0, 1, 2, 3, 3}, {0, 1, 1, 2, 2}}) all.emplace_back(hosts);
  return all;
}

std::vector<int> some_roots(const Algorithm& algorithm, int ranks) { return has_root(algorithm.collective) ? std::vector{0, ranks - 1} : std::vector{0}; }

void perform_all(Party& party, const Algorithm& algorithm, const Hosts& hosts, DType dtype, const ReduceOp& op) {
  const int64_t uneven_tiles = 32 * hosts.ranks() + 1;  // of 16-bit floats: the first chunk takes a tile more than the others
  for (int64_t count : {int64_t{0}, int64_t{1}, int64_t{701}, uneven_tiles})
    for (int root : some_roots(algorithm, hosts.ranks()))
      for (bool in_place : {false, true}) {
        const Case what{&algorithm, hosts, hosts.ranks(), root, count, dtype, op, in_place};
        SCOPED_TRACE(what.text());
        ASSERT_NO_FATAL_FAILURE(party.perform(what));
      }
}

// Several tiles, several of which are in flight, and uneven pieces; all calls on one group, one behind the other.
TEST(RunPartials, every_sum_over_links_is_rounded_once) {
  std::map<const Algorithm*, int> would_differ;
  for (const Hosts& hosts : layouts()) {
    Party party(hosts.ranks());
    for (const Algorithm* algorithm : algorithms_that_add_over_links()) {
      for (DType dtype : {DType::float16, DType::bfloat16, DType::float8_e4m3fn})
        ASSERT_NO_FATAL_FAILURE(perform_all(party, *algorithm, hosts, dtype, ReduceOp::sum));
      would_differ[algorithm] += party.would_differ();
    }
  }
  for (const auto& [algorithm, times] : would_differ)
    EXPECT_EQ(times > 0, algorithm->name != "collecting") << name_of(algorithm->collective) << " " << algorithm->name;
}

TEST(RunPartials, so_is_every_other_operation) {
  for (const Hosts& hosts : layouts()) {
    Party party(hosts.ranks());
    for (const ReduceOp& op : {ReduceOp::avg, ReduceOp::premul_sum(0.3), ReduceOp::product, ReduceOp::max})
      for (const Algorithm* algorithm : algorithms_that_add_over_links()) {
        if (op == ReduceOp::avg && !adds_everyone(algorithm->collective)) continue;
        ASSERT_NO_FATAL_FAILURE(perform_all(party, *algorithm, hosts, DType::float16, op));
      }
  }
}

// What one tile has not sent yet lies where another tile wants to write.
TEST(RunPartials, wait_for_what_the_stream_has_not_taken) {
  for (uint64_t seed : {1, 2})
    for (const Hosts& hosts : {apart(2), apart(3), in_a_row({2, 2}), in_a_row({3, 1}), in_a_row({2, 2, 2})}) {
      Party party(hosts.ranks(), {.choice = {.kind = StreamChoice::Kind::rough, .roughness = {.seed = seed}}});
      for (const Algorithm* algorithm : algorithms_that_add_over_links())
        ASSERT_NO_FATAL_FAILURE(perform_all(party, *algorithm, hosts, DType::bfloat16, ReduceOp::sum));
    }
}

// Memory does not grow with the data, and what was given back comes again.
TEST(RunPartials, take_as_much_memory_as_the_tiles_in_flight) {
  for (const Hosts& hosts : {apart(2), apart(3), in_a_row({2, 2}), in_a_row({3, 1}), in_a_row({2, 2, 2})})
    for (const Algorithm* algorithm : algorithms_that_add_over_links()) {
      if (algorithm->name == "collecting") continue;  // makes none
      int64_t held[2] = {};
      for (int64_t count : {1'000, 5'000}) {
        const Case what{algorithm, hosts, hosts.ranks(), 0, count, DType::bfloat16, ReduceOp::sum, false};
        SCOPED_TRACE(what.text());
        Party party(hosts.ranks());
        for (int round = 0; round < 2; ++round) {
          ASSERT_NO_FATAL_FAILURE(party.perform(what));
          held[count > 1'000] = party.most_held_bytes();
          EXPECT_GT(party.most_held_bytes(), 0);
          party.drop_private_memory();
          EXPECT_EQ(party.most_held_bytes(), 0);
        }
      }
      EXPECT_EQ(held[1], held[0]) << name_of(algorithm->collective) << " " << algorithm->name << " on " << hosts.text();
    }
}

// Of what is not rounded a partial is the output itself.
TEST(RunPartials, wider_numbers_are_added_in_the_same_order) {
  for (const Hosts& hosts : layouts()) {
    Party party(hosts.ranks());
    for (const Algorithm* algorithm : algorithms_that_add_over_links())
      ASSERT_NO_FATAL_FAILURE(perform_all(party, *algorithm, hosts, DType::float32, ReduceOp::sum));
    EXPECT_EQ(party.would_differ(), 0);
  }
}

}  // namespace
}  // namespace unisono::testing
