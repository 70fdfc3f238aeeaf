// Each launcher's row against an environment as that launcher sets it. Those of Open MPI 4.1, Hydra 4.0 and Slurm 22.05
// were recorded from ranks that they started; those of torchrun and msrun follow their sources.
#include "rendezvous/launchers.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace unisono {
namespace {

Environment operator+(Environment left, const Environment& right) {
  for (const auto& [name, value] : right) left[name] = value;
  return left;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

LaunchInfo read(const Environment& environment, const std::vector<Ancestor>& ancestors = {}) {
  Result<LaunchInfo> info = launch_info(environment, ancestors);
  EXPECT_TRUE(info.ok()) << info.status().text();
  return info.ok() ? *info : LaunchInfo{};
}

std::string error(const Environment& environment, const std::vector<Ancestor>& ancestors = {}) {
  Result<LaunchInfo> info = launch_info(environment, ancestors);
  return info.ok() ? "no error: " + info->launcher : info.status().text();
}

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, text);
}

const Environment by_unisono_run = {{"UNISONO_LAUNCHER", "run"},
                                    {"UNISONO_JOB", "4711-5f3a9c21"},
                                    {"RANK", "1"},
                                    {"WORLD_SIZE", "2"},
                                    {"LOCAL_RANK", "1"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", "23456"}};
const Environment by_torchrun = {{"TORCHELASTIC_RUN_ID", "7d1c"},
                                 {"TORCHELASTIC_RESTART_COUNT", "0"},
                                 {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                 {"RANK", "5"},
                                 {"WORLD_SIZE", "8"},
                                 {"LOCAL_RANK", "1"},
                                 {"LOCAL_WORLD_SIZE", "4"},
                                 {"GROUP_RANK", "1"},
                                 {"GROUP_WORLD_SIZE", "2"},
                                 {"ROLE_RANK", "5"},
                                 {"ROLE_WORLD_SIZE", "8"},
                                 {"MASTER_ADDR", "10.0.0.7"},
                                 {"MASTER_PORT", "29400"}};
const Environment by_msrun = {{"MS_ROLE", "MS_WORKER"},
                              {"MS_WORKER_NUM", "4"},
                              {"MS_NODE_ID", "3"},
                              {"MS_SCHED_HOST", "127.0.0.1"},
                              {"MS_SCHED_PORT", "8118"},
                              {"MS_TOPO_TIMEOUT", "600"},
                              {"RANK_ID", "3"},
                              {"RANK_SIZE", "4"},
                              {"RANK", "3"},
                              {"LOCAL_RANK", "3"},
                              {"DEVICE_ID", "3"}};
const Environment by_open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                                 {"OMPI_COMM_WORLD_SIZE", "2"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                 {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                                 {"OMPI_UNIVERSE_SIZE", "2"},
                                 {"OMPI_MCA_ess_base_jobid", "2098724865"},
                                 {"OMPI_MCA_orte_precondition_transports", "bc18fb1838c2fc85-506b40d39b0116d1"},
                                 {"PMIX_NAMESPACE", "2098724865"},
                                 {"PMIX_RANK", "1"}};
const Environment by_hydra = {{"PMI_RANK", "1"},        {"PMI_SIZE", "2"},        {"PMI_FD", "8"},
                              {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}, {"HYDI_CONTROL_FD", "7"}};
const std::vector<Ancestor> under_hydra = {
    {301, "wrapper.sh", 9100, {"/bin/sh", "./wrapper.sh"}},
    {300,
     "hydra_pmi_proxy",
     9000,
     {"/usr/bin/hydra_pmi_proxy", "--control-port", "host:32989", "--rmk", "user", "--pgid", "0", "--proxy-id", "0"}},
    {299, "mpiexec.hydra", 8999, {"mpiexec.hydra", "-n", "2", "./wrapper.sh"}}};
const Environment by_slurm = {{"SLURM_JOB_ID", "1"},
                              {"SLURM_STEP_ID", "0"},
                              {"SLURM_PROCID", "1"},
                              {"SLURM_LOCALID", "1"},
                              {"SLURM_NODEID", "0"},
                              {"SLURM_NTASKS", "2"},
                              {"SLURM_NPROCS", "2"},
                              {"SLURM_NNODES", "1"},
                              {"SLURM_TASKS_PER_NODE", "2"},
                              {"SLURM_STEP_NUM_TASKS", "2"},
                              {"SLURM_STEP_TASKS_PER_NODE", "2"},
                              {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"}};
const Environment slurm_batch_script = {{"SLURM_JOB_ID", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"},
                                        {"SLURM_NODEID", "0"}, {"SLURM_NTASKS", "3"}, {"SLURM_TASKS_PER_NODE", "3"}};
const Environment slurm_shell = {{"SLURM_JOB_ID", "3"}, {"SLURM_NTASKS", "2"}, {"SLURM_TASKS_PER_NODE", "2"}};
const Environment by_hand = {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "10.0.0.7"}, {"MASTER_PORT", "29500"}};

TEST(Launchers, without_a_launcher_the_world_has_one_rank) {
  EXPECT_EQ(read({}), LaunchInfo{});
  EXPECT_EQ(read({{"MASTER_ADDR", "10.0.0.7"}, {"MASTER_PORT", "29500"}, {"LOCAL_RANK", "3"}}), LaunchInfo{});
  EXPECT_EQ(LaunchInfo{}.launcher, "none");
  EXPECT_TRUE(LaunchInfo{}.all_local);
}

TEST(Launchers, unisono_run) {
  EXPECT_EQ(read(by_unisono_run), (LaunchInfo{.launcher = "unisono run",
                                              .rank = 1,
                                              .size = 2,
                                              .local_rank = 1,
                                              .local_size = 2,
                                              .job = "unisono run 4711-5f3a9c21",
                                              .all_local = true,
                                              .meeting_point = "127.0.0.1:23456",
                                              .meeting_variable = "MASTER_ADDR"}));
  expect_says(error(without(by_unisono_run, "UNISONO_JOB")), "UNISONO_JOB");
}

TEST(Launchers, torchrun) {
  EXPECT_EQ(read(by_torchrun), (LaunchInfo{.launcher = "torchrun",
                                           .rank = 5,
                                           .size = 8,
                                           .local_rank = 1,
                                           .local_size = 4,
                                           .job = "torchrun 7d1c at 10.0.0.7:29400",
                                           .all_local = false,
                                           .meeting_point = "10.0.0.7:29400",
                                           .meeting_variable = "MASTER_ADDR",
                                           .meeting_point_is_taken = true}));
}

TEST(Launchers, a_restart_by_one_torchrun_is_another_job) {
  const Environment by_one = by_torchrun + Environment{{"GROUP_WORLD_SIZE", "1"}};
  EXPECT_EQ(read(by_one).job, "torchrun 7d1c restart 0 at 10.0.0.7:29400");
  EXPECT_NE(read(by_one).job, read(by_one + Environment{{"TORCHELASTIC_RESTART_COUNT", "1"}}).job);
}

// An agent whose ranks had to end because of another agent's counts no restart.
TEST(Launchers, several_torchruns_may_count_restarts_differently) {
  EXPECT_EQ(read(by_torchrun).job, read(by_torchrun + Environment{{"TORCHELASTIC_RESTART_COUNT", "1"}}).job);
  EXPECT_NE(read(by_torchrun).job, read(by_torchrun + Environment{{"MASTER_PORT", "29401"}}).job);
  EXPECT_EQ(read(by_torchrun).job, read(by_torchrun + Environment{{"RANK", "0"}, {"LOCAL_RANK", "0"}}).job);
}

TEST(Launchers, two_torchruns_on_one_machine_are_all_local) {
  LaunchInfo info = read(by_torchrun + Environment{{"MASTER_ADDR", "localhost"}});
  EXPECT_TRUE(info.all_local);
  EXPECT_EQ(info.local_size, 4);
}

TEST(Launchers, msrun) {
  EXPECT_EQ(read(by_msrun), (LaunchInfo{.launcher = "msrun",
                                        .rank = 3,
                                        .size = 4,
                                        .local_rank = 3,
                                        .local_size = 4,
                                        .job = "msrun 127.0.0.1:8118",
                                        .all_local = true,
                                        .meeting_point = "127.0.0.1:8118",
                                        .meeting_variable = "MS_SCHED_HOST",
                                        .meeting_point_is_taken = true}));
}

TEST(Launchers, msrun_on_several_hosts_takes_the_rank_from_the_node_id) {
  LaunchInfo info = read(by_msrun + Environment{{"MS_SCHED_HOST", "10.0.0.7"}, {"RANK", "1"}, {"LOCAL_RANK", "1"}});
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.local_size, -1);
  EXPECT_FALSE(info.all_local);
}

TEST(Launchers, msrun_that_assigns_ranks_late_is_refused_with_the_remedy) {
  std::string text = error(without(by_msrun, "MS_NODE_ID") + Environment{{"RANK_ID", "0"}});
  expect_says(text, "InitError: MS_NODE_ID is not set");
  expect_says(text, "--node_rank");
}

TEST(Launchers, msruns_scheduler_is_no_rank) {
  Environment scheduler = without(by_msrun, "MS_NODE_ID") + Environment{{"MS_ROLE", "MS_SCHED"}, {"RANK_ID", "0"}};
  LaunchInfo info = read(scheduler);
  EXPECT_FALSE(info.is_rank);
  EXPECT_EQ(info.rank, -1);
  EXPECT_EQ(info.size, 4);
  EXPECT_EQ(info.job, read(by_msrun).job);
  expect_says(error(by_msrun + Environment{{"MS_ROLE", "MS_PSERVER"}}), "MS_ROLE=\"MS_PSERVER\"");
}

TEST(Launchers, open_mpi) {
  EXPECT_EQ(read(by_open_mpi), (LaunchInfo{.launcher = "Open MPI",
                                           .rank = 1,
                                           .size = 2,
                                           .local_rank = 1,
                                           .local_size = 2,
                                           .job = "Open MPI 2098724865 bc18fb1838c2fc85-506b40d39b0116d1",
                                           .all_local = true,
                                           .meeting_point = "",
                                           .has_pmix = true}));
  EXPECT_FALSE(read(by_open_mpi + Environment{{"OMPI_COMM_WORLD_SIZE", "4"}}).all_local);
  EXPECT_FALSE(read(without(by_open_mpi, "PMIX_RANK")).has_pmix);
  EXPECT_FALSE(read(by_open_mpi + Environment{{"PMIX_RANK", "0"}}).has_pmix) << "of another launcher";
  expect_says(error(without(by_open_mpi, "PMIX_NAMESPACE")), "PMIX_NAMESPACE");
}

TEST(Launchers, hydra_names_the_job_after_its_mpiexec) {
  EXPECT_EQ(read(by_hydra, under_hydra), (LaunchInfo{.launcher = "Hydra",
                                                     .rank = 1,
                                                     .size = 2,
                                                     .local_rank = 1,
                                                     .local_size = 2,
                                                     .job = "Hydra host:32989 group 0",
                                                     .all_local = true,
                                                     .meeting_point = ""}));
}

TEST(Launchers, hydra_without_a_control_port_names_the_job_after_the_proxy_on_one_host_only) {
  std::vector<Ancestor> intel = {{300, "hydra_pmi_proxy", 9000, {"hydra_pmi_proxy", "--usize", "-1"}}};
  EXPECT_EQ(read(by_hydra, intel).job, "Hydra proxy 300 started 9000");
  Environment two_hosts = by_hydra + Environment{{"PMI_SIZE", "4"}};
  expect_says(error(two_hosts, intel), "UNISONO_JOB");
  EXPECT_EQ(read(two_hosts + Environment{{"UNISONO_JOB", "night"}}, intel).job, "Hydra night");
}

TEST(Launchers, hydra_without_its_proxy_asks_for_a_name) {
  expect_says(error(by_hydra), "InitError: PMI_RANK is set, but no hydra_pmi_proxy");
  EXPECT_EQ(read(by_hydra + Environment{{"UNISONO_JOB", "night"}}).job, "Hydra night");
}

TEST(Launchers, slurm) {
  EXPECT_EQ(read(by_slurm), (LaunchInfo{.launcher = "Slurm",
                                        .rank = 1,
                                        .size = 2,
                                        .local_rank = 1,
                                        .local_size = 2,
                                        .job = "Slurm 1.0",
                                        .all_local = true,
                                        .meeting_point = ""}));
  EXPECT_NE(read(by_slurm).job, read(by_slurm + Environment{{"SLURM_STEP_ID", "1"}}).job);
  expect_says(error(without(by_slurm, "SLURM_JOB_ID")), "SLURM_JOB_ID");
}

TEST(Launchers, slurm_lists_the_tasks_of_all_hosts) {
  auto local_size_on = [](const char* host, const char* list) {
    return read(by_slurm + Environment{{"SLURM_NTASKS", "17"},
                                       {"SLURM_LOCALID", "0"},
                                       {"SLURM_NODEID", host},
                                       {"SLURM_STEP_TASKS_PER_NODE", list}})
        .local_size;
  };
  EXPECT_EQ(local_size_on("1", "4(x2)"), 4);
  EXPECT_EQ(local_size_on("0", "5,4(x3)"), 5);
  EXPECT_EQ(local_size_on("3", "5,4(x3)"), 4);
  EXPECT_EQ(local_size_on("4", "5,4(x3),1"), 1);
  for (const char* list : {"4(x", "4(x)", "x2", "4(x2),", "0", "-1", "4(x0)", "4,4", ",", "4;4"})
    expect_says(error(by_slurm + Environment{{"SLURM_NODEID", "9"}, {"SLURM_STEP_TASKS_PER_NODE", list}}),
                "InitError: SLURM_STEP_TASKS_PER_NODE=\"" + std::string(list) + "\"");
}

TEST(Launchers, a_batch_script_or_a_shell_in_an_allocation_is_not_a_launch) {
  EXPECT_EQ(read(slurm_batch_script).launcher, "none");
  EXPECT_EQ(read(slurm_batch_script + Environment{{"SLURM_STEP_ID", "4294967291"}}).launcher, "none");
  EXPECT_EQ(read(slurm_shell).launcher, "none");
  EXPECT_EQ(read(slurm_batch_script + by_hand).launcher, "env://");
}

TEST(Launchers, ranks_started_by_hand_in_a_shell_that_is_a_step_of_one_task) {
  Environment shell = by_slurm + Environment{{"SLURM_PROCID", "0"},
                                             {"SLURM_LOCALID", "0"},
                                             {"SLURM_NTASKS", "1"},
                                             {"SLURM_STEP_NUM_TASKS", "1"},
                                             {"SLURM_STEP_TASKS_PER_NODE", "1"}};
  EXPECT_EQ(read(shell).launcher, "Slurm");
  EXPECT_EQ(read(shell + by_hand).launcher, "env://");
  EXPECT_EQ(read(by_slurm + by_hand).launcher, "Slurm");
}

TEST(Launchers, set_by_hand) {
  EXPECT_EQ(read(by_hand), (LaunchInfo{.launcher = "env://",
                                       .rank = 1,
                                       .size = 4,
                                       .local_rank = -1,
                                       .local_size = -1,
                                       .job = "env:// 10.0.0.7:29500",
                                       .all_local = false,
                                       .meeting_point = "10.0.0.7:29500",
                                       .meeting_variable = "MASTER_ADDR"}));
  EXPECT_EQ(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1);
}

TEST(Launchers, a_loopback_master_means_all_are_local) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.10", "::1", "[::1]"}) {
    LaunchInfo info = read(by_hand + Environment{{"MASTER_ADDR", host}});
    EXPECT_TRUE(info.all_local) << host;
    EXPECT_EQ(info.local_rank, 1) << host;
    EXPECT_EQ(info.local_size, 4) << host;
  }
  EXPECT_EQ(read(by_hand + Environment{{"MASTER_ADDR", "::1"}}).meeting_point, "[::1]:29500");
  for (const char* host : {"128.0.0.1", "fe80::1", "127.example.org", "localhost.example.org"})
    EXPECT_FALSE(read(by_hand + Environment{{"MASTER_ADDR", host}}).all_local) << host;
}

TEST(Launchers, the_launcher_nearest_to_the_program_is_taken) {
  EXPECT_EQ(read(by_slurm + by_torchrun).launcher, "torchrun");
  EXPECT_EQ(read(by_open_mpi + by_torchrun).launcher, "torchrun");
  EXPECT_EQ(read(slurm_batch_script + by_open_mpi).launcher, "Open MPI");
  EXPECT_EQ(read(slurm_shell + by_msrun).launcher, "msrun");
  EXPECT_EQ(read(by_open_mpi + by_hand).launcher, "Open MPI");
  EXPECT_EQ(read(by_unisono_run + by_open_mpi).launcher, "Open MPI");
}

TEST(Launchers, hydra_reaches_its_hosts_with_slurm_which_counts_its_proxies) {
  Environment both = by_slurm + by_hydra + Environment{{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(read(both, under_hydra).launcher, "Hydra");
  EXPECT_EQ(read(both, under_hydra).rank, 1);
}

TEST(Launchers, srun_with_pmi2_is_slurm) {
  EXPECT_EQ(read(by_slurm + Environment{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "1.0"}}).launcher, "Slurm");
}

TEST(Launchers, unisono_run_removes_the_signs_of_all_others) {
  Environment all = by_torchrun + by_msrun + by_open_mpi + by_hydra + by_slurm + by_unisono_run;
  EXPECT_EQ(read(all).launcher, "torchrun");
  for (std::string_view sign : foreign_launch_signs()) all.erase(std::string(sign));
  EXPECT_EQ(read(all).launcher, "unisono run");
}

TEST(Launchers, a_name_of_the_users_adds_to_the_job) {
  EXPECT_EQ(read(by_hand + Environment{{"UNISONO_JOB", "night"}}).job, "env:// 10.0.0.7:29500 night");
}

TEST(Launchers, a_missing_or_garbage_value_is_named_with_what_was_expected) {
  struct Case {
    const char *name, *value, *expected;
  };
  for (const Case& wrong : std::initializer_list<Case>{
           {"WORLD_SIZE", "abc", "a whole number of at least 1"},
           {"WORLD_SIZE", "0", "a whole number of at least 1"},
           {"WORLD_SIZE", "-4", "a whole number of at least 1"},
           {"WORLD_SIZE", "4.0", "a whole number of at least 1"},
           {"WORLD_SIZE", " 4", "a whole number of at least 1"},
           {"WORLD_SIZE", "99999999999999999999", "a whole number of at least 1"},
           {"WORLD_SIZE", "4294967297", "a whole number of at least 1"},
           {"RANK", "4", "from 0 to 3, since WORLD_SIZE=4"},
           {"RANK", "-1", "from 0 to 3"},
           {"RANK", "one", "from 0 to 3"},
           {"LOCAL_RANK", "7", "from 0 to 3"},
           {"LOCAL_WORLD_SIZE", "5", "from 1 to 4, since WORLD_SIZE=4"},
           {"MASTER_PORT", "0", "from 1 to 65535"},
           {"MASTER_PORT", "65536", "from 1 to 65535"},
       }) {
    std::string text = error(by_hand + Environment{{wrong.name, wrong.value}});
    expect_says(text, std::string("InitError: ") + wrong.name + "=\"" + wrong.value + "\"");
    expect_says(text, wrong.expected);
  }
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    expect_says(error(without(by_hand, name)), std::string("InitError: ") + name + " is not set");
    expect_says(error(by_hand + Environment{{name, ""}}), std::string(name) + " is not set");
  }
  expect_says(error({{"RANK", "0"}}), "unisono run -n 4");
}

TEST(Launchers, every_launchers_rank_and_size_are_checked) {
  struct Case {
    const Environment& environment;
    const char *rank, *size;
  };
  for (const Case& launcher : std::initializer_list<Case>{{by_unisono_run, "RANK", "WORLD_SIZE"},
                                                          {by_torchrun, "RANK", "WORLD_SIZE"},
                                                          {by_msrun, "MS_NODE_ID", "MS_WORKER_NUM"},
                                                          {by_open_mpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                          {by_hydra, "PMI_RANK", "PMI_SIZE"},
                                                          {by_slurm, "SLURM_PROCID", "SLURM_NTASKS"}}) {
    expect_says(error(launcher.environment + Environment{{launcher.rank, "8"}}), launcher.rank);
    expect_says(error(launcher.environment + Environment{{launcher.size, "abc"}}), launcher.size);
    expect_says(error(without(launcher.environment, launcher.size)), launcher.size);
  }
}

TEST(Ancestors, the_parent_comes_first) {
  std::vector<Ancestor> ancestors = process_ancestors();
  ASSERT_FALSE(ancestors.empty());
  EXPECT_EQ(ancestors.front().pid, ::getppid());
  EXPECT_FALSE(ancestors.front().name.empty());
  EXPECT_GE(ancestors.front().start_ticks, ancestors.back().start_ticks);
}

}  // namespace
}  // namespace unisono
