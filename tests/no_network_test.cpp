// Nothing of ours is on a network: whatever sockets a rank has, none of them is in the kernel's tables of TCP and UDP.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/descriptor.hpp"
#include "tests/support/calls.hpp"
#include "tests/support/children.hpp"
#include "tests/support/outcomes.hpp"
#include "unisono/shared_tensor.hpp"

namespace unisono::testing {
namespace {

namespace fs = std::filesystem;

// The numbers of its sockets, as its links in /proc name them: socket:[4711].
std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> numbers;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) numbers.insert(target.substr(8, target.size() - 9));
  }
  return numbers;
}

// Those among them that are in a table of the kernel, in whose lines the tenth word is the socket's number.
std::set<std::string> found_on_the_network(const std::set<std::string>& sockets) {
  std::set<std::string> found;
  for (const char* name : {"tcp", "tcp6", "udp", "udp6", "raw", "raw6"}) {
    std::ifstream table(std::string("/proc/net/") + name);
    std::string line;
    for (std::getline(table, line); std::getline(table, line);) {
      std::istringstream words(line);
      std::string word;
      for (int index = 0; index < 10; ++index) words >> word;
      if (sockets.contains(word)) found.insert(std::string(name) + " " + line);
    }
  }
  return found;
}

TEST(Network, a_listening_socket_would_be_found) {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener) GTEST_SKIP() << "this machine has no network at all";
  ASSERT_EQ(listen(listener.number(), 1), 0);
  EXPECT_EQ(found_on_the_network(sockets_of(getpid())).size(), 1u);
}

// Rank 0 keeps the meeting place open for late visitors, so there is a socket to look at.
TEST(Network, is_not_used_by_any_rank_at_any_time) {
  SharedArray<std::atomic<int>> signs(2);
  const std::set<std::string> inherited = sockets_of(getpid());
  const WorldChoice choice{.size = 3};
  Children children(3, [&](int rank) {
    as_rank(rank, choice, [&](TestWorld& world) {
      expect_works(world);
      const GroupHandle group = distributed::new_group({0, 1, 2});
      Scratch scratch;
      make_call(group, scratch, {.count = 1'000'000});
      make_call(group, scratch, {.count = 100, .async_op = true})->wait();
      const Tensor shared = alloc_shared(Shape{1000}, DType::int32);
      signs[0] += 1;
      EXPECT_TRUE(await([&] { return signs[1] == 1; }));
    });
  });
  ASSERT_TRUE(await([&] { return signs[0] == 3; }));
  size_t sockets = 0;
  for (int rank = 0; rank < 3; ++rank) {
    std::set<std::string> all = sockets_of(children.pid(rank));
    for (const std::string& socket : inherited) all.erase(socket);
    sockets += all.size();
    for (const std::string& line : found_on_the_network(all)) ADD_FAILURE() << "rank " << rank << " has " << line;
  }
  EXPECT_GT(sockets, 0u);
  signs[1] = 1;
  expect_all_succeeded(children.wait());
}

}  // namespace
}  // namespace unisono::testing
