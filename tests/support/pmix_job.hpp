// A job of four ranks on two machines, as a launcher that answers to PMIx would start it. tests/pmix_stand_in is in its place.
#pragma once

#include "tests/support/file_tree.hpp"
#include "tests/support/machine_job.hpp"

namespace unisono::testing {

class OnMachinesWithPmix : public OnMachines {
 protected:
  // `stand_in`: the prefix below which it lies.
  MachineJob job(const std::string& stand_in, std::map<std::string, std::string> variables = {}) const {
    variables.insert({{"PMIX_NAMESPACE", "prterun-one-4711@1"},
                      {"PMIX_PREFIX", stand_in},
                      {"PMIX_STAND_IN_FOLDER", folder_.root()},
                      {"PMIX_STAND_IN_SIZE", "4"},
                      {"PMIX_STAND_IN_LOCAL_RANKS", "2"}});
    return {.machine_of_rank = {0, 0, 1, 1}, .variables = variables};
  }
  static void become(const TestMachines& machines, const MachineJob& job, int rank) {
    become_rank(machines, job, rank);
    setenv("PMIX_RANK", std::to_string(rank).c_str(), 1);
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
  }

  FileTree folder_{{}};
};

}  // namespace unisono::testing
