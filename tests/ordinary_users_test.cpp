// What ordinary users meet and tests run as root on a quiet machine do not: many ranks with few descriptors, standard descriptors
// that are closed, core dumps, limits on address space, neighbours who knock without end.
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/sizes.hpp"
#include "rendezvous/join.hpp"
#include "tests/support/losses.hpp"
#include "transport/local_socket.hpp"

namespace unisono::testing {
namespace {

constexpr uid_t nobody = 65534;

void become_nobody() {
  if (geteuid() != 0) return;
  ASSERT_EQ(setgroups(0, nullptr), 0);
  ASSERT_EQ(setresgid(nobody, nobody, nobody), 0);
  ASSERT_EQ(setresuid(nobody, nobody, nobody), 0);
}

void limit(int resource, rlim_t value) {
  rlimit limits = {value, value};
  ASSERT_EQ(setrlimit(static_cast<__rlimit_resource>(resource), &limits), 0);
}

// A folder that everybody may write to, removed at the end.
class OpenFolder {
 public:
  OpenFolder() {
    char name[] = "/tmp/unisono-test-XXXXXX";
    path_ = mkdtemp(name);
    std::filesystem::permissions(path_, std::filesystem::perms::all);
  }
  ~OpenFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The kernel lets a user have only so many descriptors on their way between processes as it may have open.
TEST(OrdinaryUsers, start_many_ranks_with_a_thousand_descriptors) {
  for (int size : small_run() ? std::vector{40} : std::vector{32, 128}) {
    SCOPED_TRACE(fmt::format("{} ranks", size));
    WorldChoice choice{.size = size};
    expect_all_succeeded(Children(size, [&](int rank) {
      limit(RLIMIT_NOFILE, 1024);
      become_nobody();
      as_rank(rank, choice, [&](TestWorld& world) {
        std::vector<int32_t> data = {rank};
        distributed::all_reduce(view(data), {.group = world.group()});
        EXPECT_EQ(data[0], size * (size - 1) / 2);
      });
    }).wait());
  }
}

int64_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all)) - 1;  // less the one that looks
}

// However many are left: all join, or all hear who lacks how many, at once. Rank 0 needs one to listen, one to keep and one for
// who comes; the others one to say it.
TEST(OrdinaryUsers, with_too_few_descriptors_on_one_rank_all_are_told_or_all_join) {
  constexpr int size = 4;
  for (int poor : {0, 2})
    for (int left = poor == 0 ? 3 : 1; left <= 40; left += small_run() ? 9 : 3) {
      SCOPED_TRACE(fmt::format("rank {} has {} descriptors left", poor, left));
      Outcomes outcomes(size);
      WorldChoice choice{.size = size};
      choice.settings.join_timeout_s = 5;
      expect_all_succeeded(Children(size, [&](int rank) {
        if (rank == poor) limit(RLIMIT_NOFILE, static_cast<rlim_t>(open_descriptors() + left));
        outcomes.note(rank, [&] {
          auto world = join_as(rank, size, choice.job, choice.settings);
          throw_if_error(world.status());
          (*world)->leave();
        });
      }).wait());
      const ErrorCode code = outcomes.of(poor).code;
      EXPECT_TRUE(code == ErrorCode::ok || code == ErrorCode::resource) << outcomes.of(poor).text();
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_EQ(outcomes.of(rank).code, code) << "rank " << rank << ": " << outcomes.of(rank).text();
        EXPECT_LT(outcomes.of(rank).took_s(), 2.0);
        if (code == ErrorCode::ok) continue;
        for (const std::string& word : {fmt::format("that rank {} has open", poor), std::string("ulimit -n")})
          EXPECT_NE(outcomes.of(rank).text().find(word), std::string::npos) << outcomes.of(rank).text();
      }
    }
}

// Whatever combination of standard descriptors is closed, none of ours gets its number, and what is written there comes to no harm.
TEST(OrdinaryUsers, who_close_standard_descriptors_lose_nothing) {
  for (int closed : {1, 2, 4, 7}) {
    SCOPED_TRACE(fmt::format("closed: {:03b}", closed));
    WorldChoice choice{.size = 2};
    choice.settings.log = "debug";
    expect_all_succeeded(Children(2, [&](int rank) {
      for (int number = 0; number < 3; ++number)
        if (closed & 1 << number) close(number);
      as_rank(rank, choice, [&](TestWorld& world) {
        for (int number = 0; number < 3; ++number)
          EXPECT_EQ(fcntl(number, F_GETFD) < 0, (closed & 1 << number) != 0) << number;
        const std::string line(4096, 'x');
        static_cast<void>(!write(2, line.data(), line.size()));
        expect_works(world);
        distributed::new_group({0, 1});
      });
    }).wait());
  }
}

int64_t core_bytes(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    struct stat about = {};
    if (entry.path().filename().string().starts_with("core") && stat(entry.path().c_str(), &about) == 0) return int64_t{about.st_blocks} * 512;
  }
  return -1;
}

TEST(OrdinaryUsers, who_keep_core_dumps_get_them_without_the_arenas_and_peers_hear_in_time) {
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  if (!pattern.starts_with("core")) GTEST_SKIP() << "cores go elsewhere: " << pattern;
  if (under_sanitizer()) GTEST_SKIP() << "the sanitizer takes the signal, and writes no core";
  OpenFolder folder;
  Outcomes outcomes(2);
  WorldChoice choice{.size = 2};
  SharedArray<Signs> signs(1);
  Children children(2, [&](int rank) {
    limit(RLIMIT_CORE, RLIM_INFINITY);
    std::filesystem::current_path(folder.path());
    as_rank(rank, choice, [&](TestWorld& world) {
      auto shared = world.world().share_memory(256_MiB);  // in everybody's address space, and in memory
      ASSERT_TRUE(shared.ok()) << shared.status().text();
      expect_works(world);
      signs[0].killed_ns = now_ns();
      if (rank == 1) raise(SIGSEGV);
      Scratch scratch;
      outcomes.note(rank, [&] { make_call(world.group(), scratch, {}); });
    });
  });
  const std::vector<Ending> endings = children.wait();
  EXPECT_TRUE(endings[1].killed_by(SIGSEGV));
  expect_lost(outcomes.of(0), {1});
  EXPECT_LT(seconds_between(signs[0].killed_ns, outcomes.of(0).ended_ns), 1.0);
  EXPECT_GT(core_bytes(folder.path()), 0) << "no core was written";
  EXPECT_LT(core_bytes(folder.path()), 100_MiB);
}

TEST(OrdinaryUsers, whose_address_space_is_limited_are_told_which_setting_to_lower) {
  if (under_sanitizer()) GTEST_SKIP() << "the sanitizer takes terabytes of address space";
  for (int poor : {0, 1}) {
    Outcomes outcomes(2);
    WorldChoice choice{.size = 2};
    expect_all_succeeded(Children(2, [&](int rank) {
      if (rank == poor) limit(RLIMIT_AS, static_cast<rlim_t>(1536_MiB));
      outcomes.note(rank, [&] { throw_if_error(join_as(rank, 2, choice.job, choice.settings).status()); });
    }).wait());
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(outcomes.of(rank).code, ErrorCode::resource) << outcomes.of(rank).text();
      EXPECT_NE(outcomes.of(rank).text().find("UNISONO_ARENA"), std::string::npos) << outcomes.of(rank).text();
      EXPECT_LT(outcomes.of(rank).took_s(), 3.0);
    }
  }
}

// Connects and closes as fast as it can until it is killed.
void flood(const std::string& place) {
  become_nobody();
  for (Deadline end = Deadline::in_seconds(60); !end.passed();) static_cast<void>(connect_to(place).ok());
}

TEST(OrdinaryUsers, are_not_kept_from_joining_or_from_hearing_of_deaths_by_neighbours_who_knock_without_end) {
  if (geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  constexpr int size = 4;
  WorldChoice choice{.size = size};
  Outcomes outcomes(size);
  SharedArray<Signs> signs(1);
  Children flooders(3, [&](int) { flood(meeting_place(choice.job)); });
  Children world(size, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      signs[0].ready += 1;
      if (rank == 2) await([] { return false; });
      Scratch scratch;
      outcomes.note(rank, [&] { make_call(world.group(), scratch, {}); });
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == size; }));
  world.await_asleep(0);
  const int64_t killed_ns = now_ns();
  world.kill(2);
  const std::vector<Ending> endings = world.wait();
  for (int rank : {0, 1, 3}) {
    expect_lost(outcomes.of(rank), {2});
    EXPECT_LT(seconds_between(killed_ns, outcomes.of(rank).ended_ns), 1.0) << rank;
  }
  const std::string& said = endings[0].output;
  size_t lines = 0;
  for (size_t at = said.find("refused"); at != std::string::npos; at = said.find("refused", at + 1)) ++lines;
  EXPECT_GE(lines, 1u) << said;
  EXPECT_LE(lines, 2u) << said.substr(0, 2000);  // one while joining, one by the thread that answers the door afterwards
}

// Rank 0 cannot let them in, and does not try all the time; when it can again, it answers.
TEST(OrdinaryUsers, who_run_out_of_descriptors_later_serve_the_door_without_haste) {
  WorldChoice choice{.size = 2};
  SharedArray<Signs> signs(1);
  Children world(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      if (rank == 1) return expect_works(world);
      rlimit before = {};
      ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
      const Descriptor next(dup(STDERR_FILENO));
      const rlimit none = {static_cast<rlim_t>(next.number()), before.rlim_max};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
      signs[0].ready = 1;
      EXPECT_TRUE(await([&] { return signs[0].ready == 2; }));  // they knock now
      const clock_t cpu = clock();
      const Deadline measured = Deadline::in_seconds(1);
      await([&] { return measured.passed(); });
      EXPECT_LT(clock() - cpu, CLOCKS_PER_SEC / 10);
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
      signs[0].ready = 3;
      EXPECT_TRUE(await([&] { return signs[0].ready == 4; }));
      expect_works(world);
    });
  });
  EXPECT_TRUE(await([&] { return signs[0].ready == 1; }));
  std::vector<Descriptor> visitors;
  for (int index = 0; index < 20; ++index)
    if (auto visitor = connect_to(meeting_place(choice.job)); visitor.ok()) visitors.push_back(std::move(visitor->socket));
  signs[0].ready = 2;
  EXPECT_TRUE(await([&] { return signs[0].ready == 3; }));
  auto second = join_as(1, 2, choice.job, choice.settings);
  EXPECT_EQ(second.status().code(), ErrorCode::init) << second.status().text();
  EXPECT_NE(second.status().message().find("already running"), std::string::npos) << second.status().text();
  signs[0].ready = 4;
  expect_all_succeeded(world.wait());
}

TEST(OrdinaryUsers, who_call_exec_are_noticed) {
  Outcomes outcomes(2);
  WorldChoice choice{.size = 2};
  SharedArray<Signs> signs(1);
  Children children(2, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      signs[0].killed_ns = now_ns();
      if (rank == 1) execl("/bin/sleep", "sleep", "20", nullptr);
      Scratch scratch;
      outcomes.note(rank, [&] { make_call(world.group(), scratch, {}); });
    });
  });
  EXPECT_TRUE(await([&] { return outcomes.of(0).was_made(); }));
  children.kill(1);
  children.wait();
  EXPECT_EQ(outcomes.of(0).code, ErrorCode::peer_lost) << outcomes.of(0).text();
  EXPECT_NE(outcomes.of(0).text().find("replaced its program by another (exec)"), std::string::npos) << outcomes.of(0).text();
  EXPECT_LT(seconds_between(signs[0].killed_ns, outcomes.of(0).ended_ns), 1.0);
}

// The parent, this test, has not reaped it: as under a launcher.
TEST(OrdinaryUsers, are_told_which_signal_killed_a_rank) {
  for (int signal : {SIGKILL, SIGTERM, SIGABRT}) {
    Outcomes outcomes(2);
    WorldChoice choice{.size = 2};
    Children children(2, [&](int rank) {
      as_rank(rank, choice, [&](TestWorld& world) {
        expect_works(world);
        if (rank == 1) raise(signal);
        Scratch scratch;
        outcomes.note(rank, [&] { make_call(world.group(), scratch, {}); });
      });
    });
    children.wait();
    EXPECT_NE(outcomes.of(0).text().find(fmt::format("was killed by signal {}", signal)), std::string::npos) << outcomes.of(0).text();
  }
}

TEST(NewGroup, with_a_rank_that_has_left_is_refused_at_once) {
  Outcomes outcomes(3);
  WorldChoice choice{.size = 3};
  SharedArray<Signs> signs(1);
  expect_all_succeeded(Children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      if (rank == 2) {
        world.world().leave();
        signs[0].ready = 1;
        EXPECT_TRUE(await([&] { return signs[0].rounds == 2; }));  // the process lives on
        return;
      }
      EXPECT_TRUE(await([&] { return signs[0].ready == 1; }));
      outcomes.note(rank, [&] { distributed::new_group({0, 1, 2}); });
      distributed::new_group({0, 1});
      signs[0].rounds += 1;
    });
  }).wait());
  for (int rank : {0, 1}) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::peer_lost) << outcomes.of(rank).text();
    EXPECT_EQ(outcomes.of(rank).peer, 2) << outcomes.of(rank).text();
    EXPECT_LT(outcomes.of(rank).took_s(), 1.0);
  }
}

}  // namespace
}  // namespace unisono::testing
