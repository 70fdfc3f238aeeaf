// Joining by a file that all ranks name, and through a store.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "dialects/default_world.hpp"
#include "group/launch.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_tree.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/store.hpp"

namespace unisono::testing {
namespace {

using distributed::FileStore;
using distributed::HashStore;
using distributed::InitOptions;
using distributed::PrefixStore;
using distributed::Store;

// Joins, sums what every rank gives, and leaves.
void meet_and_sum(const InitOptions& options, int64_t mine, int64_t sum) {
  distributed::init_process_group(options);
  EXPECT_EQ(distributed::get_rank(), *options.rank);
  EXPECT_EQ(distributed::get_world_size(), *options.world_size);
  std::vector<int64_t> data = {mine};
  distributed::all_reduce(view(data));
  EXPECT_EQ(data[0], sum);
  distributed::destroy_process_group();
}

// Ranks as threads, each with a World of its own.
void as_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) threads.emplace_back([&, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

Result<std::shared_ptr<World>> launch_by(const std::shared_ptr<Store>& store, int rank, int size, double timeout_s = 60) {
  return launch({.rank = rank, .size = size, .job = {}, .timeout_s = timeout_s, .store = store}, {});
}

// The name of the job that was joined, or why it was not.
std::string join_and_sum(const std::shared_ptr<Store>& store, int rank, int size) {
  auto world = launch_by(store, rank, size);
  EXPECT_TRUE(world.ok()) << world.status().text();
  if (!world.ok()) return world.status().text();
  SpeakAs speak(*world);
  expect_works(TestWorld(*world, true));
  (*world)->leave();
  return (*world)->options().job;
}

class JoinProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  }
  std::string path(const std::string& name) const { return tree_.root() + name; }
  std::string method(const std::string& name) const { return "file://" + path(name); }

  FileTree tree_{{}};
};

TEST_F(JoinProcesses, ranks_that_name_the_same_file_meet_again_and_again) {
  expect_all_succeeded(Children(3, [&](int rank) {
    for (int round = 0; round < 5; ++round)
      meet_and_sum({.rank = rank, .world_size = 3, .init_method = method("job")}, rank + 1, 6);
  }).wait());
  EXPECT_EQ(std::filesystem::status(path("job")).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(std::filesystem::file_size(path("job")), 0u);
}

TEST_F(JoinProcesses, it_is_the_file_that_counts_and_not_its_name) {
  std::ofstream(path("job")) << "any file will do";
  std::filesystem::create_hard_link(path("job"), path("link"));
  expect_all_succeeded(Children(2, [&](int rank) {
    meet_and_sum({.rank = rank, .world_size = 2, .init_method = method(rank == 0 ? "job" : "link")}, rank + 1, 3);
  }).wait());
}

TEST_F(JoinProcesses, ranks_of_two_files_or_of_two_jobs_do_not_meet) {
  expect_all_succeeded(Children(6, [&](int index) {
    const int job = index % 3;
    meet_and_sum({.rank = index / 3, .world_size = 2, .job = job == 2 ? "another" : "", .init_method = method(job == 0 ? "left" : "right")},
                 job, 2 * job);
  }).wait());
}

// What a deleted file leaves free, its inode, goes to the next that is made, on many file systems: two jobs would be one.
TEST_F(JoinProcesses, a_file_that_takes_the_place_of_a_deleted_one_is_another_job) {
  const auto inode_of = [](const std::string& file) {
    std::ofstream(file).close();
    struct stat about = {};
    EXPECT_EQ(stat(file.c_str(), &about), 0);
    return about.st_ino;
  };
  const ino_t before = inode_of(path("probe"));
  std::filesystem::remove(path("probe"));
  bool are_reused = false;
  for (int made = 0; made < 100; ++made) are_reused |= inode_of(path(fmt::format("probe {}", made))) == before;
  if (!are_reused) GTEST_SKIP() << "the file system of " << tree_.root() << " does not use inodes again at once";

  const auto join = [&](const std::string& name) {
    return launch({.rank = 0, .size = 1, .job = {}, .timeout_s = 60, .init_method = method(name)}, {});
  };
  auto first = join("job");
  ASSERT_TRUE(first.ok()) << first.status().text();
  std::filesystem::remove(path("job"));
  for (int made = 0; made < 20; ++made) {
    auto other = join(fmt::format("job {}", made % 10));
    ASSERT_TRUE(other.ok()) << other.status().text();
    EXPECT_NE((*other)->options().job, (*first)->options().job);
    (*other)->leave();
    std::filesystem::remove(path(fmt::format("job {}", made % 10)));
  }
}

TEST_F(JoinProcesses, whoever_has_left_has_let_go_of_the_file) {
  const auto open_files = [&] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      count += std::filesystem::read_symlink(entry, gone) == path("job");
    }
    return count;
  };
  for (int size : {1, 2}) {  // joined, and in vain
    auto world = launch({.rank = 0, .size = size, .job = {}, .timeout_s = 0.05, .init_method = method("job")}, {});
    EXPECT_EQ(world.ok(), size == 1);
    EXPECT_EQ(open_files(), size == 1 ? 1 : 0);
    if (world.ok()) (*world)->leave();
    EXPECT_EQ(open_files(), 0);
  }
}

TEST_F(JoinProcesses, ranks_meet_through_a_store_again_and_again) {
  expect_all_succeeded(Children(3, [&](int rank) {
    auto store = std::make_shared<FileStore>(path("store"), 3);
    for (int round = 0; round < 5; ++round) meet_and_sum({.rank = rank, .world_size = 3, .store = store}, rank + round, 3 + 3 * round);
    store->set(std::to_string(rank), "");
    store->wait({"0", "1", "2"});
    EXPECT_EQ(store->num_keys(), 6);  // three counts, and those just set: no names of worlds that were
  }).wait());
  EXPECT_FALSE(std::filesystem::exists(path("store")));
}

TEST_F(JoinProcesses, a_store_opened_anew_goes_on_counting) {
  FileStore keeper(path("store"));
  for (int round = 0; round < 3; ++round)
    expect_all_succeeded(Children(2, [&](int rank) {
      meet_and_sum({.rank = rank, .world_size = 2, .store = std::make_shared<FileStore>(path("store"))}, rank, 1);
    }).wait());
  EXPECT_EQ(keeper.get("unisono/worlds_joined/1"), "3");
}

TEST_F(JoinProcesses, prefixes_of_one_store_are_worlds_of_their_own) {
  expect_all_succeeded(Children(4, [&](int index) {
    const int job = index % 2;
    auto store = std::make_shared<PrefixStore>(job == 0 ? "left" : "right", std::make_shared<FileStore>(path("store"), 4));
    meet_and_sum({.rank = index / 2, .world_size = 2, .store = store}, job, 2 * job);
  }).wait());
}

TEST_F(JoinProcesses, a_world_goes_on_when_the_store_is_gone) {
  expect_all_succeeded(Children(2, [&](int rank) {
    auto store = std::make_shared<FileStore>(path("store"));
    distributed::init_process_group({.rank = rank, .world_size = 2, .store = store});
    distributed::barrier();
    if (rank == 0) std::filesystem::remove(path("store"));
    distributed::barrier();
    expect_error<StoreLostError>({path("store")}, [&] { store->get("a"); });
    std::vector<int64_t> data = {1};
    distributed::all_reduce(view(data));
    EXPECT_EQ(data[0], 2);
    distributed::destroy_process_group();
    expect_error<StoreLostError>({path("store")}, [&] { distributed::init_process_group({.rank = rank, .world_size = 2, .store = store}); });
  }).wait());
}

TEST_F(JoinProcesses, files_that_cannot_serve_are_named) {
  auto join = [](const std::string& method) { distributed::init_process_group({.rank = 0, .world_size = 1, .init_method = method}); };
  expect_error<StoreLostError>({path("no/file"), "No such file or directory"}, [&] { join(method("no/file")); });
  expect_error<ArgumentError>({"is a directory"}, [&] { join("file://" + tree_.root()); });
  if (geteuid() == 0) {
    std::ofstream(path("theirs")) << "";
    EXPECT_EQ(chown(path("theirs").c_str(), 1, 1), 0);
    expect_error<AuthError>({path("theirs"), "another user"}, [&] { join(method("theirs")); });
  }
  EXPECT_FALSE(distributed::is_initialized());
}

TEST(JoinStore, ways_to_meet_that_are_none_are_refused) {
  auto store = std::make_shared<HashStore>();
  using distributed::init_process_group;
  expect_error<ArgumentError>({"tcp://host:port"}, [] { init_process_group({.rank = 0, .world_size = 1, .init_method = "tcp://"}); });
  for (const char* place : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", ":29500"})
    expect_error<ArgumentError>({fmt::format("\"{}\"", place), "host:port"},
                                [&] { init_process_group({.rank = 0, .world_size = 1, .init_method = fmt::format("tcp://{}", place)}); });
  expect_error<ArgumentError>({"tcp://127.0.0.1:29500", "rank and world_size"}, [] { init_process_group({.init_method = "tcp://127.0.0.1:29500"}); });
  for (const char* method : {"http://a", "file:/tmp/a", "/tmp/a", "env:", "ENV://"})
    expect_error<ArgumentError>({fmt::format("\"{}\"", method), "env://", "file:///path", "store="},
                                [&] { init_process_group({.rank = 0, .world_size = 1, .init_method = method}); });
  for (const char* method : {"file://", "file://relative/path"})
    expect_error<ArgumentError>({"whole path"}, [&] { init_process_group({.rank = 0, .world_size = 1, .init_method = method}); });
  expect_error<ArgumentError>({"file:///tmp/a", "rank and world_size"}, [] { init_process_group({.init_method = "file:///tmp/a"}); });
  expect_error<ArgumentError>({"store", "rank and world_size"}, [&] { init_process_group({.store = store}); });
  expect_error<ArgumentError>({"give both or neither"}, [&] { init_process_group({.rank = 0, .store = store}); });
  expect_error<ArgumentError>({"env://", "two ways"},
                              [&] { init_process_group({.rank = 0, .world_size = 1, .init_method = "env://", .store = store}); });
  expect_error<InitError>({"rank 2 is out of range: the world has 2 ranks"}, [&] { init_process_group({.rank = 2, .world_size = 2, .store = store}); });
  EXPECT_EQ(store->num_keys(), 0);
  EXPECT_FALSE(distributed::is_initialized());
}

TEST(JoinStore, every_world_of_a_store_has_another_name) {
  constexpr int size = 3, rounds = 3;
  auto store = std::make_shared<HashStore>();
  std::vector<std::vector<std::string>> names(size, std::vector<std::string>(rounds));
  as_threads(size, [&](int rank) {
    for (std::string& name : names[static_cast<size_t>(rank)]) name = join_and_sum(store, rank, size);
  });
  for (int rank = 1; rank < size; ++rank) EXPECT_EQ(names[static_cast<size_t>(rank)], names[0]);
  EXPECT_NE(names[0][0], names[0][1]);
  EXPECT_NE(names[0][1], names[0][2]);
}

// Rank 0 is held back behind its first world until the other rank has asked for the name of the second.
class SlowHost : public HashStore {
 public:
  Result<std::vector<distributed::StoreAnswer>> perform(const std::vector<distributed::StoreRequest>& requests) override {
    if (requests.back().kind == distributed::StoreRequest::Kind::delete_key) { EXPECT_TRUE(await([&] { return worlds_asked_for_ >= 2; })); }
    return HashStore::perform(requests);
  }
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) override {
    if (check(keys)) {
      auto values = HashStore::await_values(keys, timeout_s);
      ++worlds_asked_for_;
      return values;
    }
    ++worlds_asked_for_;
    return HashStore::await_values(keys, timeout_s);
  }

 private:
  std::atomic<int> worlds_asked_for_{0};
};

TEST(JoinStore, a_rank_that_is_quick_to_come_again_does_not_take_the_old_name) {
  auto store = std::make_shared<SlowHost>();
  as_threads(2, [&](int rank) {
    auto first = launch_by(store, rank, 2);
    ASSERT_TRUE(first.ok()) << first.status().text();
    (*first)->leave();
    join_and_sum(store, rank, 2);
  });
}

// Who tries in vain, or alone, is not a world ahead of the others afterwards.
TEST(JoinStore, a_join_that_failed_may_be_repeated) {
  auto store = std::make_shared<HashStore>();
  auto guest = launch_by(store, 1, 2, 0.05);
  ASSERT_FALSE(guest.ok());
  EXPECT_EQ(guest.status().code(), ErrorCode::init);
  EXPECT_NE(guest.status().text().find("rank 1 of 2 waited 0.05 s for rank 0 to name world 1"), std::string::npos) << guest.status().text();
  for (int again = 0; again < 2; ++again) {
    auto host = launch_by(store, 0, 2, 0.05);
    ASSERT_FALSE(host.ok());
    EXPECT_NE(host.status().text().find("missing: 1"), std::string::npos) << host.status().text();
  }
  as_threads(2, [&](int rank) { join_and_sum(store, rank, 2); });
  as_threads(2, [&](int rank) { join_and_sum(store, rank, 2); });
}

// However the ranks meet: two come of three, and give up at the deadline of the program and not at that of the settings.
TEST(JoinStore, the_deadline_of_the_program_is_that_of_joining_too) {
  FileTree tree{{}};
  const LaunchRequest ways[] = {{.job = unique_job(), .timeout_s = 0.2},
                                {.timeout_s = 0.2, .init_method = "file://" + tree.root() + "job"},
                                {.timeout_s = 0.2, .store = std::make_shared<HashStore>()}};
  for (const LaunchRequest& way : ways) {
    const int64_t begun_ns = now_ns();
    as_threads(2, [&](int index) {
      LaunchRequest request = way;
      request.rank = index * 2;
      request.size = 3;
      auto world = launch(request, {{"UNISONO_JOIN_TIMEOUT", "40"}});
      ASSERT_FALSE(world.ok());
      EXPECT_EQ(world.status().code(), ErrorCode::init);
      const std::string text = world.status().text();
      EXPECT_TRUE(text.find("missing: 1") != std::string::npos || index == 1) << text;
    });
    EXPECT_LT(now_ns() - begun_ns, 20'000'000'000);
  }
}

TEST(JoinStore, the_deadline_of_the_settings_is_that_of_joining_where_the_program_gives_none) {
  const Environment environment = {{"UNISONO_TIMEOUT", "50"}, {"UNISONO_JOIN_TIMEOUT", "40"}};
  for (const std::optional<double> timeout_s : {std::optional<double>{}, std::optional<double>{30}}) {
    auto world = launch({.rank = 0, .size = 1, .job = unique_job(), .timeout_s = timeout_s}, environment);
    ASSERT_TRUE(world.ok()) << world.status().text();
    EXPECT_EQ((*world)->settings().join_timeout_s, timeout_s.value_or(40));
    EXPECT_EQ((*world)->settings().timeout_s, timeout_s.value_or(50));
    (*world)->leave();
  }
  auto alone = launch({.rank = 0, .size = 2, .job = unique_job()}, {{"UNISONO_JOIN_TIMEOUT", "0.1"}});
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.status().text().find("missing: 1"), std::string::npos) << alone.status().text();
}

// Somebody holds the lock, and the store would wait five minutes for it.
TEST(JoinStore, a_store_that_does_not_answer_is_not_waited_for_beyond_the_deadline_of_joining) {
  FileTree tree{{}};
  auto store = std::make_shared<FileStore>(tree.root() + "store");
  const Descriptor locked(open(store->path().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(locked.number(), LOCK_EX), 0);
  const int64_t begun_ns = now_ns();
  auto world = launch_by(store, 0, 2, 1);
  EXPECT_LT(static_cast<double>(now_ns() - begun_ns) * 1e-9, 2);
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().code(), ErrorCode::init) << world.status().text();
  EXPECT_NE(world.status().text().find("waited 1 s for the store"), std::string::npos) << world.status().text();
  ASSERT_EQ(flock(locked.number(), LOCK_UN), 0);
}

TEST(JoinStore, a_lost_store_is_said_to_be_lost) {
  FileTree tree{{}};
  auto store = std::make_shared<FileStore>(tree.root() + "store");
  std::filesystem::remove(store->path());
  for (int rank : {0, 1}) {
    auto world = launch_by(store, rank, 2);
    ASSERT_FALSE(world.ok());
    EXPECT_EQ(world.status().code(), ErrorCode::store_lost) << world.status().text();
  }
}

}  // namespace
}  // namespace unisono::testing
