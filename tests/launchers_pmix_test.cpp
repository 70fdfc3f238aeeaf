// Launchers that answer to PMIx: which of them say by it alone what they started, and which can pass on where the ranks meet. See launchers.hpp; the others are in
// launchers_test. What PMIx says stands in the environment as pmix_launch.hpp enters it.
#include <gtest/gtest.h>

#include "rendezvous/launchers.hpp"
#include "rendezvous/pmix_launch.hpp"

namespace unisono {
namespace {

Environment operator+(Environment left, const Environment& right) {
  left.insert(right.begin(), right.end());
  return left;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

LaunchInfo read(const Environment& environment) {
  Result<LaunchInfo> info = launch_info(environment);
  EXPECT_TRUE(info.ok()) << info.status().text();
  return info.ok() ? *info : LaunchInfo{};
}

const Environment said_by_pmix = {{std::string(pmix_job_size), "4"}, {std::string(pmix_local_rank), "1"}, {std::string(pmix_local_size), "2"}};
const Environment by_prterun = Environment{{"PMIX_NAMESPACE", "prterun-one-4711@1"}, {"PMIX_RANK", "1"}, {"PMIX_VERSION", "5.0.3"}} + said_by_pmix;
const Environment by_open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Environment by_srun = {{"SLURM_JOB_ID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"},
                             {"SLURM_NODEID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}};

TEST(LaunchersWithPmix, prterun) {
  EXPECT_EQ(read(by_prterun), (LaunchInfo{.launcher = "PMIx",
                                          .rank = 1,
                                          .size = 4,
                                          .local_rank = 1,
                                          .local_size = 2,
                                          .job = "PMIx prterun-one-4711@1",
                                          .all_local = false,
                                          .has_pmix = true}));
  Result<LaunchInfo> nameless = launch_info(without(by_prterun, "PMIX_NAMESPACE"));
  ASSERT_FALSE(nameless.ok());
  EXPECT_NE(nameless.status().text().find("PMIX_NAMESPACE"), std::string::npos) << nameless.status().text();
}

TEST(LaunchersWithPmix, is_asked_only_where_nobody_else_says_it) {
  EXPECT_TRUE(is_launched_by_pmix(without(by_prterun, std::string(pmix_job_size))));
  EXPECT_FALSE(is_launched_by_pmix(by_prterun + by_open_mpi));
  EXPECT_FALSE(is_launched_by_pmix(by_prterun + Environment{{"TORCHELASTIC_RUN_ID", "7d1c"}}));
  EXPECT_TRUE(is_launched_by_pmix(by_prterun + by_srun)) << "srun reached its hosts";
  EXPECT_FALSE(is_launched_by_pmix({}));
}

TEST(LaunchersWithPmix, open_mpi_and_srun_pass_on_where_they_have_it) {
  EXPECT_FALSE(read(by_srun).has_pmix);
  const LaunchInfo by_plugin = read(by_srun + Environment{{"PMIX_NAMESPACE", "slurm.pmix.1.0"}, {"PMIX_RANK", "1"}});
  EXPECT_EQ(by_plugin.launcher, "Slurm");
  EXPECT_TRUE(by_plugin.has_pmix);
  EXPECT_EQ(call_with_pmix(by_plugin), "");
  EXPECT_EQ(call_with_pmix(read(by_srun)), "srun --mpi=pmix");
  EXPECT_EQ(call_with_pmix({}), "");
  const Environment mpirun = by_open_mpi + Environment{{"PMIX_NAMESPACE", "2098724865"}, {"PMIX_RANK", "1"}};
  EXPECT_TRUE(read(mpirun).has_pmix);
  EXPECT_FALSE(read(without(mpirun, "PMIX_RANK")).has_pmix);
  EXPECT_FALSE(read(without(mpirun, "PMIX_RANK") + Environment{{"PMIX_RANK", "0"}}).has_pmix) << "left behind by another launcher";
}

}  // namespace
}  // namespace unisono
