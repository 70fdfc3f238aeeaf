// Starting, watching and reaping processes; see children.hpp.
#include "tests/support/children.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "base/proc_text.hpp"
#include "dialects/default_world.hpp"
#include "tests/support/rank_process.hpp"

namespace unisono::testing {
namespace {

std::vector<const ::testing::TestPartResult*> failed_parts() {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const int parts = test ? test->result()->total_part_count() : 0;
  std::vector<const ::testing::TestPartResult*> failed;
  for (int part = 0; part < parts; ++part)
    if (test->result()->GetTestPartResult(part).failed()) failed.push_back(&test->result()->GetTestPartResult(part));
  return failed;
}

// The letter that /proc gives for what a thread is doing.
char state_of(pid_t process, pid_t thread) {
  const std::string text = proc_text(fmt::format("/proc/{}/task/{}/stat", process, thread));
  size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '?' : text[name_end + 2];
}

}  // namespace

FailuresSince::FailuresSince() : before_(failed_parts().size()) {}
bool FailuresSince::any() const { return failed_parts().size() > before_; }

std::string FailuresSince::text() const {
  std::string text;
  const auto failed = failed_parts();
  for (size_t index = before_; index < failed.size(); ++index)
    text += fmt::format("{}:{}: {}\n", failed[index]->file_name() ? failed[index]->file_name() : "?", failed[index]->line_number(),
                        failed[index]->message());
  return text;
}

Children::Children(int count, const std::function<void(int)>& body, double patience_s) : deadline_(Deadline::in_seconds(patience_s)) {
  fflush(nullptr);
  for (int index = 0; index < count; ++index) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    Child child;
    child.pipe = Descriptor(ends[0]);
    const Descriptor output(ends[1]);
    child.pid = start_process(output.number(), [&] { body(index); });
    children_.push_back(std::move(child));
  }
}

Children::~Children() {
  for (Child& child : children_) {
    if (child.reaped) continue;
    ::kill(child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
  }
}

void Children::signal(int index, int number) const { EXPECT_EQ(::kill(pid(index), number), 0); }
void Children::kill(int index) const { signal(index, SIGKILL); }

int64_t Children::kill_together(const std::vector<int>& indices) const {
  if (indices.size() > 1) {
    for (int index : indices) signal(index, SIGSTOP);
    for (int index : indices) await_stopped(index);
  }
  const int64_t killed_ns = now_ns();
  for (int index : indices) kill(index);
  return killed_ns;
}

// Reads what there is, or waits for something; false when there is nothing more to come, or no more time.
bool Children::read_once() {
  std::vector<pollfd> polled;
  for (Child& child : children_) polled.push_back({child.pipe.number(), POLLIN, 0});
  bool open = std::any_of(polled.begin(), polled.end(), [](const pollfd& entry) { return entry.fd >= 0; });
  if (!open || deadline_.passed()) return false;
  poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(deadline_.remaining_ns() / 1'000'000, 0)));
  for (size_t index = 0; index < children_.size(); ++index) {
    if (polled[index].revents == 0) continue;
    char buffer[4096];
    ssize_t count = read(polled[index].fd, buffer, sizeof(buffer));
    if (count > 0)
      children_[index].output.append(buffer, static_cast<size_t>(count));
    else
      children_[index].pipe.reset();
  }
  return true;
}

void Children::await_output(int index, const std::string& text) {
  while (output(index).find(text) == std::string::npos && read_once()) continue;
  EXPECT_NE(output(index).find(text), std::string::npos) << "child " << index << " never said " << text << " but " << output(index);
}

bool Children::await_state(int index, const std::string& states) const {
  return await([&] { return states.find(state_of(pid(index), pid(index))) != std::string::npos; });
}

void Children::await_asleep(int index) const { EXPECT_TRUE(await_state(index, "S")) << "child " << index << " does not sleep"; }

// The kernel says so once the last of its threads has stopped.
void Children::await_stopped(int index) const {
  EXPECT_TRUE(await([&] {
    siginfo_t info = {};
    return waitid(P_PID, static_cast<id_t>(pid(index)), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid(index);
  })) << "child " << index << " runs on";
}

std::vector<Ending> Children::wait() {
  while (read_once()) continue;
  std::vector<Ending> endings;
  for (Child& child : children_) {
    if (child.pipe) ADD_FAILURE() << "pid " << child.pid << " hangs; it said:\n" << child.output;
    if (child.pipe) ::kill(child.pid, SIGKILL);
    if (!child.reaped) waitpid(child.pid, &child.ending.status, 0);
    child.reaped = true;
    child.ending.output = child.output;
    endings.push_back(child.ending);
  }
  return endings;
}

void as_rank_that_stays(int rank, const WorldChoice& choice, const Body& body) {
  auto world = join_as(rank, choice.size, choice.job, choice.settings);
  ASSERT_TRUE(world.ok()) << "rank " << rank << ": " << world.status().text();
  SpeakAs speak(*world);
  TestWorld test_world(*world, false);
  try {
    body(test_world);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << rank << " of " << choice.size << " threw " << error.what();
  }
}

void as_rank(int rank, const WorldChoice& choice, const Body& body) {
  as_rank_that_stays(rank, choice, [&](TestWorld& world) {
    body(world);
    world.world().leave();
  });
}

bool await_asleep(pid_t process, pid_t thread) {
  return await([&] { return state_of(process, thread) == 'S'; });
}

bool await(const std::function<bool()>& is_so, double patience_s) {
  for (Deadline deadline = Deadline::in_seconds(patience_s); !is_so();) {
    if (deadline.passed()) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

void expect_all_succeeded(const std::vector<Ending>& endings) {
  for (size_t index = 0; index < endings.size(); ++index)
    EXPECT_TRUE(endings[index].succeeded()) << "child " << index << " said:\n" << endings[index].output;
}

bool small_run() { return process_environment().contains("UNISONO_TEST_SMALL"); }
bool full_run() { return process_environment().contains("UNISONO_TEST_FULL"); }
bool spans_hosts() {
  const Environment environment = process_environment();
  return environment.contains("UNISONO_TEST_HOSTS") || environment.contains("UNISONO_TEST_MACHINES");
}

bool under_sanitizer() {
#ifdef __SANITIZE_ADDRESS__
  return true;
#else
  return under_thread_sanitizer();
#endif
}

bool under_thread_sanitizer() {
#ifdef __SANITIZE_THREAD__
  return true;
#else
  return false;
#endif
}

}  // namespace unisono::testing
