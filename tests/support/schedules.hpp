// Schedules of all ranks of a group, as tests make them, and what verify must say of those that are wrong.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "algorithms/catalogue.hpp"
#include "schedule/builder.hpp"
#include "schedule/verify.hpp"

namespace unisono::testing {

using Set = std::vector<Schedule>;

inline Set schedules_of(Collective collective, std::string_view name, int ranks, int root = 0) {
  Set set;
  for (int rank = 0; rank < ranks; ++rank)
    set.push_back(find_algorithm(collective, name)->generate({rank, ranks, root}));
  return set;
}

inline void expect_rejected(const Set& set, std::initializer_list<std::string_view> parts, VerifyOptions options = {}) {
  const Status status = verify(set, options);
  EXPECT_EQ(status.code(), ErrorCode::internal);
  for (std::string_view part : parts)
    EXPECT_NE(status.message().find(part), std::string::npos) << "wanted: " << part << "\nsaid: " << status.message();
}

inline Set schedules_of(const Algorithm& algorithm, int ranks, const Hosts& hosts, int root = 0) {
  Set set;
  for (int rank = 0; rank < ranks; ++rank) set.push_back(algorithm.generate({rank, ranks, root, hosts}));
  return set;
}

// The same schedules, said to be of ranks on these hosts.
inline Set on_hosts(Set set, const Hosts& hosts) {
  for (Schedule& schedule : set) schedule.place.hosts = hosts;
  return set;
}

// One schedule a rank, made by a function that writes it with a Builder.
inline Set written(Collective collective, int ranks, const std::function<void(Builder&, int rank)>& write,
            int stage_slots = 0) {
  Set set;
  for (int rank = 0; rank < ranks; ++rank) {
    Builder plan(collective, "by_hand", {.rank = rank, .ranks = ranks});
    write(plan, rank);
    set.push_back(plan.finish(stage_slots));
  }
  return set;
}

}  // namespace unisono::testing
