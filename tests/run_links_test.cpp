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
#include "transport/byte_ring.hpp"

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
  Router router;
  Run run;
  Call call;

  Rank(Machine& machine, Schedule what, int32_t number, Assignment how = {nullptr, 64_KiB, 1})
      : schedule(std::move(what)),
        input(count, number),
        lanes(machine.layout, schedule.place.rank, machine.neighbours()),
        router(lanes, *machine.arenas[static_cast<size_t>(schedule.place.rank)], LinkUse::steps),
        run(lanes, router, *machine.arenas[static_cast<size_t>(schedule.place.rank)]) {
    lanes.find(machine.offsets);
    call.kind = Collective::all_reduce;
    call.dtype = DType::int32;
    call.count = static_cast<int64_t>(count);
    call.input = Pieces(input.data(), static_cast<int64_t>(count * sizeof(int32_t)));
    call.output = Pieces(output.data(), static_cast<int64_t>(count * sizeof(int32_t)));
    how.schedule = &schedule;
    EXPECT_TRUE(run.prepare(call, how).ok());
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

// Rank 0 sends its output to rank 1, who does not read yet, and then writes over it with `next`. Rank 2 gives it a number, once or more.
void expect_sent_first(const std::function<void(Builder&)>& next, const Ints& wanted, int given = 1) {
  Machine machine(ranks);
  Builder sends(Collective::all_reduce, "sends", {0, ranks}), reads(Collective::all_reduce, "reads", {1, ranks}),
      gives(Collective::all_reduce, "gives", {2, ranks});
  sends.copy(input(0), output(0));
  sends.send(1, output(0));
  next(sends);
  reads.receive(0, output(0));
  for (int time = 0; time < given; ++time) gives.send(0, input(0));
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

TEST(RunLinks, what_is_being_sent_is_not_combined_over) {
  expect_sent_first([](Builder& plan) {
    plan.receive(2, gathered(2));
    plan.receive(2, gathered(1));
    plan.reduce_peers(input(0), all_gathered, output(0));
  }, Ints(count, 7 + 9 + 9), 2);
}

// A copy so long that it is done in parts, in the time in which nothing comes: what can be sent at once is.
TEST(RunLinks, a_long_copy_holds_up_no_message) {
  Machine machine(ranks);
  Builder copies(Collective::all_reduce, "copies", {0, ranks}), reads(Collective::all_reduce, "reads", {1, ranks});
  copies.copy(input(0), output(0));
  copies.send(1, input(0));
  reads.receive(0, output(0));
  Rank copier(machine, copies.finish(), 7), reader(machine, reads.finish(), 8), idle(machine, Builder(Collective::all_reduce, "idle", {2, ranks}).finish(), 9);
  EXPECT_EQ(copier.run.turn(), Turn::progressed);
  EXPECT_EQ(copier.output.front(), -1) << "the copy was begun while there was something to send";
  EXPECT_EQ(copier.run.turn(), Turn::progressed);  // the link is full
  EXPECT_EQ(copier.output.front(), 7) << "nothing else can be done, and the copy was not begun";
  EXPECT_EQ(copier.output.back(), -1) << "all of it was copied at once";
  reader.run.turn();
  EXPECT_EQ(reader.output.front(), 7) << "nothing was sent before the copy";
  EXPECT_EQ(turn({&copier, &reader}), 2);
  EXPECT_EQ(copier.output, Ints(count, 7));
  EXPECT_EQ(reader.output, Ints(count, 7));
}

TEST(RunLinks, what_is_still_to_be_copied_is_not_received_over) {
  Machine machine(ranks);
  Builder copies(Collective::all_reduce, "copies", {0, ranks}), gives(Collective::all_reduce, "gives", {2, ranks});
  copies.receive(2, scratch(0));
  copies.copy(scratch(0), output(0));
  copies.receive(2, scratch(0));
  gives.send(0, input(0));
  gives.send(0, output(0));
  Rank copier(machine, copies.finish(), 7), idle(machine, Builder(Collective::all_reduce, "idle", {1, ranks}).finish(), 8), giver(machine, gives.finish(), 9);
  EXPECT_EQ(turn({&copier, &giver}), 2);
  EXPECT_EQ(copier.output, Ints(count, 9));
}

TEST(RunLinks, what_a_copy_is_still_to_write_is_not_received_before_it) {
  Machine machine(ranks);
  Builder copies(Collective::all_reduce, "copies", {0, ranks}), gives(Collective::all_reduce, "gives", {2, ranks});
  copies.copy(input(0), output(0));
  copies.receive_reduce(2, output(0));
  gives.send(0, input(0));
  Rank copier(machine, copies.finish(), 7), idle(machine, Builder(Collective::all_reduce, "idle", {1, ranks}).finish(), 8), giver(machine, gives.finish(), 9);
  EXPECT_EQ(turn({&copier, &giver}), 2);
  EXPECT_EQ(copier.output, Ints(count, 16));
}

// The end of a copy lets go on who has waited for it, whatever else is under way: the reader may wait for what comes of that.
TEST(RunLinks, what_has_waited_for_a_copy_does_not_wait_for_a_send_besides) {
  Machine machine(ranks);
  Builder copies(Collective::all_reduce, "copies", {0, ranks}), reads(Collective::all_reduce, "reads", {1, ranks}),
      gives(Collective::all_reduce, "gives", {2, ranks});
  copies.copy(input(0), output(0));
  copies.send(1, input(0));
  copies.receive_reduce(2, output(0));
  reads.receive(0, output(0));
  gives.send(0, input(0));
  Rank copier(machine, copies.finish(), 7), reader(machine, reads.finish(), 8), giver(machine, gives.finish(), 9);
  turn({&copier, &giver});  // the reader has stopped
  EXPECT_EQ(copier.output, Ints(count, 16));
  EXPECT_EQ(turn({&copier, &reader}), 2);
  EXPECT_EQ(reader.output, Ints(count, 7));
}

// Frames of two tiles in one channel, in an order in which neither tile of the reader can take the first frame of either channel:
//
//   from P   a of tile 0, a of tile 1, b of tile 0, b of tile 1      since P cannot send b before Q has come
//   from Q   x of tile 0, y of tile 0, x of tile 1, y of tile 1
//   the reader takes x, a, b, y: in tile 0 it needs b and finds a of tile 1, which in tile 1 needs x and finds y of tile 0
TEST(RunLinks, what_came_too_early_is_set_aside) {
  Machine machine(ranks);
  Builder p(Collective::all_reduce, "p", {0, ranks}), q(Collective::all_reduce, "q", {1, ranks}), reads(Collective::all_reduce, "reads", {2, ranks});
  for (Builder* plan : {&p, &q, &reads}) plan->copy(input(0), stage(0));  // so that there are tiles
  p.send(2, input(0));
  p.receive(1, output(0));
  p.send(2, output(0));
  q.send(2, input(0));
  q.send(2, input(0));
  q.send(0, input(0));
  reads.receive(1, output(0));
  reads.receive_reduce(0, output(0));
  reads.receive(0, scratch(0));
  reads.receive_reduce(1, output(0));
  const Assignment two_at_a_time{nullptr, 64_KiB, 2};
  Rank from_p(machine, p.finish(1), 100, two_at_a_time), from_q(machine, q.finish(1), 7, two_at_a_time),
      reader(machine, reads.finish(1), 0, two_at_a_time);
  ASSERT_EQ(from_p.run.tiles(), 12);
  turn({&from_p});
  turn({&from_q});
  turn({&from_p});
  EXPECT_EQ(turn({&reader, &from_p, &from_q}), ranks);
  for (Rank* rank : {&reader, &from_p, &from_q}) EXPECT_TRUE(rank->run.failure().ok()) << rank->run.failure().text();
  EXPECT_EQ(reader.output, Ints(count, 7 + 100 + 7));
  EXPECT_EQ(from_p.output, Ints(count, 7));
}

// A rank that has nothing to send sends that: who receives it knows that it was there.
TEST(RunLinks, a_send_of_nothing_is_waited_for) {
  Machine machine(2);
  Builder gives(Collective::barrier, "gives", {0, 2}), waits(Collective::barrier, "waits", {1, 2});
  gives.send(1, input(0));
  waits.receive(0, output(0));
  Rank waiter(machine, waits.finish(), 0), giver(machine, gives.finish(), 0);
  for (Rank* rank : {&waiter, &giver}) {
    rank->call.kind = Collective::barrier;
    rank->call.count = 0;
    rank->call.input = rank->call.output = Pieces();
    EXPECT_TRUE(rank->run.prepare(rank->call, {&rank->schedule, 64_KiB, 1}).ok());
    rank->run.start(word, 0);
  }
  EXPECT_EQ(turn({&waiter}), 0);
  EXPECT_EQ(turn({&waiter, &giver}), 2);
}

// What lies in a channel is believed only where it can be; the sender's frame has the word, the signature, the tile and the length in it.
TEST(RunLinks, frames_that_cannot_be_are_told) {
  struct Wrong {
    const char* name;
    uint64_t word;
    uint32_t tile, bytes;
  };
  constexpr auto all = static_cast<uint32_t>(1_MiB);
  for (const Wrong& wrong : {Wrong{"another call", make_word(2, 4711), 0, all}, Wrong{"another signature", make_word(1, 4712), 0, all},
                             Wrong{"a tile that there is not", word, 1, all}, Wrong{"half an element", word, 0, 3},
                             Wrong{"nothing", word, 0, 0}, Wrong{"more than a frame may have", word, 0, all + 4}}) {
    SCOPED_TRACE(wrong.name);
    Machine machine(2);
    Builder waits(Collective::all_reduce, "waits", {1, 2});
    waits.receive(0, output(0));
    Lanes lanes(machine.layout, 0, machine.neighbours());
    lanes.find(machine.offsets);
    lanes.word(0, call_of(word)).store(word);
    Router router(lanes, *machine.arenas[0], LinkUse::steps);
    ASSERT_TRUE(router.to(1).open().ok());
    const uint64_t first[] = {wrong.word, /*signature=*/0};
    router.to(1).post_send(std::as_bytes(std::span(first)), {});
    const uint32_t rest[] = {wrong.tile, wrong.bytes};
    router.to(1).post_send(std::as_bytes(std::span(rest)), {});
    Rank waiter(machine, waits.finish(), 0);
    EXPECT_EQ(turn({&waiter}), 0);
    EXPECT_EQ(waiter.run.failure().code(), ErrorCode::protocol) << waiter.run.failure().text();
    EXPECT_NE(waiter.run.failure().message().find("rank 0"), std::string::npos) << waiter.run.failure().text();
    EXPECT_EQ(waiter.output, Ints(count, -1));
  }
}

}  // namespace
}  // namespace unisono
