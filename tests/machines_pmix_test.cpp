// Ranks on two machines that a resource manager has started, and for whom it passes on where they meet. PMIx is a stand-in here (tests/pmix_stand_in); tests/clusters
// has jobs under a real one.
#include <gtest/gtest.h>

#include "tests/support/losses.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/pmix_job.hpp"

namespace unisono::testing {
namespace {

using MachinesPmix = OnMachinesWithPmix;

TEST_F(MachinesPmix, ranks_meet_with_nothing_set_and_meet_again) {
  const TestMachines machines(2);
  const MachineJob scene = job(UNISONO_PMIX_STAND_IN);
  Children children(4, [&](int rank) {
    become(machines, scene, rank);
    for (int world = 0; world < 2; ++world) {
      distributed::init_process_group({});
      EXPECT_EQ(distributed::get_rank(), rank);
      expect_sum(rank, 4, 100);
      distributed::destroy_process_group();
    }
  }, 60);
  expect_all_succeeded(children.wait());
}

TEST_F(MachinesPmix, why_rank_0_cannot_is_said_on_all_ranks_in_time) {
  const TestMachines machines(2);
  const MachineJob scene = job(UNISONO_PMIX_STAND_IN);
  const Outcomes outcomes(4);
  Children children(4, [&](int rank) {
    become(machines, scene, rank);
    if (rank == 0) setenv("UNISONO_SOCKET_IFNAME", "nowhere", 1);
    outcomes.note(rank, [] { distributed::init_process_group({}); });
  }, 60);
  expect_all_succeeded(children.wait());
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::init) << rank;
    EXPECT_NE(outcomes.of(rank).text().find("UNISONO_SOCKET_IFNAME"), std::string::npos) << outcomes.of(rank).text();
    EXPECT_LT(outcomes.of(rank).took_s(), 5);
  }
}

TEST_F(MachinesPmix, a_launcher_that_does_not_answer_is_named) {
  const TestMachines machines(2);
  const MachineJob scene = job(UNISONO_PMIX_STAND_IN, {{"PMIX_STAND_IN_FOLDER", ""}});
  const Outcomes outcomes(4);
  Children children(4, [&](int rank) {
    become(machines, scene, rank);
    outcomes.note(rank, [] { distributed::init_process_group({}); });
  }, 60);
  expect_all_succeeded(children.wait());
  for (int rank = 0; rank < 4; ++rank) EXPECT_NE(outcomes.of(rank).text().find("PMIx_Init"), std::string::npos) << outcomes.of(rank).text();
}

}  // namespace
}  // namespace unisono::testing
