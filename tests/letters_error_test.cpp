// Letters that go wrong: arguments, sizes that differ, ranks that die, leave or never answer, groups that are aborted.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/support/eventually.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/test_world.hpp"
#include "unisono/comm_func.hpp"

namespace unisono {
namespace {

using testing::eventually;
using testing::for_each_world;
using testing::Outcome;
using testing::Outcomes;
using testing::ranks;
using testing::TestWorld;
using testing::Worlds;

constexpr int64_t short_count = 5, long_count = 40'001;

template <typename Exception, typename Action>
std::string text_of(Action action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.status().message();
  } catch (const Error& error) {
    ADD_FAILURE() << "another error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

void expect_has(const std::string& text, const std::string& part) { EXPECT_NE(text.find(part), std::string::npos) << text; }

void for_each_way(const Worlds& worlds, const testing::Body& body) {
  for_each_world(worlds, body);
  for_each_world(worlds.with([](Settings& settings) { settings.peer_reads = "off"; }), body);
}

// That letters between these two still arrive.
void expect_letters_work(TestWorld& world) {
  std::vector<int32_t> data(long_count, world.rank() == 0 ? 11 : 0);
  if (world.rank() == 0) distributed::send(view(data), 1, {.tag = 77});
  if (world.rank() == 1) distributed::recv(view(data), 0, {.tag = 77});
  EXPECT_EQ(data.back(), world.rank() <= 1 ? 11 : 0);
}

TEST(LetterErrors, of_arguments_are_told_to_this_rank_alone) {
  for_each_world(ranks(2), [](TestWorld& world) {
    std::vector<int32_t> data(3);
    const std::vector<int32_t> constant(3);
    const int me = world.rank();
    expect_has(text_of<ArgumentError>([&] { distributed::send(view(data), me); }), "this rank itself");
    expect_has(text_of<ArgumentError>([&] { distributed::recv(view(data), me); }), "this rank itself");
    expect_has(text_of<ArgumentError>([&] { distributed::send(view(data), 2); }), "dst is rank 2, which is not in group");
    expect_has(text_of<ArgumentError>([&] { distributed::irecv(view(data), -1); }), "src is rank -1, which is not in group");
    expect_has(text_of<ArgumentError>([&] { distributed::recv(view(constant), 1 - me); }), "made from const memory");
    expect_has(text_of<ArgumentError>([&] { distributed::send({nullptr, DType::int8, Shape{4}}, 1 - me); }), "null pointer");
    expect_has(text_of<ArgumentError>([&] { distributed::recv(view(data), {}, {.group_peer = 2}); }), "has 2 ranks");
    expect_has(text_of<ArgumentError>([&] { distributed::recv(view(data), 1 - me, {.group_peer = 1 - me}); }), "not both");
    expect_has(text_of<ArgumentError>([&] { distributed::recv(view(data), 1 - me, {.timeout_s = -1.0}); }), "more than 0");
    const distributed::P2POp batch[] = {{distributed::P2POp::Kind::isend, view(data), 1 - me}, {distributed::P2POp::Kind::isend, view(data), {}}};
    expect_has(text_of<ArgumentError>([&] { distributed::batch_isend_irecv(batch); }), "dst is missing");
    EXPECT_THROW(comm_func::send(view(data), 5), ArgumentError);
    EXPECT_THROW(comm_func::recv(view(data), 1 - me, "nobody's group"), ArgumentError);
    distributed::barrier();
    expect_letters_work(world);  // nothing of the above was sent
  });
}

TEST(LetterErrors, sizes_and_dtypes_that_differ_name_both) {
  for_each_way(ranks(2), [](TestWorld& world) {
    for (int64_t sent : {short_count, long_count})
      for (int64_t wanted : {sent - 1, sent + 1}) {
        std::vector<int32_t> data(static_cast<size_t>(world.rank() == 0 ? sent : wanted), 3);
        if (world.rank() == 1) {
          const std::string text = text_of<MismatchError>([&] { distributed::recv(view(data), 0); });
          expect_has(text, "rank 0 sent int32[" + std::to_string(sent) + "]");
          expect_has(text, "rank 1 receives int32[" + std::to_string(wanted) + "]");
          EXPECT_EQ(data, std::vector<int32_t>(data.size(), 3)) << "it was written to";
        } else if (sent == long_count) {
          const std::string text = text_of<MismatchError>([&] { distributed::send(view(data), 1); });
          expect_has(text, "rank 1 receives int32[" + std::to_string(wanted) + "]");
        } else {
          distributed::send(view(data), 1);  // was in the ring before anybody could tell
        }
      }
    std::vector<float> floats(5);
    std::vector<int32_t> whole(5);
    if (world.rank() == 0) distributed::send(view(whole), 1);
    if (world.rank() == 1)
      expect_has(text_of<MismatchError>([&] { distributed::recv(view(floats), 0); }), "receives float32[5]");
    expect_letters_work(world);
  });
}

TEST(LetterErrors, wait_with_a_deadline_breaks_nothing) {
  for_each_way(ranks(2), [](TestWorld& world) {
    std::vector<int32_t> data(long_count, world.rank() == 0 ? 4 : 0);
    if (world.rank() == 1) {
      WorkPtr work = distributed::irecv(view(data), 0);
      expect_has(text_of<TimeoutError>([&] { work->wait(0.02); }), "recv int32[40001] from rank 0, tag 0 is still under way");
      distributed::barrier();
      work->wait();
      EXPECT_EQ(data.back(), 4);
    } else {
      distributed::barrier();
      distributed::send(view(data), 1);
    }
  });
}

TEST(LetterErrors, a_deadline_says_what_was_waited_for_and_what_came_instead) {
  for_each_way(ranks(3), [](TestWorld& world) {
    std::vector<int32_t> data(short_count);
    if (world.rank() == 0) distributed::send(view(data), 1, {.tag = 8});
    distributed::barrier();
    if (world.rank() != 1) {
      expect_has(text_of<TimeoutError>([&] { distributed::barrier(); }), "recv int32[5] from rank 0, tag 7 gave up after");
      return;
    }
    const std::string text = text_of<TimeoutError>([&] { distributed::recv(view(data), 0, {.tag = 7, .timeout_s = 0.1}); });
    expect_has(text, "gave up after");
    expect_has(text, "rank 0 has not sent it");
    expect_has(text, "int32[5] with tag 8 from rank 0");
    EXPECT_THROW(distributed::recv(view(data), 0, {.tag = 8}), TimeoutError) << "a broken group stays broken";
  });
}

TEST(LetterErrors, a_send_that_nobody_takes_times_out) {
  for_each_way(ranks(2), [](TestWorld& world) {
    std::vector<int32_t> data(long_count);
    if (world.rank() == 0) {
      WorkPtr work = distributed::isend(view(data), 1, {.timeout_s = 0.1});
      expect_has(text_of<TimeoutError>([&] { work->wait(); }), "rank 1 has not received it");
    } else {
      EXPECT_THROW(distributed::barrier(), TimeoutError);
    }
  });
}

TEST(LetterErrors, abort_frees_those_who_wait_for_letters) {
  for_each_way(ranks(3), [](TestWorld& world) {
    std::vector<int32_t> data(long_count);
    if (world.rank() == 0) {
      WorkPtr work = distributed::irecv(view(data), 1);
      distributed::abort({}, "enough");
      EXPECT_THROW(work->wait(), RevokedError);
    } else if (world.rank() == 1) {
      expect_has(text_of<RevokedError>([&] { distributed::send(view(data), 2); }), "enough");
    } else {
      expect_has(text_of<RevokedError>([&] { distributed::recv(view(data), {}, {.tag = 3}); }), "enough");
    }
  });
}

TEST(LetterErrors, what_a_rank_sent_before_it_left_can_still_be_received) {
  for_each_way(ranks(2), [](TestWorld& world) {
    GroupHandle pair = distributed::new_group({0, 1});
    std::vector<int32_t> data(short_count, world.rank() == 0 ? 6 : 0);
    if (world.rank() == 0) {
      distributed::send(view(data), 1, {.group = pair});
      distributed::destroy_process_group(pair);
      distributed::barrier();
      return;
    }
    distributed::barrier();
    EXPECT_EQ(distributed::recv(view(data), {}, {.group = pair}), 0);
    EXPECT_EQ(data.back(), 6);
    expect_has(text_of<PeerLostError>([&] { distributed::recv(view(data), 0, {.group = pair}); }), "left the group");
    EXPECT_THROW(distributed::send(view(data), 0, {.group = pair}), PeerLostError);
  });
}

// Who leaves in good order has said all it had to say; the others may still send.
TEST(LetterErrors, a_receive_from_anybody_waits_for_whoever_is_left) {
  for_each_way(ranks(3), [](TestWorld& world) {
    GroupHandle group = distributed::new_group({0, 1, 2});
    std::vector<int32_t> data(short_count, world.rank());
    if (world.rank() == 2) distributed::destroy_process_group(group);
    distributed::barrier();
    if (world.rank() == 0) {
      WorkPtr work = distributed::irecv(view(data), {}, {.group = group});
      EXPECT_THROW(work->wait(0.05), TimeoutError);
      distributed::barrier();
      work->wait();
      EXPECT_EQ(work->source_rank(), 1);
      distributed::barrier();
      expect_has(text_of<PeerLostError>([&] { distributed::recv(view(data), {}, {.group = group}); }), "left the group");
    } else {
      distributed::barrier();
      if (world.rank() == 1) distributed::send(view(data), 0, {.group = group});
      if (world.rank() == 1) distributed::destroy_process_group(group);
      distributed::barrier();
    }
  });
}

TEST(LetterErrors, leaving_ends_letters_under_way) {
  for_each_way(ranks(2), [](TestWorld& world) {
    GroupHandle pair = distributed::new_group({0, 1});
    std::vector<int32_t> data(long_count);
    WorkPtr work = world.rank() == 0 ? distributed::isend(view(data), 1, {.group = pair}) : nullptr;
    distributed::barrier();
    if (world.rank() == 0) {
      distributed::destroy_process_group(pair);
      EXPECT_THROW(work->wait(), StateError);
      EXPECT_THROW(distributed::isend(view(data), 1, {.group = pair})->wait(), StateError);
    }
    distributed::barrier();
    if (world.rank() == 1) {
      EXPECT_THROW(distributed::recv(view(data), 0, {.group = pair}), PeerLostError);
    }
  });
}

// Somebody sends without end, and nothing that is awaited comes: deadlines, leaving and other groups go on.
TEST(LetterErrors, a_flood_starves_nobody) {
  for_each_world(ranks(2), [](TestWorld& world) {
    constexpr int many = 500;
    GroupHandle flooded = distributed::new_group({0, 1}), other = distributed::new_group({0, 1});
    std::vector<int32_t> one(1), awaited(many), sum(3, 1);
    if (world.rank() == 1) {
      distributed::barrier();
      auto flood = [&] {
        while (true) distributed::send(view(one), 0, {.group = flooded});
      };
      expect_has(text_of<TimeoutError>(flood), "recv int32[1] from rank 1, tag 7 gave up");
      distributed::all_reduce(view(sum), {.group = other});
      return;
    }
    std::vector<WorkPtr> works;
    for (int index = 0; index < many; ++index)
      works.push_back(distributed::irecv({&awaited[static_cast<size_t>(index)], DType::int32, Shape{1}}, 1, {.group = flooded, .tag = 100 + index}));
    distributed::barrier();
    WorkPtr beside = distributed::all_reduce(view(sum), {.group = other, .async_op = true});
    EXPECT_THROW(distributed::recv(view(one), 1, {.group = flooded, .tag = 7, .timeout_s = 0.3}), TimeoutError);
    for (const WorkPtr& work : works) EXPECT_THROW(work->wait(), TimeoutError);
    beside->wait();
    EXPECT_EQ(sum, std::vector<int32_t>(3, 2));
  });
}

// A letter that is over gives its memory back, also where the group ends it; who receives it later must not believe it.
TEST(LetterErrors, of_a_rank_that_leaves_are_not_believed) {
  for_each_way(ranks(2), [](TestWorld& world) {
    constexpr int many = 20'000;  // letters that take their time to end
    GroupHandle pair = distributed::new_group({0, 1});
    std::vector<int32_t> data(long_count, 1), small(many);
    distributed::barrier();
    if (world.rank() == 0) {
      WorkPtr work = distributed::isend(view(data), 1, {.group = pair});
      std::vector<WorkPtr> others;
      for (int index = 0; index < many; ++index)
        others.push_back(distributed::irecv({&small[static_cast<size_t>(index)], DType::int32, Shape{1}}, 1, {.group = pair, .tag = 1 + index}));
      GroupHandle everybody = world.group();
      std::thread other([&] {
        EXPECT_TRUE(eventually([&] { return work->is_completed(); }));
        std::fill(data.begin(), data.end(), 777);
        std::vector<int32_t> go(1);
        distributed::send(view(go), 1, {.group = everybody});
      });
      distributed::destroy_process_group(pair);
      other.join();
    } else {
      std::vector<int32_t> go(1);
      distributed::recv(view(go), 0);
      EXPECT_THROW(distributed::recv(view(data), 0, {.group = pair}), PeerLostError);
    }
  });
}

class LetterDeath : public ::testing::Test {
 protected:
  void TearDown() override { traces_.expect_none_left(); }
  testing::Traces traces_;
};

// Rank 0 waits for rank 1, in one of several ways, and rank 1 is killed.
TEST_F(LetterDeath, is_told_to_those_who_wait_for_the_dead) {
  const std::vector<std::function<void(std::vector<int32_t>&)>> ways = {
      [](auto& data) { distributed::recv(view(data), 1); },
      [](auto& data) { distributed::recv(view(data), {}); },
      [](auto& data) { distributed::irecv(view(data), 1)->wait(); },
      [](auto& data) { distributed::send(view(data), 1); },
      [](auto& data) { distributed::isend(view(data), 1)->wait(); },
  };
  for (const char* reads : {"auto", "off"})
    for (size_t way = 0; way < ways.size(); ++way) {
      SCOPED_TRACE(std::to_string(way) + ", peer reads " + reads);
      testing::KillScene scene{.ranks = 3, .victims = {1}, .late = 2};
      scene.settings.peer_reads = reads;
      testing::expect_survivors_are_told(scene, [&](TestWorld& world) {
        std::vector<int32_t> data(long_count);
        if (world.rank() == 0) ways[way](data);
        if (world.rank() == 1) distributed::recv(view(data), 2, {.tag = 9});
        if (world.rank() == 2) distributed::recv(view(data), 1, {.tag = 9});
      });
    }
}

// Two ranks stream long letters to each other while one of them is killed somewhere in between.
TEST_F(LetterDeath, in_the_middle_of_letters_is_told) {
  for (const char* reads : {"auto", "off"})
    for (int kill_after : {1, 7, 23}) {
      testing::SharedArray<testing::Signs> signs(1);
      Outcomes outcomes(2);
      Settings settings = Worlds::test_settings();
      settings.peer_reads = reads;
      auto endings = testing::run_processes(2, settings, [&](TestWorld& world) {
        const int peer = 1 - world.rank();
        outcomes.note(world.rank(), [&] {
          for (int round = 0;; ++round) {
            std::vector<int32_t> given(1 << 20, round), got(1 << 20);
            WorkPtr work = distributed::isend(view(given), peer);
            if (world.rank() == 1 && round == kill_after) raise(SIGKILL);
            distributed::recv(view(got), peer);
            ASSERT_EQ(got, given);
            work->wait();
          }
        });
      });
      EXPECT_TRUE(endings[1].killed_by(SIGKILL));
      EXPECT_TRUE(endings[0].succeeded()) << endings[0].output;
      testing::expect_lost(outcomes.of(0), {1});
    }
}

}  // namespace
}  // namespace unisono
