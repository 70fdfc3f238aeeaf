// What is left of a secret in a process that has found it: nothing in its environment, nothing where a core dump would have it. The tests
// that are disabled are run by the others, each in a process that is started with a secret.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "tests/support/children.hpp"
#include "tests/support/file_tree.hpp"
#include "tests/support/raw_store_client.hpp"
#include "tests/support/secrets.hpp"
#include "trust/trust.hpp"
#include "unisono/distributed.hpp"
#include "unisono/settings.hpp"
#include "unisono/store.hpp"

namespace unisono::testing {
namespace {

std::string contents(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(SecretTraces, DISABLED_in_the_environment) {
  const std::string before = contents("/proc/self/environ");
  ASSERT_NE(before.find("UNISONO_SECRET=" + canary), std::string::npos);
  EXPECT_EQ(find_secret().value()->source(), "UNISONO_SECRET");
  const std::string after = contents("/proc/self/environ");
  EXPECT_EQ(after.find(canary), std::string::npos) << "the kernel still shows it";
  EXPECT_EQ(after.find(canary.substr(0, 8)), std::string::npos);
  EXPECT_EQ(after.size(), before.size());
  EXPECT_NE(std::system("env | grep -q UNISONO_SECRET"), 0) << "children get nothing of it";
  EXPECT_EQ(process_environment().at("OTHER"), "stays");
}

// The named test in a process that was started with these variables.
void expect_passes(const std::string& variables, const std::string& test) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(std::system(fmt::format("env {} '{}' --gtest_also_run_disabled_tests --gtest_brief=1 --gtest_filter={}", variables, program, test).c_str()), 0);
}

TEST(SecretTraces, are_not_in_the_environment_that_the_kernel_shows) {
  expect_passes("OTHER=stays UNISONO_SECRET=" + canary, "SecretTraces.DISABLED_in_the_environment");
}

// Two ranks of one machine, or that meet through a store, and disagree; everything they say is looked through by who started this.
void run_job(const std::string& init_method) {
  const FreePort port;
  const auto endings = Children(2, [&](int rank) {
    const std::pair<const char*, std::string> variables[] = {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"},
                                                             {"MASTER_PORT", std::to_string(port.number())}, {"UNISONO_LOG", "debug"}};
    for (const auto& [name, value] : variables) setenv(name, value.c_str(), 1);
    if (init_method.empty()) distributed::init_process_group({});
    if (!init_method.empty()) distributed::init_process_group({.rank = rank, .world_size = 2, .init_method = init_method + std::to_string(port.number())});
    for (const char* shown : {"/proc/self/environ", "/proc/self/cmdline"}) EXPECT_EQ(contents(shown).find(canary.substr(0, 8)), std::string::npos) << shown;
    std::vector<float> data(static_cast<size_t>(3 + rank), 1);
    try {
      distributed::all_reduce(view(data), {});
      ADD_FAILURE() << "the counts differ";
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    distributed::destroy_process_group();
  }).wait();
  for (const auto& ending : endings) std::fprintf(stderr, "%s\n", ending.output.c_str());
  expect_all_succeeded(endings);
}

TEST(SecretTraces, DISABLED_in_a_job) {
  run_job("");
  run_job("tcp://127.0.0.1:");
}

TEST(SecretTraces, are_in_nothing_that_a_job_says_or_shows) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = fmt::format("UNISONO_SECRET={} '{}' --gtest_also_run_disabled_tests --gtest_filter=SecretTraces.DISABLED_in_a_job 2>&1", canary, program);
  FILE* const output = popen(command.c_str(), "r");
  ASSERT_TRUE(output);
  std::string said;
  for (int byte; (byte = std::fgetc(output)) != EOF;) said += static_cast<char>(byte);
  EXPECT_EQ(pclose(output), 0) << said;
  EXPECT_NE(said.find("MismatchError"), std::string::npos) << said;
  for (size_t at = 0; at + 8 <= canary.size(); ++at) EXPECT_EQ(said.find(canary.substr(at, 8)), std::string::npos) << said;
}

// Every page that a core dump has in it, read into memory that is not.
void for_each_dumped_piece(const std::function<void(std::string_view)>& body) {
  constexpr size_t most = 64 << 20;
  char* copy = static_cast<char*>(mmap(nullptr, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(madvise(copy, most, MADV_DONTDUMP), 0);
  const Descriptor memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  std::ifstream lines("/proc/self/smaps");
  uintptr_t first = 0, last = 0;
  for (std::string line; std::getline(lines, line);) {
    uintptr_t start = 0, end = 0;
    char writable = '-';
    if (std::sscanf(line.c_str(), "%lx-%lx r%c", &start, &end, &writable) == 3) {
      first = start;
      last = writable == 'w' ? end : start;
    }
    if (!line.starts_with("VmFlags:") || (line + " ").find(" dd ") != std::string::npos || first == last) continue;
    ASSERT_LE(last - first, most);
    const ssize_t count = pread(memory.number(), copy, last - first, static_cast<off_t>(first));
    if (count > 0) body({copy, static_cast<size_t>(count)});
  }
  munmap(copy, most);
}

// `inverted` is the secret with every bit turned round, so that looking for it does not bring it into memory.
size_t places_of(std::string_view inverted, std::string_view memory) {
  size_t places = 0;
  for (size_t at = 0; at + inverted.size() <= memory.size(); ++at) {
    size_t same = 0;
    while (same < inverted.size() && memory[at + same] == static_cast<char>(~inverted[same])) ++same;
    places += same == inverted.size();
  }
  return places;
}

// INVERTED has the digits with every bit turned round, each as two hexadecimal digits.
TEST(SecretTraces, DISABLED_in_memory) {
  std::string digits, bytes;
  const std::string numbers = process_environment().at("INVERTED");
  for (size_t at = 0; at < numbers.size(); at += 2) digits += static_cast<char>(std::stoi(numbers.substr(at, 2), nullptr, 16));
  const Result<std::optional<Secret>> secret = find_secret();
  ASSERT_TRUE(secret.ok() && secret.value());
  Result<Descriptor> descriptor = secret_descriptor(*secret.value());
  ASSERT_TRUE(descriptor.ok());
  for (const std::byte& byte : secret.value()->bytes()) bytes += static_cast<char>(~byte);
  const distributed::TCPStore store("127.0.0.1", 0, {.is_master = true});  // keys, TLS, and all that a store holds
  distributed::TCPStore user("127.0.0.1", store.port());
  user.set("a", "1");
  std::string key;  // the store's, inverted likewise
  {
    auto trust = Trust::of(secret.value()->bytes(), distributed::TCPStoreOptions().job);
    for (const unsigned char byte : (*trust)->key()) key += static_cast<char>(~byte);
  }
  size_t searched = 0, found_digits = 0, found_bytes = 0, found_key = 0;
  for_each_dumped_piece([&](std::string_view piece) {
    searched += piece.size();
    for (size_t at = 0; at < 64; at += 16) found_digits += places_of(std::string_view(digits).substr(at, 16), piece);
    for (size_t at = 0; at < 32; at += 8) found_bytes += places_of(std::string_view(bytes).substr(at, 8), piece);
    for (size_t at = 0; at < 32; at += 8) found_key += places_of(std::string_view(key).substr(at, 8), piece);
  });
  EXPECT_GT(searched, size_t{100'000});
  EXPECT_EQ(found_digits, 0u) << "a quarter of the text, or more";
  EXPECT_EQ(found_bytes, 0u) << "a quarter of the secret, or more";
  EXPECT_EQ(found_key, 0u) << "a quarter of the key that comes from it, or more";
}

// What a copy leaves in a vector register, the dynamic linker may save on the stack.
TEST(SecretTraces, are_not_in_memory_that_a_core_dump_has) {
  if (under_sanitizer()) GTEST_SKIP() << "sanitizers have too much memory to search, and keep copies in it";
  std::random_device random;
  std::string digits, inverted;
  for (int index = 0; index < 64; ++index) {
    digits += "0123456789abcdef"[random() % 16];
    inverted += fmt::format("{:02x}", static_cast<unsigned char>(~digits.back()));
  }
  expect_passes(fmt::format("INVERTED={} UNISONO_SECRET={}", inverted, digits), "SecretTraces.DISABLED_in_memory");
  FileTree tree({});
  put_secret(tree.root() + "secret", digits);
  expect_passes(fmt::format("INVERTED={} UNISONO_SECRET_FILE={}secret", inverted, tree.root()), "SecretTraces.DISABLED_in_memory");
  expect_passes(fmt::format("INVERTED={} UNISONO_SECRET_FD=7 7< {}secret", inverted, tree.root()), "SecretTraces.DISABLED_in_memory");
}

}  // namespace
}  // namespace unisono::testing
