// Who started this process, as which rank of how many, and what names the job. A pure function of a recorded
// environment; the table of launchers is in launchers.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/ancestors.hpp"
#include "unisono/settings.hpp"
#include "unisono/status.hpp"

namespace unisono {

// What a launcher says; a value. Without a launcher it is a world of one, which is what a default LaunchInfo is.
struct LaunchInfo {
  std::string launcher = "none";
  int rank = 0;
  int size = 1;
  int local_rank = 0;                   // -1 where the launcher does not say
  int local_size = 1;                   // likewise
  std::string job;                      // equal on all ranks of a job, different between jobs; empty for a world of one
  bool all_local = true;                // every rank is on this machine
  std::string meeting_point = {};       // host:port where ranks of several machines may meet; empty where none is given
  std::string meeting_variable = {};    // which says so, for errors
  bool meeting_point_is_taken = false;  // the launcher itself listens there: never bind it
  bool has_pmix = false;                // the launcher answers to PMIx, by the same rank: it can pass on where to meet
  bool is_rank = true;  // false in msrun's scheduler, which runs the program too but takes no part in it

  bool operator==(const LaunchInfo&) const = default;
};

// InitError names the variable, its value and what was expected. `ancestors` is looked at for Hydra only.
Result<LaunchInfo> launch_info(const Environment& environment, const std::vector<Ancestor>& ancestors = {});

// Whether the launcher is one that says by PMIx alone how many ranks there are and where this one stands. Then the environment needs what pmix_launch.hpp adds.
bool is_launched_by_pmix(const Environment& environment);

// How the launcher of this job would have to be called so that it passed on where ranks meet; empty: it does, or cannot.
std::string_view call_with_pmix(const LaunchInfo& info);

// The variables whose presence tells of a launcher other than `unisono run`, which takes them away from the ranks it
// starts: a rank that sees one of them was started by that launcher inside `unisono run`.
std::vector<std::string_view> foreign_launch_signs();

}  // namespace unisono
