// Strangers at the meeting place and on the shared memory: noise, silence, half a message, another version, another user.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/join.hpp"
#include "rendezvous/join_messages.hpp"
#include "tests/support/losses.hpp"
#include "transport/local_socket.hpp"

namespace unisono::testing {
namespace {

constexpr uid_t nobody = 65534;

Descriptor knock(const std::string& place) {
  Descriptor socket;
  EXPECT_TRUE(await([&] {
    auto outcome = connect_to(place);
    if (outcome.ok() && outcome->attempt == Attempt::done) socket = std::move(outcome->socket);
    return static_cast<bool>(socket);
  }));
  return socket;
}

void say(const Descriptor& socket, const void* bytes, size_t count) {
  EXPECT_EQ(send(socket.number(), bytes, count, MSG_NOSIGNAL), static_cast<ssize_t>(count));
}

// Everything a stranger of the same user might do; the sockets stay open as long as the result lives.
std::vector<Descriptor> disturb(const std::string& place) {
  std::vector<Descriptor> sockets;
  const std::string banner = "GET / HTTP/1.0\r\n\r\n";
  const std::vector<char> noise(100'000, '\x5a');
  JoinMessage hello;
  sockets.push_back(knock(place));  // silence
  sockets.push_back(knock(place));
  say(sockets.back(), banner.data(), banner.size());
  sockets.push_back(knock(place));
  say(sockets.back(), noise.data(), noise.size());
  sockets.push_back(knock(place));
  say(sockets.back(), &hello, sizeof(hello) / 2);
  sockets.push_back(knock(place));  // a whole message of the right length that is not ours
  say(sockets.back(), noise.data(), sizeof(hello));
  sockets.push_back(knock(place));  // ours, but without an arena
  hello.rank = 1;
  hello.size = 3;
  hello.kind = JoinKind::ready;
  say(sockets.back(), &hello, sizeof(hello));
  knock(place).reset();  // gone at once
  return sockets;
}

TEST(Strangers, at_the_meeting_place_do_not_hinder_the_ranks_from_meeting) {
  WorldChoice choice{.size = 3};
  SharedArray<Signs> signs(1);
  Children children(3, [&](int rank) {
    if (rank == 2) { EXPECT_TRUE(await([&] { return signs[0].go == 1; })); }
    as_rank(rank, choice, [](TestWorld& world) { expect_works(world); });
  });
  std::vector<Descriptor> sockets = disturb(meeting_place(choice.job));
  signs[0].go = 1;
  expect_all_succeeded(children.wait());
}

TEST(Strangers, do_not_disturb_a_world_at_work) {
  WorldChoice choice{.size = 3};
  SharedArray<Signs> signs(1);
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      signs[0].ready += 1;
      for (std::vector<int32_t> more = {1}; more[0] > 0;) {
        expect_works(world);
        more[0] = rank == 0 && signs[0].go == 0;
        distributed::broadcast(view(more), {.group = world.group()});
      }
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
  for (int round = 0; round < 20; ++round) disturb(meeting_place(choice.job));
  std::vector<Descriptor> sockets = disturb(meeting_place(choice.job));
  signs[0].go = 1;
  expect_all_succeeded(children.wait());
}

// The thread that answers the door is the one that notices deaths.
TEST(Strangers, who_say_nothing_do_not_delay_the_news_of_a_death) {
  Outcomes outcomes(2);
  WorldChoice choice{.size = 2};
  SharedArray<Signs> signs(1);
  Children children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      signs[0].ready += 1;
      if (rank == 1) await([] { return false; });
      Scratch scratch;
      outcomes.note(rank, [&] { make_call(world.group(), scratch, {}); });
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 2; }));
  children.await_asleep(0);
  std::vector<Descriptor> silent;
  for (int count = 0; count < 100; ++count) silent.push_back(knock(meeting_place(choice.job)));
  const int64_t killed_ns = now_ns();
  children.kill(1);
  children.wait();
  expect_lost(outcomes.of(0), {1});
  EXPECT_LT(seconds_between(killed_ns, outcomes.of(0).ended_ns), 1.0);
}

// A rank made by hand: as far as being handed everybody's memory.
struct HandMade {
  std::unique_ptr<Arena> arena;
  Descriptor life, socket;
};

// Whether the hello could be sent: it cannot where the host has closed the door already.
bool say_hello(HandMade& made, const std::string& place, JoinMessage hello) {
  made.arena = std::move(*Arena::create(1 << 20));
  EXPECT_TRUE(made.arena->take(sizeof(ArenaHead), "a head").ok());
  auto& head = *reinterpret_cast<ArenaHead*>(made.arena->mapping()->data());
  head.magic = arena_magic;
  head.probe = hello.probe = 4711;
  hello.pid = getpid();
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Descriptor reading(ends[0]);
  made.life = Descriptor(ends[1]);
  made.socket = knock(place);
  const int descriptors[] = {made.arena->descriptor(), reading.number()};
  return send(made.socket, hello, descriptors, Deadline::in_seconds(10)).ok();
}

HandMade join_by_hand(const std::string& place, int rank, int size, const std::string& version) {
  JoinMessage hello;
  hello.rank = rank;
  hello.size = size;
  std::strncpy(hello.version, version.c_str(), sizeof(hello.version) - 1);
  HandMade made;
  EXPECT_TRUE(say_hello(made, place, hello));
  return made;
}

TEST(Strangers, another_version_of_the_library_is_named_to_both) {
  Outcomes outcomes(1);
  WorldChoice choice{.size = 2};
  Children children(1, [&](int rank) {
    outcomes.note(rank, [&] { throw_if_error(join_as(0, 2, choice.job, choice.settings).status()); });
  });
  HandMade made = join_by_hand(meeting_place(choice.job), 1, 2, "9.9");
  ASSERT_EQ(wait_readable(made.socket.number(), Deadline::in_seconds(10)), Readable::yes);
  auto answer = receive(made.socket);
  expect_all_succeeded(children.wait());
  const std::string words = fmt::format("rank 1 (pid {}) speaks 9.9, rank 0 (pid {}) speaks {}", getpid(), children.pid(0), UNISONO_VERSION);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->message.kind, JoinKind::refuse);
  EXPECT_EQ(answer->message.code, static_cast<uint32_t>(ErrorCode::version));
  EXPECT_NE(std::string(answer->message.text).find(words), std::string::npos) << answer->message.text;
  EXPECT_EQ(outcomes.of(0).code, ErrorCode::version) << outcomes.of(0).text();
  EXPECT_NE(outcomes.of(0).text().find(words), std::string::npos) << outcomes.of(0).text();
  EXPECT_LT(outcomes.of(0).took_s(), 2.0);
}

TEST(Strangers, who_are_handed_the_memory_cannot_shrink_or_grow_or_unseal_it) {
  WorldChoice choice{.size = 2};
  choice.settings.join_timeout_s = 5;
  Children children(1, [&](int) { EXPECT_FALSE(join_as(0, 2, choice.job, choice.settings).ok()); });
  HandMade made = join_by_hand(meeting_place(choice.job), 1, 2, UNISONO_VERSION);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(wait_readable(made.socket.number(), Deadline::in_seconds(10)), Readable::yes);
    auto member = receive(made.socket);
    ASSERT_TRUE(member.ok()) << member.status().text();
    ASSERT_EQ(member->message.kind, JoinKind::member);
    const int memory = member->descriptors[0].number();
    EXPECT_EQ(ftruncate(memory, 0), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(ftruncate(memory, int64_t{1} << 40), -1);
    EXPECT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), -1);
    const int seals = fcntl(memory, F_GET_SEALS);
    EXPECT_EQ(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  }
  made.socket.reset();
  children.wait();
}

TEST(Strangers, memory_that_can_be_shrunk_is_not_mapped) {
  Descriptor memory(memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(memory.number(), 1 << 20), 0);
  auto mapping = Mapping::of(memory.number());
  ASSERT_FALSE(mapping.ok());
  EXPECT_EQ(mapping.status().code(), ErrorCode::protocol);
}

class OtherUser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  }
  // As somebody else; the harness's pipes are open already.
  static void become_nobody() { ASSERT_EQ(setresuid(nobody, nobody, nobody), 0); }
};

// Its hello is perfect: all that is wrong with it is whose it is.
TEST_F(OtherUser, at_the_meeting_place_learns_nothing_and_hinders_nobody) {
  WorldChoice choice{.size = 2};
  const std::string place = meeting_place(choice.job);
  SharedArray<Signs> signs(1);
  Children world(2, [&](int rank) {
    if (rank == 1) { EXPECT_TRUE(await([&] { return signs[0].rounds == 1; })); }
    as_rank(rank, choice, [&](TestWorld& world) {
      signs[0].ready += 1;
      expect_works(world);
      EXPECT_TRUE(await([&] { return signs[0].rounds == 2; }));
      expect_works(world);
    });
  });
  for (int round = 0; round < 2; ++round) {  // while ranks meet, and while they work
    EXPECT_TRUE(await([&] { return signs[0].ready == round * 2; }));
    Children prober(1, [&](int) {
      become_nobody();
      JoinMessage hello;
      hello.rank = 1;
      hello.size = 2;
      HandMade made;
      say_hello(made, place, hello);
      ASSERT_EQ(wait_readable(made.socket.number(), Deadline::in_seconds(20)), Readable::yes);
      char byte;
      EXPECT_LE(recv(made.socket.number(), &byte, 1, 0), 0) << "a stranger was answered";
    });
    expect_all_succeeded(prober.wait());
    signs[0].rounds += 1;
  }
  expect_all_succeeded(world.wait());
}

TEST_F(OtherUser, who_squats_the_meeting_place_is_named_and_not_obeyed) {
  WorldChoice choice{.size = 2};
  choice.settings.join_timeout_s = 5;
  Outcomes outcomes(2);
  SharedArray<Signs> signs(1);
  const std::string place = meeting_place(choice.job);
  Children squatter(1, [&](int) {
    become_nobody();
    auto listener = listen_at(place);
    ASSERT_TRUE(listener.ok());
    ASSERT_EQ(listener->attempt, Attempt::done);
    signs[0].ready = 1;
    EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 1; }));
  Children ranks(2, [&](int rank) {
    outcomes.note(rank, [&] { throw_if_error(join_as(rank, 2, choice.job, choice.settings).status()); });
  });
  expect_all_succeeded(ranks.wait());
  signs[0].go = 1;
  expect_all_succeeded(squatter.wait());
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::auth) << outcomes.of(rank).text();
    const std::string who = fmt::format("another user's process (uid {}, pid {})", nobody, squatter.pid(0));
    EXPECT_NE(outcomes.of(rank).text().find(who), std::string::npos) << outcomes.of(rank).text();
    EXPECT_LT(outcomes.of(rank).took_s(), 1.0);
  }
}

// Not even through /proc: the memory belongs to another user.
TEST_F(OtherUser, cannot_open_the_memory_of_a_rank) {
  WorldChoice choice{.size = 1};
  SharedArray<Signs> signs(1);
  Children world(1, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld&) {
      signs[0].ready = 1;
      EXPECT_TRUE(await([&] { return signs[0].go == 1; }));
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 1; }));
  Children prober(1, [&](int) {
    const pid_t rank = world.pid(0);
    become_nobody();
    EXPECT_EQ(open(fmt::format("/proc/{}/mem", rank).c_str(), O_RDWR), -1);
    for (int number = 0; number < 64; ++number)
      EXPECT_EQ(open(fmt::format("/proc/{}/fd/{}", rank, number).c_str(), O_RDWR), -1) << number;
  });
  expect_all_succeeded(prober.wait());
  signs[0].go = 1;
  expect_all_succeeded(world.wait());
}

}  // namespace
}  // namespace unisono::testing
