// The table of launchers: by which variable each is known, where it says rank and size, and what names its job.
// Values are read by launch_values.hpp; the answer is used in group/launch.cpp.
#include "rendezvous/launchers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "rendezvous/launch_values.hpp"
#include "rendezvous/pmix_launch.hpp"

namespace unisono {
namespace {

struct Sight {  // all that a launcher is judged by
  const Environment& environment;
  const std::vector<Ancestor>& ancestors;
};

bool by_its_sign(const Environment&) { return true; }

bool by_hand(const Environment& environment) {
  return is_set(environment, "RANK") || is_set(environment, "WORLD_SIZE");
}

// srun's pmi2 plug-in sets PMI_RANK too, but not the variables by which Hydra tells a rank its place on the host.
bool by_hydra(const Environment& environment) {
  return is_set(environment, "MPI_LOCALRANKID") || !is_set(environment, "SLURM_PROCID");
}

// A batch script and an interactive shell are in an allocation, yet no step of several tasks started them: the script
// has SLURM_PROCID=0 without a step, a shell has a step of one task, in which ranks may be started by hand.
bool by_slurm(const Environment& environment) {
  constexpr int64_t first_reserved_step = 0xfffffff0;  // batch, interactive and external steps are numbered from here
  std::optional<int64_t> step = integer(text_of(environment, "SLURM_STEP_ID"));
  if (!step || *step >= first_reserved_step) return false;
  return text_of(environment, "SLURM_STEP_NUM_TASKS") != "1" || !is_set(environment, "RANK");
}

// srun's pmix plug-in says rank and size in Slurm's own variables.
bool by_pmix(const Environment& environment) { return !text_of(environment, "PMIX_NAMESPACE").starts_with("slurm.pmix"); }

constexpr std::string_view unset_it = "unset the variable if another launcher left it behind";
constexpr std::string_view by_hand_needs =
    "env:// needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; `unisono run -n 4 -- ./program` sets them";

struct Launcher {
  std::string_view name;
  std::string_view sign;  // no other launcher sets this variable; empty where there is none
  std::string_view rank, size;
  std::string_view local_rank = {}, local_size = {};   // read where they are set: not every launcher says these
  std::string_view host_index = {};                    // the index into local_size, where that lists all hosts
  std::string_view host = {}, port = {};               // where rank 0 is to be found
  bool port_is_taken = false;                          // by the launcher, which listens there itself
  bool may_have_pmix = false;                          // it does, if it sets PMIX_RANK as well
  std::string_view call_with_pmix = {};                // if it does so only when asked
  bool (*launched)(const Environment&) = by_its_sign;  // the rest of the evidence
  Result<std::string> (*job)(const Sight&, const LaunchInfo&);
  std::string_view remedy = unset_it;
};

std::string_view text(const Sight& sight, std::string_view name) { return text_of(sight.environment, name); }

Result<std::string> no_name(std::string_view reason) { return Status(ErrorCode::init, std::string(reason)); }

// Each agent, one for each machine, counts restarts for itself, and only those that its own ranks caused: if a rank of another machine dies, it may count
// none. So several agents may give different counts to the ranks of one attempt. With one agent the count keeps an attempt apart from what is left of the last.
Result<std::string> job_of_torchrun(const Sight& sight, const LaunchInfo& info) {
  const bool has_one_agent = integer(text(sight, "GROUP_WORLD_SIZE")).value_or(1) == 1;
  const std::string restart = has_one_agent ? fmt::format(" restart {}", text(sight, "TORCHELASTIC_RESTART_COUNT")) : "";
  return fmt::format("torchrun {}{} at {}", text(sight, "TORCHELASTIC_RUN_ID"), restart, info.meeting_point);
}

Result<std::string> job_of_meeting_point(const Sight&, const LaunchInfo& info) {
  return fmt::format("{} {}", info.launcher, info.meeting_point);
}

// The namespace of Open MPI 4 has 16 bits that differ between jobs; the key it gives to its transports is random.
Result<std::string> job_of_open_mpi(const Sight& sight, const LaunchInfo&) {
  std::string_view name = text(sight, "PMIX_NAMESPACE");
  if (name.empty()) return no_name("PMIX_NAMESPACE is not set, by which Open MPI names a job");
  return fmt::format("Open MPI {} {}", name, text(sight, "OMPI_MCA_orte_precondition_transports"));
}

// Hydra says nothing about the job in the environment. Its proxy, which is the parent of all ranks on a host, has the
// address of mpiexec on its command line, the same on every host; Intel's has not, so there the proxy itself stands
// for the job, which does for one host.
Result<std::string> job_of_hydra(const Sight& sight, const LaunchInfo& info) {
  auto proxy = std::find_if(sight.ancestors.begin(), sight.ancestors.end(),
                            [](const Ancestor& ancestor) { return ancestor.name == "hydra_pmi_proxy"; });
  if (proxy == sight.ancestors.end()) return no_name("PMI_RANK is set, but no hydra_pmi_proxy is above this process");
  std::string_view mpiexec = argument_after("--control-port", proxy->command);
  if (!mpiexec.empty()) return fmt::format("Hydra {} group {}", mpiexec, argument_after("--pgid", proxy->command));
  if (info.all_local) return fmt::format("Hydra proxy {} started {}", proxy->pid, proxy->start_ticks);
  return no_name("this Hydra gives the job no name that all hosts know");
}

Result<std::string> job_of_pmix(const Sight& sight, const LaunchInfo&) {
  std::string_view name = text(sight, "PMIX_NAMESPACE");
  if (name.empty()) return no_name("PMIX_NAMESPACE is not set, by which PMIx names a job");
  return fmt::format("PMIx {}", name);
}

Result<std::string> job_of_slurm(const Sight& sight, const LaunchInfo&) {
  std::string_view job = text(sight, "SLURM_JOB_ID");
  if (job.empty()) return no_name("SLURM_JOB_ID is not set, by which Slurm names a job");
  return fmt::format("Slurm {}.{}", job, text(sight, "SLURM_STEP_ID"));
}

Result<std::string> job_of_unisono_run(const Sight&, const LaunchInfo&) {
  return no_name("UNISONO_JOB is not set, by which unisono run names a job");  // name_job uses it wherever it is set
}

// The first row that fits is taken, so launchers that are started inside others stand above those. Slurm stands below
// all that use it to reach the hosts. Whatever is set by hand (env://) comes last, since such variables outlive what
// they were set for. `unisono run` may stand low because it takes the signs of the others away from its ranks.
// clang-format off
constexpr Launcher launchers[] = {
    {.name = "torchrun", .sign = "TORCHELASTIC_RUN_ID",
     .rank = "RANK", .size = "WORLD_SIZE", .local_rank = "LOCAL_RANK", .local_size = "LOCAL_WORLD_SIZE",
     .host = "MASTER_ADDR", .port = "MASTER_PORT", .port_is_taken = true,
     .job = job_of_torchrun},
    // RANK_ID and RANK are no substitute for MS_NODE_ID: msrun leaves the scheduler's 0 in the first where it assigns
    // ranks late, and puts the place on the host into the second.
    {.name = "msrun", .sign = "MS_ROLE",
     .rank = "MS_NODE_ID", .size = "MS_WORKER_NUM", .local_rank = "LOCAL_RANK",
     .host = "MS_SCHED_HOST", .port = "MS_SCHED_PORT", .port_is_taken = true,
     .job = job_of_meeting_point, .remedy = "on several hosts msrun sets ranks only with --node_rank"},
    {.name = "Open MPI", .sign = "OMPI_COMM_WORLD_RANK",
     .rank = "OMPI_COMM_WORLD_RANK", .size = "OMPI_COMM_WORLD_SIZE",
     .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK", .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .may_have_pmix = true, .job = job_of_open_mpi},
    {.name = "Hydra", .sign = "PMI_RANK",
     .rank = "PMI_RANK", .size = "PMI_SIZE", .local_rank = "MPI_LOCALRANKID", .local_size = "MPI_LOCALNRANKS",
     .launched = by_hydra, .job = job_of_hydra},
    // prterun, and whatever else starts ranks as PMIx has it. All but the rank is asked of it: see pmix_launch.hpp.
    {.name = "PMIx", .sign = "PMIX_RANK",
     .rank = "PMIX_RANK", .size = pmix_job_size, .local_rank = pmix_local_rank, .local_size = pmix_local_size,
     .may_have_pmix = true, .launched = by_pmix, .job = job_of_pmix},
    {.name = "Slurm", .sign = "SLURM_PROCID",
     .rank = "SLURM_PROCID", .size = "SLURM_NTASKS",
     .local_rank = "SLURM_LOCALID", .local_size = "SLURM_STEP_TASKS_PER_NODE", .host_index = "SLURM_NODEID",
     .may_have_pmix = true, .call_with_pmix = "srun --mpi=pmix", .launched = by_slurm, .job = job_of_slurm},
    {.name = "unisono run", .sign = "UNISONO_LAUNCHER",
     .rank = "RANK", .size = "WORLD_SIZE", .local_rank = "LOCAL_RANK", .local_size = "LOCAL_WORLD_SIZE",
     .host = "MASTER_ADDR", .port = "MASTER_PORT",
     .job = job_of_unisono_run},
    {.name = "env://", .sign = "",
     .rank = "RANK", .size = "WORLD_SIZE", .local_rank = "LOCAL_RANK", .local_size = "LOCAL_WORLD_SIZE",
     .host = "MASTER_ADDR", .port = "MASTER_PORT",
     .launched = by_hand, .job = job_of_meeting_point, .remedy = by_hand_needs},
};
// clang-format on

// msrun starts the program once more as its scheduler, which MindSpore keeps inside init() until the job has ended.
Status read_role(const LaunchValues& values, LaunchInfo& info) {
  std::string_view role = values.text("MS_ROLE");
  info.is_rank = role != "MS_SCHED";
  if (!info.is_rank || role == "MS_WORKER") return Status::success();
  return values.wrong("MS_ROLE", "MS_WORKER or MS_SCHED");
}

Status read_ranks(const Launcher& row, const LaunchValues& values, LaunchInfo& info) {
  RETURN_IF_ERROR(values.read(row.size, {.least = 1}, info.size));
  info.rank = -1;
  if (!info.is_rank) return Status::success();
  return values.read(row.rank, {.most = info.size - 1, .most_because = row.size}, info.rank);
}

Status read_local_size(const Launcher& row, const LaunchValues& values, LaunchInfo& info) {
  const Range range{.least = 1, .most = info.size, .most_because = row.size};
  if (row.host_index.empty()) return values.read(row.local_size, range, info.local_size);
  int host = 0;
  RETURN_IF_ERROR(values.read(row.host_index, {}, host));
  RETURN_IF_ERROR(values.read_from_list(row.local_size, host, info.local_size));
  if (info.local_size <= info.size) return Status::success();
  return values.wrong(row.local_size, fmt::format("at most {} tasks, since {}={}", info.size, row.size, info.size));
}

Status read_place_on_host(const Launcher& row, const LaunchValues& values, LaunchInfo& info) {
  info.local_rank = info.local_size = -1;
  if (values.has(row.local_size)) RETURN_IF_ERROR(read_local_size(row, values, info));
  if (!info.is_rank || !values.has(row.local_rank)) return Status::success();
  const bool is_bounded = info.local_size > 0;
  return values.read(
      row.local_rank,
      {.most = (is_bounded ? info.local_size : info.size) - 1, .most_because = is_bounded ? row.local_size : row.size},
      info.local_rank);
}

Status read_meeting_point(const Launcher& row, const LaunchValues& values, LaunchInfo& info) {
  info.all_local = info.local_size == info.size || info.size == 1;
  if (row.host.empty() || (info.size == 1 && !values.has(row.host))) return Status::success();
  RETURN_IF_ERROR(values.require(row.host, "the address of rank 0's machine"));
  int port = 0;
  RETURN_IF_ERROR(values.read(row.port, {.least = 1, .most = 65535}, port));
  info.meeting_point = address(values.text(row.host), port);
  info.meeting_variable = row.host;
  info.meeting_point_is_taken = row.port_is_taken;
  info.all_local = info.all_local || is_loopback(values.text(row.host));
  return Status::success();
}

// A name given by the user only ever adds to that of the launcher, so that a forgotten one joins no two jobs.
Status name_job(const Launcher& row, const Sight& sight, LaunchInfo& info) {
  std::string_view given = text(sight, "UNISONO_JOB");
  Result<std::string> own = row.job(sight, info);
  if (!own.ok() && given.empty())
    return {ErrorCode::init, fmt::format("{} (launched by {}): expected UNISONO_JOB, a name for this job that is equal "
                                         "on all its ranks and on no others",
                                         own.status().message(), row.name)};
  info.job = own.ok() ? *own : info.launcher;
  if (!given.empty()) info.job += fmt::format(" {}", given);
  return Status::success();
}

Result<LaunchInfo> read(const Launcher& row, const Sight& sight) {
  const LaunchValues values(sight.environment, row.name, row.remedy);
  LaunchInfo info;
  info.launcher = row.name;
  if (row.sign == "MS_ROLE") RETURN_IF_ERROR(read_role(values, info));
  RETURN_IF_ERROR(read_ranks(row, values, info));
  RETURN_IF_ERROR(read_place_on_host(row, values, info));
  RETURN_IF_ERROR(read_meeting_point(row, values, info));
  info.has_pmix = row.may_have_pmix && values.has("PMIX_NAMESPACE") && integer(values.text("PMIX_RANK")) == info.rank;
  if (info.all_local && info.local_size < 0) info.local_size = info.size;
  if (info.local_size == info.size && info.local_rank < 0) info.local_rank = info.rank;
  RETURN_IF_ERROR(name_job(row, sight, info));
  return info;
}

const Launcher* launcher_in(const Environment& environment) {
  for (const Launcher& row : launchers)
    if ((row.sign.empty() || is_set(environment, row.sign)) && row.launched(environment)) return &row;
  return nullptr;
}

}  // namespace

Result<LaunchInfo> launch_info(const Environment& environment, const std::vector<Ancestor>& ancestors) {
  const Launcher* row = launcher_in(environment);
  return row ? read(*row, {environment, ancestors}) : LaunchInfo{};
}

std::string_view call_with_pmix(const LaunchInfo& info) {
  const auto row = std::ranges::find(launchers, std::string_view(info.launcher), &Launcher::name);
  return info.has_pmix || row == std::end(launchers) ? std::string_view() : row->call_with_pmix;
}

bool is_launched_by_pmix(const Environment& environment) {
  const Launcher* row = launcher_in(environment);
  return row && row->sign == "PMIX_RANK";
}

std::vector<std::string_view> foreign_launch_signs() {
  std::vector<std::string_view> signs;
  for (const Launcher& row : launchers) {
    if (row.name == "unisono run") break;
    signs.push_back(row.sign);
  }
  return signs;
}

}  // namespace unisono
