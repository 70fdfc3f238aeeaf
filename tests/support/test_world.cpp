// Running a body as threads or as processes. A failed expectation in a child process fails the test in the parent: the
// child's output is passed on and its exit status says so.
#include "tests/support/test_world.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "dialects/default_world.hpp"
#include "tests/support/children.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/machine_mode.hpp"
#include "tests/support/rank_process.hpp"

namespace unisono::testing {
namespace {

struct RankPlace {
  int rank, size;
  std::string job;
  bool threads;
};

void run_rank(const RankPlace& place, const Settings& settings, const Body& body) {
  const auto& [rank, size, job, threads] = place;
  auto world = join_as(rank, size, job, settings);
  ASSERT_TRUE(world.ok()) << "rank " << rank << ": " << world.status().text();
  SpeakAs speak(*world);
  TestWorld test_world(*world, threads);
  try {
    body(test_world);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << rank << " of " << size << (threads ? " (threads)" : " (processes)") << " threw " << error.what();
  }
  (*world)->leave();
}

void run_threads(int size, const Settings& settings, const Body& body) {
  std::string job = unique_job();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] { run_rank({rank, size, job, true}, settings, body); });
  for (std::thread& thread : threads) thread.join();
}

std::string read_all(std::vector<int>& pipes, std::vector<std::string>& outputs) {
  size_t open = pipes.size();
  while (open > 0) {
    std::vector<pollfd> polled;
    for (int pipe : pipes) polled.push_back({pipe, POLLIN, 0});
    poll(polled.data(), polled.size(), -1);
    for (size_t index = 0; index < pipes.size(); ++index) {
      if (!polled[index].revents) continue;
      char buffer[4096];
      ssize_t count = read(pipes[index], buffer, sizeof(buffer));
      if (count > 0) {
        outputs[index].append(buffer, static_cast<size_t>(count));
      } else {
        close(pipes[index]);
        pipes[index] = -1;
        --open;
      }
    }
  }
  return {};
}

}  // namespace

bool Ending::succeeded() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
bool Ending::killed_by(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }

std::vector<Ending> run_processes(int count, const Settings& settings, const Body& body) {
  std::string job = unique_job();
  std::vector<pid_t> children;
  std::vector<int> pipes;
  for (int rank = 0; rank < count; ++rank) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const Descriptor output(ends[1]);
    children.push_back(start_process(output.number(), [&] { run_rank({rank, count, job, false}, settings, body); }));
    pipes.push_back(ends[0]);
  }
  std::vector<std::string> outputs(children.size());
  read_all(pipes, outputs);
  std::vector<Ending> endings;
  for (size_t index = 0; index < children.size(); ++index) {
    Ending ending;
    waitpid(children[index], &ending.status, 0);
    ending.output = outputs[index];
    endings.push_back(ending);
  }
  return endings;
}

Settings Worlds::test_settings() {
  auto from_environment = settings_from(process_environment());  // the rough tier changes some
  if (!from_environment.ok()) throw std::runtime_error(from_environment.status().text());
  Settings settings = *from_environment;
  settings.timeout_s = 60;
  settings.join_timeout_s = 60;
  settings.warn_after_s = 30;
  return settings;
}

Worlds Worlds::with(Kind kind) const {
  Worlds worlds = *this;
  worlds.kinds = {kind};
  return worlds;
}

Worlds Worlds::with(const std::function<void(Settings&)>& change) const {
  Worlds worlds = *this;
  change(worlds.settings);
  return worlds;
}

Worlds ranks(int count) { return {{count}}; }
Worlds ranks(std::vector<int> counts) { return {std::move(counts)}; }

void for_each_world(const Worlds& worlds, const Body& body) {
  for (Kind kind : worlds.kinds) {
    if (kind == Kind::processes && under_thread_sanitizer()) continue;  // it does not see from one process into another
    for (int size : worlds.sizes) {
      SCOPED_TRACE(fmt::format("{} ranks as {}", size, kind == Kind::threads ? "threads" : "processes"));
      if (kind == Kind::threads) {
        run_threads(size, worlds.settings, body);
        continue;
      }
      std::vector<Ending> endings = run_processes(size, worlds.settings, body);
      for (size_t rank = 0; rank < endings.size(); ++rank)
        EXPECT_TRUE(endings[rank].succeeded()) << "rank " << rank << " said:\n" << endings[rank].output;
    }
  }
}

std::string unique_job() {
  static std::atomic<int> counter{0};
  return fmt::format("test {} {}", getpid(), ++counter);
}

Result<std::shared_ptr<World>> join_as(int rank, int size, const std::string& job, const Settings& settings) {
  WorldOptions options;
  options.rank = options.local_rank = rank;
  options.size = options.local_size = size;
  options.job = job;
  options.launcher = "test";
  options.settings = settings;
  // A layout for all worlds of a test that does not choose one itself.
  const Environment environment = process_environment();
  if (auto name = environment.find("UNISONO_TEST_HOSTS"); name != environment.end() && settings.pretend_hosts.empty())
    options.settings.pretend_hosts = layout_named(name->second, size);
  if (belongs_on_machines(options)) return join_on_machine(options);
  return World::join(std::move(options));
}

}  // namespace unisono::testing
