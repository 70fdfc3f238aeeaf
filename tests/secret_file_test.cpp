// Files with job secrets: whose are trusted, what else is refused, where a user's own is, and how one is made. See secret_test.cpp.
#include "trust/secret_file.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/children.hpp"
#include "tests/support/file_tree.hpp"
#include "tests/support/secrets.hpp"

namespace unisono::testing {
namespace {

using Files = std::map<std::string, std::string>;

constexpr uid_t nobody = 65534, somebody = 65533;

void become(uid_t user, gid_t group) {
  ASSERT_EQ(setgroups(0, nullptr), 0);
  ASSERT_EQ(setresgid(group, group, group), 0);
  ASSERT_EQ(setresuid(user, user, user), 0);
}

// A folder that everybody may look into, with a secret in it.
class OpenTree : public FileTree {
 public:
  OpenTree() : FileTree({}) {
    chmod(root().c_str(), 0777);
    put_secret(path(), canary + "\n");
  }
  std::string path() const { return root() + "secret"; }
  void give(uid_t owner, gid_t group, mode_t mode) const {
    EXPECT_EQ(chown(path().c_str(), owner, group), 0);
    EXPECT_EQ(chmod(path().c_str(), mode), 0);
  }
};

Result<std::optional<Secret>> read_named(const std::string& path) { return read_secret_file(path, "the file", IfNoSecret::fail); }

void expect_trusted(const std::string& path) {
  const auto secret = read_named(path);
  ASSERT_TRUE(secret.ok()) << secret.status().text();
  EXPECT_TRUE(*secret.value() == Secret::parse(canary, "", "").value());
}

void expect_distrusted(const std::string& path, ErrorCode code, const std::vector<std::string>& words) {
  const auto secret = read_named(path);
  ASSERT_FALSE(secret.ok()) << path << " should be refused: " << words.front();
  EXPECT_EQ(secret.status().code(), code) << secret.status().text();
  expect_says(secret.status(), words);
}

TEST(SecretFile, of_ours_has_mode_0600_or_less) {
  OpenTree tree;
  if (geteuid() == 0) tree.give(nobody, nobody, 0600);
  expect_all_succeeded(Children(1, [&](int) {
    if (geteuid() == 0) become(nobody, nobody);
    for (const mode_t mode : {0600, 0400}) {
      chmod(tree.path().c_str(), mode);
      expect_trusted(tree.path());
    }
    for (const mode_t mode : {0604, 0640, 0660, 0644, 0666, 0601, 0610, 0602, 0620, 0700, 0777, 04600}) {
      chmod(tree.path().c_str(), mode);
      expect_distrusted(tree.path(), ErrorCode::auth, {fmt::format("its mode is {:04o}", mode), "chmod 600 " + tree.path()});
    }
    chmod(tree.path().c_str(), 0);
    expect_distrusted(tree.path(), ErrorCode::init, {"Permission denied", "chmod 600 " + tree.path()});
  }).wait());
}

TEST(SecretFile, of_root_may_be_open_to_its_group_and_that_of_another_user_is_refused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  OpenTree tree;
  const auto as_nobody = [&](const std::function<void()>& body) {
    expect_all_succeeded(Children(1, [&](int) {
      become(nobody, nobody);
      body();
    }).wait());
  };
  for (const mode_t mode : {0640, 0440}) {
    tree.give(0, nobody, mode);
    as_nobody([&] { expect_trusted(tree.path()); });
    expect_trusted(tree.path());  // as root, whose it is
  }
  for (const mode_t mode : {0644, 0642, 0641}) {
    tree.give(0, nobody, mode);
    as_nobody([&] { expect_distrusted(tree.path(), ErrorCode::auth, {"as root run: chmod 600 " + tree.path()}); });
    expect_distrusted(tree.path(), ErrorCode::auth, {"chmod 600 " + tree.path()});
  }
  tree.give(0, 0, 0600);
  as_nobody([&] { expect_distrusted(tree.path(), ErrorCode::init, {"Permission denied", "chmod 600"}); });
  tree.give(somebody, nobody, 0640);
  as_nobody([&] { expect_distrusted(tree.path(), ErrorCode::auth, {"belongs to another user (uid 65533; this process is uid 65534)", "chmod 600"}); });
  tree.give(nobody, nobody, 0600);
  expect_distrusted(tree.path(), ErrorCode::auth, {"belongs to another user", "this process is uid 0"});
}

// As Kubernetes lays out a volume: file → ..data/file, ..data → ..2026_01_01. The file at the end is what counts, not the links.
TEST(SecretFile, is_reached_by_links) {
  FileTree tree({});
  put_secret(tree.root() + "..2026_01_01/secret", canary);
  std::filesystem::create_directory_symlink("..2026_01_01", tree.root() + "..data");
  std::filesystem::create_symlink("..data/secret", tree.root() + "secret");
  expect_trusted(tree.root() + "secret");
  chmod((tree.root() + "..2026_01_01/secret").c_str(), 0644);
  expect_distrusted(tree.root() + "secret", ErrorCode::auth, {"its mode is 0644"});
  std::filesystem::create_symlink("itself", tree.root() + "itself");
  expect_distrusted(tree.root() + "itself", ErrorCode::init, {"Too many levels of symbolic links"});
}

TEST(SecretFile, is_a_regular_file_of_a_few_bytes) {
  FileTree tree({});
  const std::string pipe = tree.root() + "pipe", huge = tree.root() + "huge", endless = tree.root() + "endless";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  put_secret(huge, canary + std::string(1000, ' '));
  put_secret(endless, canary);
  std::filesystem::resize_file(endless, uintmax_t{1} << 40);
  expect_distrusted(pipe, ErrorCode::init, {"the file: it is not a regular file"});
  expect_distrusted(tree.root(), ErrorCode::init, {"it is not a regular file"});
  expect_distrusted("/dev/zero", ErrorCode::init, {"it is not a regular file"});
  expect_distrusted(huge, ErrorCode::init, {"it has 1064 bytes"});
  expect_distrusted(endless, ErrorCode::init, {"it has 1099511627776 bytes"});
  expect_distrusted(tree.root() + "none", ErrorCode::init, {"No such file", "unisono secret new --file " + tree.root() + "none"});
}

TEST(SecretFile, that_is_malformed_is_refused) {
  FileTree tree({});
  const std::string path = tree.root() + "secret";
  for (const std::string& text : {std::string(), canary.substr(1), canary + "0", "secret: " + canary, std::string(32, '\x80')}) {
    put_secret(path, text);
    expect_distrusted(path, ErrorCode::init, {"64 hexadecimal digits", "remove it, then run: unisono secret new --file " + path});
  }
}

TEST(OwnSecret, that_is_absent_is_none_and_that_is_there_has_to_be_right) {
  FileTree tree({});
  const std::string path = tree.root() + ".config/unisono/secret";
  const auto read_own = [&] { return read_secret_file(path, path, IfNoSecret::none); };
  const auto is_none = [&] { return read_own().ok() && !read_own().value(); };
  EXPECT_TRUE(is_none());
  std::ofstream(tree.root() + ".config") << "a file where a folder should be";
  EXPECT_TRUE(is_none());
  std::filesystem::remove(tree.root() + ".config");
  put_secret(path, canary, 0644);
  EXPECT_EQ(read_own().status().code(), ErrorCode::auth);
  put_secret(path, "");
  EXPECT_EQ(read_own().status().code(), ErrorCode::init);
  std::filesystem::remove(path);
  EXPECT_TRUE(is_none());
  std::filesystem::create_symlink("nowhere", path);
  EXPECT_EQ(read_own().status().code(), ErrorCode::init) << "a link that leads nowhere was meant to lead somewhere";
}

TEST(OwnSecret, in_a_home_that_is_closed_to_this_user_is_an_error) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to close a folder to others";
  FileTree tree(Files{{"home/.config/unisono/secret", canary}});
  chmod((tree.root() + "home").c_str(), 0700);
  expect_all_succeeded(Children(1, [&](int) {
    forget_all_sources();
    setenv("HOME", (tree.root() + "home").c_str(), 1);
    become(nobody, nobody);
    expect_refused(ErrorCode::init, {"home/.config/unisono/secret", "Permission denied"});
  }).wait());
}

TEST(OwnSecret, is_in_the_folder_for_configuration) {
  EXPECT_EQ(own_secret_path({{"HOME", "/home/ada"}}), "/home/ada/.config/unisono/secret");
  EXPECT_EQ(own_secret_path({{"HOME", "/home/ada"}, {"XDG_CONFIG_HOME", "/etc/ada"}}), "/etc/ada/unisono/secret");
  EXPECT_EQ(own_secret_path({{"HOME", "/home/ada"}, {"XDG_CONFIG_HOME", ""}}), "/home/ada/.config/unisono/secret");
  if (geteuid() != 0) return;  // whose home is known
  for (const Environment& environment : {Environment{}, Environment{{"HOME", ""}}, Environment{{"HOME", "here"}}})
    EXPECT_EQ(own_secret_path(environment), "/root/.config/unisono/secret");
}

mode_t mode_of(const std::string& path) {
  struct stat about = {};
  EXPECT_EQ(lstat(path.c_str(), &about), 0) << path;
  return about.st_mode & 07777;
}

std::string contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST(MakeSecretFile, makes_one_that_is_trusted_whatever_the_umask) {
  for (const mode_t mask : {0022, 0, 0377}) {
    FileTree tree(Files{{"open/there", ""}});
    chmod((tree.root() + "open").c_str(), 0755);
    const mode_t before = umask(mask);
    const std::string path = tree.root() + "open" + (mask == 0377 ? "/secret" : "/a/b/secret");
    Result<SecretFile> made = make_secret_file(path);
    umask(before);
    ASSERT_TRUE(made.ok()) << made.status().text();
    EXPECT_TRUE(made->is_new);
    EXPECT_EQ(made->path, path);
    EXPECT_EQ(mode_of(path), 0600u);
    EXPECT_TRUE(read_named(path).ok());
    EXPECT_EQ(mode_of(tree.root() + "open"), 0755u) << "a folder that was there";
    if (mask == 0377) continue;
    EXPECT_EQ(mode_of(tree.root() + "open/a"), 0700u);
    EXPECT_EQ(mode_of(tree.root() + "open/a/b"), 0700u);
    EXPECT_EQ(files_in(tree.root() + "open/a/b"), 1u) << "nothing else is left";
  }
}

TEST(MakeSecretFile, makes_another_one_each_time) {
  FileTree tree({});
  std::set<std::string> seen;
  for (int index = 0; index < 20; ++index) {
    const std::string path = fmt::format("{}{}", tree.root(), index);
    ASSERT_TRUE(make_secret_file(path).ok());
    EXPECT_TRUE(seen.insert(contents(path)).second);
    EXPECT_EQ(contents(path).size(), 65u);
  }
}

TEST(MakeSecretFile, never_overwrites) {
  FileTree tree({});
  const std::string path = tree.root() + "secret";
  put_secret(path, canary);
  Result<SecretFile> kept = make_secret_file(path);
  ASSERT_TRUE(kept.ok()) << kept.status().text();
  EXPECT_FALSE(kept->is_new);
  EXPECT_EQ(contents(path), canary);
  put_secret(path, canary, 0644);
  expect_says(make_secret_file(path).status(), {"chmod 600 " + path});
  put_secret(path, canary + "0");
  expect_says(make_secret_file(path).status(), {"remove it"});
  EXPECT_EQ(contents(path), canary + "0");
  std::filesystem::remove(path);
  std::filesystem::create_symlink("elsewhere", path);
  EXPECT_FALSE(make_secret_file(path).ok());
  EXPECT_FALSE(std::filesystem::exists(tree.root() + "elsewhere"));
  EXPECT_EQ(files_in(tree.root()), 1u);
}

// As in a volume that is mounted for reading only.
TEST(MakeSecretFile, finds_one_in_a_folder_that_it_may_not_write_to) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to close a folder to others";
  OpenTree tree;
  tree.give(nobody, nobody, 0400);
  chmod(tree.root().c_str(), 0755);
  expect_all_succeeded(Children(1, [&](int) {
    become(nobody, nobody);
    Result<SecretFile> found = make_secret_file(tree.path());
    ASSERT_TRUE(found.ok()) << found.status().text();
    EXPECT_FALSE(found->is_new);
    expect_says(make_secret_file(tree.root() + "another").status(), {"Permission denied", "--file PATH"});
  }).wait());
}

TEST(MakeSecretFile, says_why_it_cannot) {
  FileTree tree(Files{{"file", ""}});
  expect_says(make_secret_file(tree.root() + "file/secret").status(), {"Not a directory", "--file PATH"});
  expect_says(make_secret_file(tree.root() + "file/below/secret").status(), {"making the folder", "Not a directory"});
  expect_says(make_secret_file("/proc/secret").status(), {"cannot make the file", "--file PATH"});
  EXPECT_EQ(files_in(tree.root()), 1u);
}

TEST(MakeSecretFile, by_several_processes_at_once_gives_all_of_them_the_same_file) {
  constexpr int makers = 6;
  for (int round = 0; round < (small_run() ? 5 : 30); ++round) {
    FileTree tree({});
    const std::string path = tree.root() + "a/b/secret";
    Children children(makers, [&](int) {
      await([&] { return std::filesystem::exists(tree.root() + "go"); });
      Result<SecretFile> made = make_secret_file(path);
      ASSERT_TRUE(made.ok()) << made.status().text();
      const auto secret = read_named(path);
      ASSERT_TRUE(secret.ok()) << secret.status().text();
      fmt::print("{} {}\n", made->is_new ? "made" : "found", contents(path));
      fflush(stdout);
    });
    std::ofstream(tree.root() + "go") << "";
    expect_all_succeeded(children.wait());
    int winners = 0;
    for (int index = 0; index < makers; ++index) {
      winners += children.output(index).starts_with("made");
      EXPECT_NE(children.output(index).find(contents(path)), std::string::npos);
    }
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(files_in(tree.root() + "a/b"), 1u);
  }
}

}  // namespace
}  // namespace unisono::testing
