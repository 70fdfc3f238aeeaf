// FileStore among processes, and what becomes of it when writers die, files are foreign, damaged, full or gone.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "base/hash.hpp"
#include "tests/support/children.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_tree.hpp"
#include "unisono/store.hpp"

namespace unisono::testing {
namespace {

using distributed::FileStore;

constexpr size_t head_bytes = 32;

class FileStores : public ::testing::Test {
 protected:
  std::string contents() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void replace(const std::string& bytes, mode_t mode = 0600) const {
    std::filesystem::remove_all(path_);
    std::ofstream(path_, std::ios::binary) << bytes;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
  }
  bool is_there() const { return std::filesystem::exists(std::filesystem::symlink_status(path_)); }

  // The file is named, too.
  template <typename ErrorType>
  void expect_error(std::vector<std::string> words, const std::function<void()>& call) const {
    words.push_back(path_);
    testing::expect_error<ErrorType>(words, call);
  }

  // Keeps the file locked until the call has opened it and waits for the lock; then removes it, as the last user would.
  void remove_under(const std::function<void()>& call) const {
    Descriptor keeper(open(path_.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(flock(keeper.number(), LOCK_EX), 0);
    std::thread caller(call);
    EXPECT_TRUE(await([&] { return open_descriptors() == 2; }));
    std::filesystem::remove(path_);
    keeper.reset();
    caller.join();
  }
  int open_descriptors() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // a descriptor may be closed while we look
      count += std::filesystem::read_symlink(entry, gone) == path_;
    }
    return count;
  }

  // A store with a few keys, of which the last two were set as one; nobody holds it.
  std::string written() const {
    std::filesystem::remove(path_);
    FileStore store(path_);
    store.set("a", "first");
    store.append("a", " and more");
    store.set("gone", "soon");
    store.delete_key("gone");
    store.multi_set({"left", "right"}, {"1", "2"});
    return contents();
  }

  FileTree tree_{{}};
  const std::string path_ = tree_.root() + "store";
};

TEST_F(FileStores, processes_add_to_the_exact_sum) {
  constexpr int count = 4, rounds = 200;
  expect_all_succeeded(Children(count, [&](int index) {
    FileStore store(path_, count);
    for (int round = 0; round < rounds; ++round) store.add("sum", index + 1);
    store.add("done", 1);
    EXPECT_TRUE(await([&] { return store.get("done") == std::to_string(count); }));
    EXPECT_EQ(store.get("sum"), std::to_string(rounds * (1 + 2 + 3 + 4)));
  }).wait());
  EXPECT_FALSE(is_there());
}

TEST_F(FileStores, a_process_waits_for_what_another_sets) {
  FileStore store(path_);
  Children children(1, [&](int) {
    FileStore mine(path_);
    EXPECT_EQ(mine.get("late"), "now");
    mine.set("answer", "seen");
  });
  children.await_asleep(0);
  store.set("late", "now");
  EXPECT_EQ(store.get("answer"), "seen");
  expect_all_succeeded(children.wait());
}

// A child that was forked from a user has a lock of its own, but is not counted.
TEST_F(FileStores, forked_children_use_the_store_of_their_parent) {
  auto store = std::make_unique<FileStore>(path_, 1);
  store->set("before", "1");
  expect_all_succeeded(Children(3, [&](int) {
    EXPECT_EQ(store->get("before"), "1");
    for (int round = 0; round < 100; ++round) store->add("sum", 1);
    store.reset();
  }).wait());
  EXPECT_TRUE(is_there());
  EXPECT_EQ(store->add("sum", 0), 300);
  store.reset();
  EXPECT_FALSE(is_there());
}

TEST_F(FileStores, the_last_user_removes_the_file) {
  auto first = std::make_unique<FileStore>(path_, 2);
  first->set("a", "1");
  first.reset();  // before the second has come
  EXPECT_TRUE(is_there());
  auto second = std::make_unique<FileStore>(path_, 2);
  EXPECT_EQ(second->get("a"), "1");
  auto third = std::make_unique<FileStore>(path_, 2);
  second.reset();  // two have finished, but a third is there
  EXPECT_TRUE(is_there());
  third.reset();
  EXPECT_FALSE(is_there());
  FileStore(path_, -1).set("a", "1");
  EXPECT_TRUE(is_there());
}

TEST_F(FileStores, a_store_is_made_anew_while_others_remove_it) {
  expect_all_succeeded(Children(4, [&](int index) {
    for (int round = 0; round < 50; ++round) {
      FileStore store(path_, 1);
      store.set(std::to_string(index), "1");
    }
  }).wait());
  EXPECT_FALSE(is_there());
}

TEST_F(FileStores, a_file_removed_before_it_was_locked_is_made_anew) {
  written();
  std::unique_ptr<FileStore> store;
  remove_under([&] { store = std::make_unique<FileStore>(path_); });
  EXPECT_FALSE(store->check({"a"}));
  store->set("a", "anew");
  EXPECT_EQ(FileStore(path_).get("a"), "anew");
}

TEST_F(FileStores, a_file_removed_before_it_was_locked_is_lost_to_its_users) {
  FileStore store(path_);
  remove_under([&] { expect_error<StoreLostError>({"removed while this process used it"}, [&] { store.set("a", "1"); }); });
}

TEST_F(FileStores, the_file_is_for_its_user_only) {
  replace("", 0666);  // an empty file of ours becomes a store
  FileStore store(path_);
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms(0600));
  const mode_t before = umask(0);
  FileStore other(path_ + "2");
  umask(before);
  EXPECT_EQ(std::filesystem::status(path_ + "2").permissions(), std::filesystem::perms(0600));
}

TEST_F(FileStores, a_path_that_changes_its_meaning_is_no_matter) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(tree_.root());
  FileStore store("store");
  std::filesystem::current_path(before);
  store.set("a", "1");
  EXPECT_EQ(store.path(), path_);
  EXPECT_EQ(FileStore(path_).get("a"), "1");
}

// The kernel writes up to the limit and kills at the next byte: a writer that dies in the middle of its record.
TEST_F(FileStores, a_writer_killed_in_the_middle_leaves_nothing) {
  FileStore store(path_);
  store.set("before", "1");
  for (rlim_t written : {1, 23, 24, 30, 5000}) {
    const size_t size = contents().size();
    Children children(1, [&](int) {
      const rlimit no_core = {0, 0}, limit = {size + written, size + written};
      setrlimit(RLIMIT_CORE, &no_core);
      signal(SIGXFSZ, SIG_DFL);
      EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
      store.set("torn", std::string(10'000, 'x'));
    });
    EXPECT_TRUE(children.wait()[0].killed_by(SIGXFSZ)) << children.output(0);
    EXPECT_EQ(contents().size(), size + written);
    EXPECT_FALSE(store.check({"torn"}));
    EXPECT_EQ(store.get("before"), "1");
    store.set("after", std::to_string(written));  // shorter than what was torn, or longer
    EXPECT_FALSE(store.check({"torn"}));
    FileStore fresh(path_);
    EXPECT_EQ(fresh.multi_get({"before", "after"}), (std::vector<std::string>{"1", std::to_string(written)}));
    EXPECT_FALSE(fresh.check({"torn"}));
  }
}

// However much of the end is lost, what is before it stands, what was set as one is there or not as one, and work goes on.
TEST_F(FileStores, a_file_cut_off_anywhere_is_what_was_written_before) {
  const std::string whole = written();
  for (size_t length = 0; length <= whole.size(); ++length) {
    SCOPED_TRACE(length);
    replace(whole.substr(0, length));
    {
      FileStore store(path_);
      EXPECT_EQ(store.check({"left"}), store.check({"right"}));
      if (store.check({"a"})) { EXPECT_TRUE(store.get("a") == "first" || store.get("a") == "first and more") << store.get("a"); }
      store.set("new", "3");
    }
    EXPECT_EQ(FileStore(path_).get("new"), "3");
  }
  EXPECT_EQ(FileStore(path_).multi_get({"a", "left", "right"}), (std::vector<std::string>{"first and more", "1", "2"}));
}

// Lengths are among these bytes: none of them may be believed.
TEST_F(FileStores, any_damaged_byte_is_found) {
  const std::string whole = written();
  for (size_t index = 0; index < whole.size(); ++index) {
    SCOPED_TRACE(index);
    for (char change : {'\x01', '\x80', '\xff'}) {
      std::string damaged = whole;
      damaged[index] = static_cast<char>(damaged[index] ^ change);
      replace(damaged);
      if (index < 8) {
        expect_error<ArgumentError>({"not a file of FileStore"}, [&] { FileStore store(path_); });
      } else if (index < 12) {
        expect_error<VersionError>({"format 1"}, [&] { FileStore store(path_); });
      } else {
        expect_error<CorruptionError>({"at byte", "damaged"}, [&] { FileStore store(path_); });
      }
      EXPECT_EQ(contents(), damaged);
    }
  }
}

// A frame whose hashes are right, as a program with a bug might write it.
TEST_F(FileStores, lengths_inside_a_frame_are_not_believed_either) {
  const std::string whole = written();
  auto bytes_of = [](auto... numbers) {
    std::string bytes;
    (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
    return bytes;
  };
  uint64_t identity = 0;
  std::memcpy(&identity, whole.data() + 16, sizeof(identity));
  const std::string wrong[] = {
      std::string(15, 'x'),                                      // less than the head of an edit
      bytes_of(1u, 5u, uint64_t{0}) + "abcd",                    // a key that is longer than the frame
      bytes_of(1u, 1u, uint64_t{4}) + "abcd",                    // a value that is
      bytes_of(1u, 4u, ~uint64_t{0} - 3) + "abcd",               // both together are less than nothing
      bytes_of(0u, 1u, uint64_t{1}) + "ab", bytes_of(5u, 1u, uint64_t{1}) + "ab",  // of no kind
      bytes_of(4u, 0u, uint64_t{15}) + std::string(15, '\0'),    // counts of users that are cut off
  };
  for (const std::string& edits : wrong) {
    const std::string lengths = bytes_of(uint64_t{edits.size()}, hash_text(edits));
    replace(whole + lengths + bytes_of(hash_bytes(lengths.data(), lengths.size(), hash_combine(identity, whole.size()))) + edits);
    expect_error<CorruptionError>({fmt::format("at byte {} an edit", whole.size())}, [&] { FileStore store(path_); });
  }
}

TEST_F(FileStores, damage_is_found_by_who_has_the_file_open) {
  FileStore store(path_);
  store.set("a", "1");
  const size_t size = contents().size();
  std::filesystem::resize_file(path_, size + 100);  // of zeros
  expect_error<CorruptionError>({fmt::format("at byte {}", size)}, [&] { store.check({"a"}); });
  expect_error<CorruptionError>({"damaged"}, [&] { store.set("a", "2"); });
  expect_error<CorruptionError>({"damaged"}, [&] { store.get("b"); });
  std::filesystem::resize_file(path_, size);
  EXPECT_EQ(store.get("a"), "1");
}

TEST_F(FileStores, a_file_that_is_no_store_is_refused_and_left_alone) {
  for (const std::string& text : {std::string("x"), std::string("unisono"), std::string("a text of some length, which is longer than the head"),
                                  std::string(head_bytes, '\0')}) {
    replace(text);
    expect_error<ArgumentError>({"not a file of FileStore"}, [&] { FileStore store(path_); });
    EXPECT_EQ(contents(), text);
  }
  replace("");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  expect_error<ArgumentError>({"is a directory"}, [&] { FileStore store(path_); });
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(tree_.root() + "elsewhere", path_);
  expect_error<ArgumentError>({"symbolic link"}, [&] { FileStore store(path_); });
  std::filesystem::remove(path_);
  EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_error<ArgumentError>({"not a plain file"}, [&] { FileStore store(path_); });
  EXPECT_THROW(FileStore(""), ArgumentError);
  EXPECT_THROW(FileStore(path_, 0), ArgumentError);
}

TEST_F(FileStores, a_file_that_cannot_be_opened_is_lost) {
  const std::string inside = path_ + "/no/such/directory";
  expect_error<StoreLostError>({inside, "No such file or directory"}, [&] { FileStore store(inside); });
}

TEST_F(FileStores, a_store_that_is_open_to_others_is_refused) {
  const std::string whole = written();
  for (mode_t mode : {0604, 0620, 0666}) {
    replace(whole, mode);
    expect_error<AuthError>({"open to others", fmt::format("{:o}", mode), "chmod 600"}, [&] { FileStore store(path_); });
  }
}

TEST_F(FileStores, a_file_of_another_user_is_refused) {
  if (geteuid() != 0) GTEST_SKIP() << "giving a file away needs root";
  for (const std::string& bytes : {std::string(), written()}) {
    replace(bytes);
    EXPECT_EQ(chown(path_.c_str(), 1, 1), 0);
    expect_error<AuthError>({"another user", "uid 1"}, [&] { FileStore store(path_); });
    EXPECT_EQ(contents(), bytes);
  }
}

TEST_F(FileStores, a_file_that_vanishes_is_lost) {
  FileStore store(path_);
  store.set("a", "1");
  std::filesystem::remove(path_);
  expect_error<StoreLostError>({"No such file or directory"}, [&] { store.set("a", "2"); });
  expect_error<StoreLostError>({"No such file or directory"}, [&] { store.get("a"); });
  FileStore other(path_);
  expect_error<StoreLostError>({"another file has taken the place"}, [&] { store.get("a"); });
  expect_error<StoreLostError>({"another file has taken the place"}, [&] { store.add("a", 1); });
  EXPECT_FALSE(other.check({"a"}));
}

TEST_F(FileStores, a_file_that_is_emptied_or_shortened_is_lost) {
  FileStore store(path_);
  store.set("a", "1");
  std::filesystem::resize_file(path_, contents().size() - 1);
  for (int again = 0; again < 2; ++again)  // what it has lost it does not forget to have had
    expect_error<StoreLostError>({"became shorter"}, [&] { store.check({"a"}); });
  std::filesystem::resize_file(path_, 0);
  expect_error<StoreLostError>({"emptied"}, [&] { store.set("a", "2"); });
}

TEST_F(FileStores, who_waits_is_told_that_the_file_vanished) {
  FileStore store(path_);
  std::atomic<pid_t> inside{0};
  std::thread waiter([&] {
    inside = gettid();
    expect_error<StoreLostError>({"No such file or directory"}, [&] { store.get("never"); });
  });
  EXPECT_TRUE(await([&] { return inside != 0; }) && await_asleep(getpid(), inside));
  std::filesystem::remove(path_);
  waiter.join();
}

TEST_F(FileStores, a_full_disk_is_an_error_and_no_damage) {
  FileStore store(path_);
  store.set("a", "1");
  const std::string before = contents();
  expect_all_succeeded(Children(1, [&](int) {
    rlimit limit = {};
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlimit tight = {before.size() + 100, limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
    expect_error<StoreLostError>({"writing it failed", "File too large"}, [&] { store.set("b", std::string(1000, 'x')); });
    EXPECT_EQ(contents(), before);
    EXPECT_FALSE(store.check({"b"}));
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    store.set("b", "2");
  }).wait());
  EXPECT_EQ(store.multi_get({"a", "b"}), (std::vector<std::string>{"1", "2"}));
}

// As a process would that was stopped in the middle.
TEST_F(FileStores, who_keeps_the_lock_does_not_stop_the_others_for_ever) {
  FileStore store(path_);
  store.set("a", "1");
  store.set_timeout(0.05);
  Descriptor keeper(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(flock(keeper.number(), LOCK_EX), 0);
  expect_error<TimeoutError>({"keeps the file locked"}, [&] { store.set("a", "2"); });
  expect_error<TimeoutError>({"\"b\"", "keeps the file locked"}, [&] { store.get("b"); });
  keeper.reset();
  store.set("a", "2");
  EXPECT_EQ(store.get("a"), "2");
}

}  // namespace
}  // namespace unisono::testing
