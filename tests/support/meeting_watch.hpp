// What a test sees and does where ranks of machines meet: the store that rank 0 serves, and one that the test itself serves.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/hash.hpp"
#include "rendezvous/tcp_store.hpp"
#include "rendezvous/trust_for.hpp"
#include "tests/support/machine_job.hpp"

namespace unisono::testing {

inline constexpr int given_store_port = 29400;

// A store of the test's own, at the first machine: its master, or another user of it.
inline std::shared_ptr<distributed::TCPStore> given_store(bool is_master) {
  return std::make_shared<distributed::TCPStore>(TestMachines::address(0), given_store_port, distributed::TCPStoreOptions{.is_master = is_master});
}

// The store that rank 0 of a MachineJob serves at the first machine. Whoever calls this has that job's secret in its environment, and reads it but once.
inline std::shared_ptr<distributed::Store> served_store() {
  const std::string place = TestMachines::address(0) + ":29500";
  auto trust = trust_for("env:// " + place, find_place({place, "MASTER_ADDR"}, Deadline::in_seconds(5), {})->addresses.front());
  EXPECT_TRUE(trust.ok()) << trust.status().text();
  auto store = make_tcp_store({.host = TestMachines::address(0), .port = 29500, .options = {.timeout_s = 30}, .trust = *trust});
  EXPECT_TRUE(store.ok()) << store.status().text();
  return *store;
}

// Under which the ranks meet that join by a given store for the first time.
inline std::string prefix_in(distributed::Store& store) { return fmt::format("unisono/meeting/{:016x}", hash_text(store.get("unisono/world/1/name"))); }
inline const std::string served_prefix = "unisono/meeting";

}  // namespace unisono::testing
