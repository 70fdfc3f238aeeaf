// A Run whose messages are longer than a link holds, turned by hand: what waits to be sent is not written over, whatever else
// has arrived meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "engine/run.hpp"
#include "schedule/builder.hpp"
#include "tests/support/machine.hpp"

namespace unisono {
namespace {

constexpr int ranks = 3;
constexpr size_t count = 3 * ring_bytes / sizeof(int32_t);  // three times what a link holds
constexpr uint64_t word = make_word(1, 4711);
using Ints = std::vector<int32_t>;
using testing::Machine;

// One rank in an all_reduce of numbers that are its own; its output holds -1 until something is written there.
struct Rank {
  Schedule schedule;
  Ints input, output = Ints(count, -1);
  Lanes lanes;
  Links links;
  Run run;
  Call call;

  Rank(Machine& machine, Schedule what, int32_t number)
      : schedule(std::move(what)),
        input(count, number),
        lanes(machine.layout, schedule.place.rank, machine.neighbours()),
        links(lanes, *machine.arenas[static_cast<size_t>(schedule.place.rank)], LinkUse::steps),
        run(lanes, links, *machine.arenas[static_cast<size_t>(schedule.place.rank)]) {
    lanes.find(machine.offsets);
    call.kind = Collective::all_reduce;
    call.dtype = DType::int32;
    call.count = static_cast<int64_t>(count);
    call.input = Pieces(input.data(), static_cast<int64_t>(count * sizeof(int32_t)));
    call.output = Pieces(output.data(), static_cast<int64_t>(count * sizeof(int32_t)));
    EXPECT_TRUE(run.prepare(call, {&schedule, 64_KiB, 1}).ok());
    lanes.word(lanes.me(), call_of(word)).store(word);
    run.start(word, 0);
  }
};

// Turns these ranks until none of them gets any further; how many are done.
int turn(const std::vector<Rank*>& turned) {
  std::vector<bool> done(turned.size());
  for (int quiet = 0; quiet < 2; ++quiet)
    for (size_t index = 0; index < turned.size(); ++index) {
      if (done[index]) continue;
      const Turn outcome = turned[index]->run.turn();
      done[index] = outcome == Turn::done;
      if (outcome != Turn::blocked) quiet = -1;
    }
  return static_cast<int>(std::count(done.begin(), done.end(), true));
}

// Rank 0 sends its output to rank 1, who does not read yet, and then writes over it with `next`. Rank 2 gives it a number.
void expect_sent_first(const std::function<void(Builder&)>& next, const Ints& wanted) {
  Machine machine(ranks);
  Builder sends(Collective::all_reduce, "sends", {0, ranks}), reads(Collective::all_reduce, "reads", {1, ranks}),
      gives(Collective::all_reduce, "gives", {2, ranks});
  sends.copy(input(0), output(0));
  sends.send(1, output(0));
  next(sends);
  reads.receive(0, output(0));
  gives.send(0, input(0));
  Rank sender(machine, sends.finish(), 7), reader(machine, reads.finish(), 8), giver(machine, gives.finish(), 9);
  turn({&sender, &giver});  // the reader has stopped
  EXPECT_EQ(sender.output.back(), 7) << "is still to be sent";
  EXPECT_EQ(turn({&sender, &reader, &giver}), ranks);
  EXPECT_EQ(reader.output, Ints(count, 7));
  EXPECT_EQ(sender.output, wanted);
}

TEST(RunLinks, what_is_being_sent_is_not_received_over) {
  expect_sent_first([](Builder& plan) { plan.receive(2, output(0)); }, Ints(count, 9));
}

TEST(RunLinks, what_is_being_sent_is_not_added_to_by_a_message) {
  expect_sent_first([](Builder& plan) { plan.receive_reduce(2, output(0)); }, Ints(count, 16));
}

TEST(RunLinks, what_is_being_sent_is_not_copied_over) {
  expect_sent_first([](Builder& plan) {
    plan.receive(2, scratch(0));
    plan.copy(scratch(0), output(0));
  }, Ints(count, 9));
}

TEST(RunLinks, what_is_being_sent_is_not_added_to) {
  expect_sent_first([](Builder& plan) {
    plan.receive(2, scratch(0));
    plan.reduce(scratch(0), output(0));
  }, Ints(count, 16));
}

}  // namespace
}  // namespace unisono
