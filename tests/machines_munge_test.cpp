// Ranks on two machines whose user has made no secret: rank 0 makes one, which munge hands out. PMIx and munge are stand-ins here; tests/clusters has both as they are.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "tests/support/losses.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/pmix_job.hpp"

namespace unisono::testing {
namespace {

class MachinesMunge : public OnMachinesWithPmix {
 protected:
  // How joining ends on each rank, and a sum if it went well.
  Outcomes join(const std::string& munge, const std::map<std::string, std::string>& variables, int worlds = 1) const {
    const TestMachines machines(2);
    const MachineJob scene = job(UNISONO_PMIX_STAND_IN, variables);
    Outcomes outcomes(4);
    Children children(4, [&](int rank) {
      become(machines, scene, rank);
      if (!variables.contains("UNISONO_SECRET")) unsetenv("UNISONO_SECRET");
      setenv("MUNGE_STAND_IN", munge.c_str(), 1);
      ASSERT_TRUE(dlopen(UNISONO_MUNGE_STAND_IN, RTLD_NOW)) << dlerror();  // from now on it is the process's libmunge.so.2
      for (int world = 0; world < worlds; ++world) {
        outcomes.note(rank, [] { distributed::init_process_group({}); });
        if (!distributed::is_initialized()) return;
        expect_sum(rank, 4, 100);
        distributed::destroy_process_group();
      }
    }, 60);
    expect_all_succeeded(children.wait());
    return outcomes;
  }
};

TEST_F(MachinesMunge, ranks_need_no_secret_and_meet_again) {
  const Outcomes outcomes = join("", {}, 2);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(outcomes.of(rank).code, ErrorCode::ok) << outcomes.of(rank).text();
}

TEST_F(MachinesMunge, is_not_asked_where_there_is_a_secret) {
  const Outcomes outcomes = join("no-daemon", {{"UNISONO_SECRET", std::string(64, 'b')}});
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(outcomes.of(rank).code, ErrorCode::ok) << outcomes.of(rank).text();
}

TEST_F(MachinesMunge, why_it_hands_out_none_is_said_by_all) {
  const Outcomes outcomes = join("no-daemon", {});
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::auth) << outcomes.of(rank).text();
    for (const char* part : {"nobody is at the socket", "unisono secret new"}) EXPECT_NE(outcomes.of(rank).text().find(part), std::string::npos) << outcomes.of(rank).text();
  }
}

TEST_F(MachinesMunge, what_somebody_else_has_sealed_is_not_believed) {
  const Outcomes outcomes = join("stranger", {{"UNISONO_JOIN_TIMEOUT", "3"}});
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::auth) << outcomes.of(rank).text();
    EXPECT_NE(outcomes.of(rank).text().find("sealed by user"), std::string::npos) << outcomes.of(rank).text();
  }
  EXPECT_EQ(outcomes.of(0).code, ErrorCode::init) << outcomes.of(0).text();
}

TEST_F(MachinesMunge, what_cannot_be_opened_is_said_in_its_words) {
  const Outcomes outcomes = join("closed", {{"UNISONO_JOIN_TIMEOUT", "3"}});
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_EQ(outcomes.of(rank).code, ErrorCode::auth) << outcomes.of(rank).text();
    EXPECT_NE(outcomes.of(rank).text().find("not a credential of this cluster"), std::string::npos) << outcomes.of(rank).text();
  }
}

}  // namespace
}  // namespace unisono::testing
