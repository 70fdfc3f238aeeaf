// One rank gives arguments that cannot be: it is told at once, whether or not the others have come; they are told by whom
// and why; no data moves and the group goes on. Refusals in a row and among other calls: refusals_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/argument_rows.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"

namespace unisono::testing {
namespace {

constexpr size_t announced_text = 150;  // what of the refusal's text reaches the others

struct Meeting {
  std::atomic<int> refused, entered;
};

void make_wrong_call(TestWorld& world, const Refusal& refusal, const Outcomes& outcomes, int round) {
  Scratch scratch;
  outcomes.note(world.rank(), round, [&] { refusal.wrong_call(world, scratch); });
  EXPECT_TRUE(scratch.is_untouched()) << refusal.name << " changed memory of the rank that refused";
}

void make_right_call(TestWorld& world, const Refusal& refusal, const Outcomes& outcomes, int round) {
  Scratch scratch;
  outcomes.note(world.rank(), round, [&] { make_call(world.group(), scratch, {.kind = refusal.kind}); });
  EXPECT_TRUE(scratch.is_untouched()) << refusal.name << " changed memory of rank " << world.rank();
}

// In even rounds the others come only after the refusal; in odd ones they are in the call already.
void play(TestWorld& world, const std::vector<Refusal>& refusals, const Outcomes& outcomes, const SharedArray<Meeting>& meetings) {
  for (int round = 0; round < outcomes.rounds(); ++round) {
    const Refusal& refusal = refusals[static_cast<size_t>(round / 2)];
    Meeting& meeting = meetings[round];
    bool refuses_first = round % 2 == 0;
    if (world.rank() == refusal.rank) {
      EXPECT_TRUE(refuses_first || await([&] { return meeting.entered == world.ranks() - 1; }));
      make_wrong_call(world, refusal, outcomes, round);
      meeting.refused = 1;
    } else {
      EXPECT_TRUE(!refuses_first || await([&] { return meeting.refused == 1; }));
      meeting.entered += 1;
      make_right_call(world, refusal, outcomes, round);
    }
    expect_works(world);
  }
}

void expect_told(const Outcomes& outcomes, int round, const Refusal& refusal) {
  SCOPED_TRACE(refusal.name);
  const Outcome& refused = outcomes.of(refusal.rank, round);
  EXPECT_EQ(refused.code, ErrorCode::argument) << refused.text();
  for (const std::string& word : refusal.words)
    EXPECT_NE(refused.text().find(word), std::string::npos) << refused.text() << "\nshould say " << word;
  const std::string announced = std::string(refused.message).substr(0, announced_text);
  const std::string who = fmt::format("rank {} refused its {}", refusal.rank, name_of(refusal.kind));
  for (int rank = 0; rank < outcomes.ranks(); ++rank) {
    const Outcome& outcome = outcomes.of(rank, round);
    if (rank == refusal.rank) continue;
    ASSERT_EQ(outcome.code, ErrorCode::peer_argument) << outcome.text();
    EXPECT_EQ(outcome.peer, refusal.rank);
    EXPECT_NE(outcome.text().find(who), std::string::npos) << outcome.text() << "\nshould say " << who;
    EXPECT_NE(outcome.text().find(announced), std::string::npos) << outcome.text() << "\nshould say " << announced;
  }
  EXPECT_LT(outcomes.took_s(round), 1.0);
}

void expect_all_refused(const std::vector<Refusal>& refusals) {
  for (Kind kind : {Kind::threads, Kind::processes}) {
    if (kind == Kind::processes && under_thread_sanitizer()) continue;
    SCOPED_TRACE(kind == Kind::threads ? "threads" : "processes");
    Outcomes outcomes(3, 2 * static_cast<int>(refusals.size()));
    SharedArray<Meeting> meetings(2 * refusals.size());
    for_each_world(ranks(3).with(kind), [&](TestWorld& world) { play(world, refusals, outcomes, meetings); });
    for (int round = 0; round < outcomes.rounds(); ++round) expect_told(outcomes, round, refusals[static_cast<size_t>(round / 2)]);
  }
}

TEST(Arguments, tensors_that_cannot_be_are_refused) { expect_all_refused(tensor_refusals()); }
TEST(Arguments, lists_that_do_not_fit_are_refused) { expect_all_refused(list_refusals()); }
TEST(Arguments, memory_that_overlaps_is_refused) { expect_all_refused(overlap_refusals()); }
TEST(Arguments, roots_outside_the_group_are_refused) { expect_all_refused(root_refusals()); }
TEST(Arguments, operations_without_a_meaning_are_refused) { expect_all_refused(operation_refusals()); }
TEST(Arguments, comm_func_refuses_as_the_other_dialect_does) { expect_all_refused(comm_func_refusals()); }

// Tensors that begin `off` bytes beside where their elements would like to; the bytes around them stay as they are.
template <typename T>
void expect_sums(const TestWorld& world, DType dtype, int64_t count, size_t off) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(T);
  std::vector<T> numbers(static_cast<size_t>(count)), sums(numbers.size());
  const int ranks = world.ranks(), ranks_sum = ranks * (ranks - 1) / 2;
  for (size_t index = 0; index < numbers.size(); ++index) {
    numbers[index] = static_cast<T>(static_cast<int>(index % 100) + 1000 * world.rank());
    sums[index] = static_cast<T>(ranks * static_cast<int>(index % 100) + 1000 * ranks_sum);
  }
  std::vector<char> memory(bytes + 16, 'x'), wanted = memory;
  std::memcpy(memory.data() + off, numbers.data(), bytes);
  std::memcpy(wanted.data() + off, sums.data(), bytes);
  distributed::all_reduce({memory.data() + off, dtype, Shape{count}}, {.group = world.group()});
  EXPECT_TRUE(memory == wanted) << name_of(dtype) << " " << off << " bytes beside, on rank " << world.rank();
}

TEST(Arguments, a_misaligned_tensor_is_no_error) {
  for_each_world(ranks({1, 3}).with(Kind::threads), [](TestWorld& world) {
    expect_sums<float>(world, DType::float32, 1000, 1);
    expect_sums<float>(world, DType::float32, 100'000, 2);
    expect_sums<int16_t>(world, DType::int16, 13, 3);
    expect_sums<double>(world, DType::float64, 50, 7);
  });
}

TEST(Arguments, a_null_pointer_with_nothing_behind_it_is_no_error) {
  for_each_world(ranks({1, 3}).with(Kind::threads), [](TestWorld& world) {
    const TensorView nothing{nullptr, DType::float32, Shape{0}};
    distributed::all_reduce(nothing, {.group = world.group()});
    distributed::broadcast(nothing, {.group = world.group()});
    distributed::all_gather_into_tensor(nothing, nothing, {.group = world.group()});
    distributed::reduce_scatter_tensor(nothing, nothing, {.group = world.group()});
    EXPECT_EQ(comm_func::all_reduce(nothing).first.count(), 0);
    expect_works(world);
  });
}

}  // namespace
}  // namespace unisono::testing
