// Where the job secret comes from: every source, which of them counts, what is refused, and that nothing shows it. Each test that
// reads descriptor or variable is a process of its own, since a process keeps what it was handed. Files are
// in secret_file_test.cpp, traces of a secret in secret_traces_test.cpp.
#include "trust/secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "tests/support/children.hpp"
#include "tests/support/file_tree.hpp"
#include "tests/support/secrets.hpp"

namespace unisono::testing {
namespace {

void in_a_process(const std::function<void()>& body) {
  expect_all_succeeded(Children(1, [&](int) {
    forget_all_sources();
    body();
  }).wait());
}

// A descriptor as a launcher leaves it: a pipe that holds the text and whose writing end is closed.
int pipe_with(const std::string& text) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  return ends[0];
}

int memory_with(const std::string& text) {
  const int memory = memfd_create("secret", 0);
  EXPECT_EQ(write(memory, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return memory;
}

bool is_set(const char* variable) { return std::system(fmt::format("test -n \"${{{}+set}}\"", variable).c_str()) == 0; }

template <typename T>
concept Printable = requires(std::ostream& out, const T& value) { out << value; };

TEST(Secret, is_read_from_digits_of_either_case_with_white_space_around) {
  const Result<Secret> secret = Secret::parse(digits('a'), "here", "");
  ASSERT_TRUE(secret.ok()) << secret.status().text();
  for (const std::byte byte : secret.value().bytes()) EXPECT_EQ(byte, std::byte{0xaa});
  EXPECT_EQ(secret.value().source(), "here");
  const Result<Secret> spaced = Secret::parse(" \t\r\n" + digits('A') + "\r\n\n", "there", "");
  ASSERT_TRUE(spaced.ok());
  EXPECT_TRUE(secret.value() == spaced.value());
  const Result<Secret> mixed = Secret::parse("0123456789abcdefABCDEF" + std::string(42, '0'), "", "");
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(mixed.value().bytes()[7], std::byte{0xef});
  EXPECT_EQ(mixed.value().bytes()[8], std::byte{0xab});
  EXPECT_FALSE(mixed.value() == secret.value());
}

TEST(Secret, that_is_malformed_is_refused_without_a_byte_of_it) {
  for (const std::string& text : {std::string(), canary.substr(1), canary + "0", "0x" + canary.substr(2), canary.substr(0, 63) + "g",
                                  canary.substr(0, 32) + " " + canary.substr(32), canary.substr(0, 63) + std::string(1, '\0'),
                                  std::string(1024, ' ') + canary, canary + "\n" + canary}) {
    const Result<Secret> secret = Secret::parse(text, "the source", "do this");
    ASSERT_FALSE(secret.ok()) << text;
    EXPECT_EQ(secret.status().code(), ErrorCode::init);
    expect_says(secret.status(), {"the source has ", "a secret is 64 hexadecimal digits; do this"});
  }
}

TEST(Secret, cannot_be_printed) {
  EXPECT_FALSE(fmt::is_formattable<Secret>::value);
  EXPECT_FALSE(Printable<Secret>);
  EXPECT_FALSE(Printable<SecretText>);
  const Result<Secret> secret = Secret::parse(canary, "", "");
  ASSERT_TRUE(secret.ok());
  EXPECT_EQ(::testing::PrintToString(secret.value()).find("CA-FE"), std::string::npos);  // as Google Test shows bytes
}

// The flags that the kernel lists for a page; nothing if it is not mapped.
std::string mapping_of(const void* address) {
  std::ifstream lines("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(lines, line);) {
    uintptr_t first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2)
      is_here = first <= reinterpret_cast<uintptr_t>(address) && reinterpret_cast<uintptr_t>(address) < last;
    if (is_here && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST(Secret, lies_where_core_dumps_do_not_look_and_goes_with_its_last_copy) {
  const void* place = nullptr;
  {
    std::optional<Secret> copy;
    {
      Result<Secret> secret = Secret::parse(canary, "", "");
      ASSERT_TRUE(secret.ok());
      copy = secret.value();
      place = secret.value().bytes().data();
    }
    EXPECT_EQ(copy->bytes().data(), place);
    EXPECT_NE(mapping_of(place).find(" dd "), std::string::npos) << mapping_of(place);
  }
  EXPECT_EQ(mapping_of(place).find(" dd "), std::string::npos) << "it is still there";
}

TEST(SecretText, is_overwritten_when_it_goes) {
  alignas(SecretText) std::array<char, sizeof(SecretText)> memory;
  SecretText* text = new (memory.data()) SecretText;
  std::memcpy(text->characters.data(), canary.data(), canary.size());
  std::destroy_at(text);
  EXPECT_EQ(std::string_view(std::launder(memory.data()), 64), std::string(64, '\0'));
}

TEST(FindSecret, finds_none_where_there_is_none) {
  in_a_process([] {
    FileTree tree({});
    setenv("HOME", tree.root().c_str(), 1);
    const auto secret = find_secret();
    ASSERT_TRUE(secret.ok()) << secret.status().text();
    EXPECT_FALSE(secret.value().has_value());
    const auto handed = secret_to_hand_on();
    EXPECT_TRUE(handed.ok() && !handed.value().has_value());
  });
}

TEST(FindSecret, reads_an_inherited_descriptor_once_and_keeps_the_secret) {
  for (const auto& open_with : {pipe_with, memory_with})
    in_a_process([&] {
      const int number = open_with(canary + "\n");
      setenv("UNISONO_SECRET_FD", std::to_string(number).c_str(), 1);
      expect_found(canary, fmt::format("descriptor {} (UNISONO_SECRET_FD)", number));
      EXPECT_EQ(fcntl(number, F_GETFD), -1) << "it is closed";
      EXPECT_FALSE(is_set("UNISONO_SECRET_FD"));
      expect_found(canary, fmt::format("descriptor {} (UNISONO_SECRET_FD)", number));  // for a second World
      const int other = open_with(digits('5'));
      setenv("UNISONO_SECRET_FD", std::to_string(other).c_str(), 1);
      expect_found(digits('5'), fmt::format("descriptor {} (UNISONO_SECRET_FD)", other));
    });
}

TEST(FindSecret, in_several_processes_reads_one_descriptor_of_a_file) {
  const int number = memory_with(canary);
  setenv("UNISONO_SECRET_FD", std::to_string(number).c_str(), 1);
  expect_all_succeeded(Children(3, [&](int) { expect_found(canary, fmt::format("descriptor {} (UNISONO_SECRET_FD)", number)); }).wait());
  unsetenv("UNISONO_SECRET_FD");
  close(number);
}

TEST(FindSecret, refuses_a_descriptor_that_gives_no_secret_and_keeps_refusing) {
  in_a_process([] {
    FileTree tree({});
    put_secret(tree.root() + "secret", digits('7'));
    setenv("UNISONO_SECRET_FILE", (tree.root() + "secret").c_str(), 1);  // not tried, though it is fine
    const int folder = open("/tmp", O_RDONLY), shut = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const std::pair<std::string, std::string> wrong[] = {
        {canary, "is not the number"}, {"", "is not the number"}, {"2", "is not the number"}, {"-1", "is not the number"}, {"7 ", "is not the number"},
        {"999", "it is not open"}, {std::to_string(shut), "close-on-exec"}, {std::to_string(folder), "Is a directory"},
        {std::to_string(pipe_with("")), "it is empty"}, {std::to_string(pipe_with(canary.substr(2))), "has 62 characters"},
        {std::to_string(pipe_with(canary + std::string(1200, '\n'))), "has more than 1024 characters"}};
    for (const auto& [number, says] : wrong) {
      setenv("UNISONO_SECRET_FD", number.c_str(), 1);
      for (int world = 0; world < 2; ++world) expect_refused(ErrorCode::init, {"UNISONO_SECRET_FD", says});
    }
    EXPECT_GE(fcntl(shut, F_GETFD), 0) << "it was not inherited, so it is not ours to close";
  });
}

TEST(FindSecret, waits_for_the_end_of_a_pipe_only_so_long) {
  in_a_process([] {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    ASSERT_EQ(write(ends[1], canary.data(), 64), 64);
    setenv("UNISONO_SECRET_FD", std::to_string(ends[0]).c_str(), 1);
    expect_refused(ErrorCode::init, {"its end has not come within 5 s", "close the writing end"});
  });
}

TEST(FindSecret, overwrites_the_variable_and_keeps_the_secret) {
  in_a_process([] {
    std::string entry = "UNISONO_SECRET=" + canary;
    ASSERT_EQ(putenv(entry.data()), 0);  // the string itself becomes part of the environment
    EXPECT_FALSE(process_environment().contains("UNISONO_SECRET"));
    expect_found(canary, "UNISONO_SECRET");
    EXPECT_EQ(entry.substr(15), std::string(64, '\0'));
    EXPECT_FALSE(is_set("UNISONO_SECRET"));
    expect_found(canary, "UNISONO_SECRET");
    setenv("UNISONO_SECRET", digits('3').c_str(), 1);
    expect_found(digits('3'), "UNISONO_SECRET");
  });
}

TEST(FindSecret, takes_a_variable_from_memory_that_cannot_be_written) {
  in_a_process([] {
    const std::string entry = "UNISONO_SECRET=" + canary;
    char* page = static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(page, entry.c_str(), entry.size() + 1);
    ASSERT_EQ(mprotect(page, 4096, PROT_READ), 0);
    setenv("UNISONO_SECRET_TEST", "before", 1);
    ASSERT_EQ(putenv(page), 0);
    setenv("UNISONO_SECRET_TEST_LATER", "after", 1);
    expect_found(canary, "UNISONO_SECRET");
    EXPECT_FALSE(is_set("UNISONO_SECRET"));
    EXPECT_TRUE(is_set("UNISONO_SECRET_TEST") && is_set("UNISONO_SECRET_TEST_LATER"));
  });
}

TEST(FindSecret, refuses_a_malformed_variable_and_keeps_refusing) {
  in_a_process([] {
    FileTree tree({});
    setenv("HOME", tree.root().c_str(), 1);
    put_secret(tree.root() + ".config/unisono/secret", digits('7'));
    for (const std::string& text : {canary.substr(1), canary + "ff", std::string(), std::string("on")}) {
      setenv("UNISONO_SECRET", text.c_str(), 1);
      for (int world = 0; world < 2; ++world) expect_refused(ErrorCode::init, {"UNISONO_SECRET has", "correct or unset it"});
    }
  });
}

TEST(FindSecret, takes_the_first_source_that_is_there) {
  in_a_process([] {
    FileTree tree({});
    setenv("HOME", tree.root().c_str(), 1);
    const std::string own = tree.root() + ".config/unisono/secret", other = tree.root() + "other", elsewhere = tree.root() + "elsewhere";
    put_secret(own, digits('1'));
    expect_found(digits('1'), own);
    put_secret(elsewhere + "/unisono/secret", digits('2'));
    setenv("XDG_CONFIG_HOME", elsewhere.c_str(), 1);
    expect_found(digits('2'), elsewhere + "/unisono/secret");
    setenv("XDG_CONFIG_HOME", "not/absolute", 1);
    expect_found(digits('1'), own);
    setenv("UNISONO_SECRET", digits('3').c_str(), 1);
    expect_found(digits('3'), "UNISONO_SECRET");
    put_secret(other, digits('4'));
    setenv("UNISONO_SECRET_FILE", other.c_str(), 1);
    expect_found(digits('4'), other + " (UNISONO_SECRET_FILE)");
    EXPECT_FALSE(secret_to_hand_on().value().has_value()) << "children find the file themselves";
    const int number = pipe_with(digits('5'));
    setenv("UNISONO_SECRET_FD", std::to_string(number).c_str(), 1);
    expect_found(digits('5'), fmt::format("descriptor {} (UNISONO_SECRET_FD)", number));
    EXPECT_TRUE(secret_to_hand_on().value().has_value());
  });
}

TEST(FindSecret, does_not_show_a_secret_that_was_put_where_a_path_belongs) {
  in_a_process([] {
    for (const std::string& value : {canary, canary + "\n", std::string()}) {
      setenv("UNISONO_SECRET_FILE", value.c_str(), 1);
      expect_refused(ErrorCode::init, {"UNISONO_SECRET_FILE", value.empty() ? "it is empty" : "use UNISONO_SECRET"});
    }
  });
}

TEST(FindSecret, gives_threads_that_ask_at_once_the_same_secret) {
  in_a_process([] {
    const int number = pipe_with(canary);
    const std::string source = fmt::format("descriptor {} (UNISONO_SECRET_FD)", number);
    setenv("UNISONO_SECRET_FD", std::to_string(number).c_str(), 1);
    setenv("UNISONO_SECRET", digits('3').c_str(), 1);
    setenv("OTHER", "stays", 1);
    std::vector<std::thread> threads;
    for (int index = 0; index < 8; ++index)
      threads.emplace_back([&] {
        expect_found(canary, source);
        EXPECT_EQ(process_environment()["OTHER"], "stays");
      });
    for (std::thread& thread : threads) thread.join();
  });
}

// One thread waits for the descriptor's end when another forks. The child has no such thread, and still gets the secret.
TEST(FindSecret, works_in_a_child_that_was_forked_while_a_thread_was_reading) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "ThreadSanitizer cannot follow a fork of a process with threads";
  in_a_process([] {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    ASSERT_EQ(fcntl(ends[0], F_SETFD, 0), 0);
    setenv("UNISONO_SECRET_FD", std::to_string(ends[0]).c_str(), 1);
    const std::string source = fmt::format("descriptor {} (UNISONO_SECRET_FD)", ends[0]);
    std::atomic<pid_t> reader_thread{0};
    std::thread reader([&] {
      reader_thread = static_cast<pid_t>(syscall(SYS_gettid));
      expect_found(canary, source);
    });
    ASSERT_TRUE(await([&] { return reader_thread != 0; }));
    ASSERT_TRUE(await_asleep(getpid(), reader_thread));
    const pid_t forking_thread = static_cast<pid_t>(syscall(SYS_gettid));
    std::thread writer([&] {
      EXPECT_TRUE(await_asleep(getpid(), forking_thread));
      EXPECT_EQ(write(ends[1], canary.data(), 64), 64);
      close(ends[1]);
    });
    expect_all_succeeded(Children(1, [&](int) { expect_found(canary, source); }, 10).wait());
    reader.join();
    writer.join();
  });
}

TEST(SecretDescriptor, hands_the_secret_on) {
  in_a_process([] {
    const Result<Secret> secret = Secret::parse(canary, "", "");
    Result<Descriptor> descriptor = secret_descriptor(secret.value());
    ASSERT_TRUE(descriptor.ok()) << descriptor.status().text();
    EXPECT_EQ(fcntl(descriptor->number(), F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(pwrite(descriptor->number(), "x", 1, 0), -1) << "nobody can change it";
    const int number = descriptor->release();
    fcntl(number, F_SETFD, 0);
    setenv("UNISONO_SECRET_FD", std::to_string(number).c_str(), 1);
    expect_found(canary, fmt::format("descriptor {} (UNISONO_SECRET_FD)", number));
  });
}

}  // namespace
}  // namespace unisono::testing
