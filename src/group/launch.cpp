// From the environment to a World: settings, launcher, and the words for what is missing. Next: world.cpp.
#include "group/launch.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include "base/check.hpp"
#include "rendezvous/ancestors.hpp"
#include "rendezvous/launchers.hpp"

namespace unisono {
namespace {

Result<LaunchInfo> who_am_i(const LaunchRequest& request, const Environment& environment) {
  if (request.rank.has_value() != request.size.has_value())
    return Status(ErrorCode::argument, "rank and world_size go together: give both or neither");
  if (!request.rank) return launch_info(environment, process_ancestors());
  LaunchInfo info;
  info.launcher = "program";
  info.rank = info.local_rank = *request.rank;
  info.size = info.local_size = *request.size;
  if (auto launched = launch_info(environment, process_ancestors()); launched.ok()) info.job = launched->job;
  return info;
}

}  // namespace

Result<std::shared_ptr<World>> launch(const LaunchRequest& request, const Environment& environment) {
  auto settings = settings_from(environment);
  if (!settings.ok()) return settings.status();
  if (request.timeout_s && !(*request.timeout_s > 0))
    return Status(ErrorCode::argument, fmt::format("timeout_s is {}; it must be more than 0", *request.timeout_s));
  if (request.timeout_s) settings->timeout_s = *request.timeout_s;
  auto info = who_am_i(request, environment);
  if (!info.ok()) return info.status();
  if (!info->is_rank)
    return Status(ErrorCode::init, "this process is msrun's scheduler, which takes no part in the job");
  if (!info->all_local)
    return Status(ErrorCode::init, fmt::format("{} started this job on several machines ({} ranks, {} here), and this build "
                                               "joins ranks of one machine only; start all of them on one",
                                               info->launcher, info->size, info->local_size));
  WorldOptions options;
  options.rank = info->rank;
  options.size = info->size;
  options.local_rank = info->local_rank < 0 ? info->rank : info->local_rank;
  options.local_size = info->local_size < 0 ? info->size : info->local_size;
  options.launcher = info->launcher;
  options.job = !request.job.empty() ? request.job : !info->job.empty() ? info->job : settings->job;
  if (options.job.empty() && options.size > 1)
    return Status(ErrorCode::init, fmt::format("rank {} of {}: nothing says which job this is; set UNISONO_JOB to the same text on "
                                               "all ranks, or start them with `unisono run -n {} …`", options.rank, options.size, options.size));
  if (options.job.empty()) options.job = fmt::format("alone {}", getpid());
  options.settings = std::move(*settings);
  if (info->launcher == "none")
    Log("warning", -1).warning("no launcher found, world of 1; start with `unisono run -n 4 …`");
  return World::join(std::move(options));
}

}  // namespace unisono
