// See machine_mode.hpp.
#include "tests/support/machine_mode.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/hash.hpp"
#include "base/hosts.hpp"
#include "group/launch.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/strangers.hpp"

namespace unisono::testing {
namespace {

// Of "alone": ranks beyond share machines again.
constexpr int most_machines = 8;

struct Mode {
  std::string layout;
  Families families = Families::both;
  std::unique_ptr<TestMachines> machines;
  std::unique_ptr<Strangers> strangers;

  int machine_of(int rank, int size) const {
    auto hosts = Hosts::parse("UNISONO_TEST_MACHINES", layout_named(layout, size), size);
    if (!hosts.ok()) throw std::runtime_error(hosts.status().text());
    return hosts->of(rank) % machines->count();
  }
  std::string address(int machine) const { return families == Families::both ? TestMachines::address(machine) : TestMachines::address6(machine); }
};

Mode make_mode() {
  Environment environment = process_environment();
  Mode mode;
  mode.layout = environment["UNISONO_TEST_MACHINES"];
  if (mode.layout.empty()) return mode;
  if (mode.layout.ends_with(",6")) mode.families = Families::only_6;
  mode.layout = mode.layout.substr(0, mode.layout.find(','));
  mode.machines = std::make_unique<TestMachines>(mode.layout == "alone" ? most_machines : mode.layout == "middle" ? 3 : 2, mode.families);
  if (environment.contains("UNISONO_TEST_STRANGERS")) mode.strangers = std::make_unique<Strangers>(*mode.machines);
  return mode;
}

const Mode mode = make_mode();

// Of this job alone, as far as ports go; below those that the kernel gives out.
int port_of(const std::string& job) { return 10'000 + static_cast<int>(hash_text(job) % 20'000); }

Environment environment_of(const WorldOptions& options) {
  Environment environment;
  for (const SettingText& setting : describe(options.settings))
    if (setting.value != setting.default_value && !setting.variable.starts_with("UNISONO_SECRET")) environment[setting.variable] = setting.value;
  environment["RANK"] = std::to_string(options.rank);
  environment["WORLD_SIZE"] = std::to_string(options.size);
  environment["MASTER_ADDR"] = mode.address(mode.machine_of(0, options.size));
  environment["MASTER_PORT"] = std::to_string(port_of(options.job));
  return environment;
}

}  // namespace

bool on_machines() { return mode.machines != nullptr; }

bool belongs_on_machines(const WorldOptions& options) {
  return on_machines() && options.size > 1 && options.rank >= 0 && options.rank < options.size && options.settings.pretend_hosts.empty();
}

Result<std::shared_ptr<World>> join_on_machine(const WorldOptions& options) {
  mode.machines->enter(mode.machine_of(options.rank, options.size));
  auto world = launch({.job = options.job}, environment_of(options));
  EXPECT_EQ(listeners_at_every_address(), "");
  return world;
}

}  // namespace unisono::testing
