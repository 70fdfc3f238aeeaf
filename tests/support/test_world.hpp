// One test body, many worlds: ranks as threads of this process, and ranks as processes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "group/world.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {

// What a test body gets: which rank it is and the world that rank has joined. The dialects' default world is this one.
class TestWorld {
 public:
  TestWorld(std::shared_ptr<World> world, bool threads) : world_(std::move(world)), threads_(threads) {}
  int rank() const { return world_->rank(); }
  int ranks() const { return world_->size(); }
  World& world() const { return *world_; }
  const std::shared_ptr<World>& shared_world() const { return world_; }
  GroupHandle group() const { return GroupHandle(world_->world_group()); }
  bool are_threads() const { return threads_; }

 private:
  std::shared_ptr<World> world_;
  bool threads_;
};

using Body = std::function<void(TestWorld&)>;

enum class Kind { threads, processes };

struct Worlds {
  std::vector<int> sizes;
  std::vector<Kind> kinds = {Kind::threads, Kind::processes};
  Settings settings = test_settings();

  static Settings test_settings();  // a deadline of a minute, so that a hang is a failure and not a wait
  Worlds with(Kind kind) const;
  Worlds with(const std::function<void(Settings&)>& change) const;
};
Worlds ranks(int count);
Worlds ranks(std::vector<int> counts);

void for_each_world(const Worlds& worlds, const Body& body);

// Processes that may die: runs the body in `count` processes and returns how each ended and what it printed.
struct Ending {
  int status = 0;  // as waitpid gives it
  std::string output;
  bool succeeded() const;
  bool killed_by(int signal) const;
};
std::vector<Ending> run_processes(int count, const Settings& settings, const Body& body);

std::string unique_job();
// Joins without a harness, for tests of joining itself.
Result<std::shared_ptr<World>> join_as(int rank, int size, const std::string& job, const Settings& settings);

}  // namespace unisono::testing
