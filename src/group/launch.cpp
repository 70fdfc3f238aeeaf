// From the environment to a World: settings, launcher, and the words for what is missing. Next: world.cpp.
#include "group/launch.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include "base/check.hpp"
#include "rendezvous/ancestors.hpp"
#include "rendezvous/job_names.hpp"
#include "rendezvous/launchers.hpp"
#include "rendezvous/tcp_store.hpp"
#include "rendezvous/trust_for.hpp"
#include "trust/secret.hpp"

namespace unisono {
namespace {

Result<LaunchInfo> who_am_i(const LaunchRequest& request, const Environment& environment) {
  if (request.rank.has_value() != request.size.has_value())
    return Status(ErrorCode::argument, "rank and world_size go together: give both or neither");
  auto method = init_method_of(request.init_method);
  if (!method.ok()) return method.status();
  if (request.store && !request.init_method.empty())
    return Status(ErrorCode::argument, fmt::format("init_method \"{}\" and store are two ways to meet; give one of them",
                                                   request.init_method));
  const bool by_file = method->kind == InitMethod::Kind::file, by_tcp = method->kind == InitMethod::Kind::tcp;
  if ((by_file || by_tcp || request.store) && !request.rank)
    return Status(ErrorCode::argument, fmt::format("{} needs rank and world_size", request.store ? "store" : request.init_method));
  if (!request.rank) return launch_info(environment, process_ancestors());
  LaunchInfo info;
  info.launcher = by_file ? "file" : by_tcp ? "tcp" : request.store ? "store" : "program";
  info.rank = info.local_rank = *request.rank;
  info.size = info.local_size = *request.size;
  if (by_tcp) {
    info.meeting_point = method->path;
    info.job = request.init_method;
    info.all_local = false;
  }
  if (by_file || by_tcp || request.store) return info;  // the name comes last: see join_by_file and join_by_store
  if (auto launched = launch_info(environment, process_ancestors()); launched.ok()) info.job = launched->job;
  return info;
}

Result<std::shared_ptr<World>> join_by_file(const std::string& path, WorldOptions options) {
  auto job = job_of_file(path);
  if (!job.ok()) return job.status();
  options.job = job->name + options.job;
  options.meeting_file = std::move(job->file);
  return World::join(std::move(options));
}

Result<std::shared_ptr<World>> join_named(distributed::Store& store, WorldOptions options, const StoreMeeting& meeting, const StoreJob& job) {
  options.job = job.name + options.job;
  auto world = World::join(std::move(options));
  if (!world.ok()) return world;
  if (Status counted = count_joined(store, meeting, job); !counted.ok())
    (*world)->log().warning(fmt::format("the world is joined, but the store cannot serve for another: {}", counted.text()));
  return world;
}

// A place that cannot be is refused by World::join; nobody need be waited for.
Result<std::shared_ptr<World>> join_by_store(distributed::Store& store, WorldOptions options) {
  if (options.rank < 0 || options.rank >= options.size) return World::join(std::move(options));
  options.join_by = Deadline::in_seconds(options.settings.join_timeout_s);  // of both: of learning the name, and of meeting by it
  const StoreMeeting meeting{options.rank, options.size, options.settings.join_timeout_s};
  auto job = job_in_store(store, meeting);
  return job.ok() ? join_named(store, std::move(options), meeting, *job) : job.status();
}

// The place where ranks of several machines meet: where the user says, or the launcher, if nobody else listens there.
Result<MeetingPlace> place_of_machines(const LaunchInfo& info, const WorldOptions& options) {
  const std::string point = options.settings.store.empty() ? info.meeting_point : options.settings.store;
  if (!point.empty() && (!info.meeting_point_is_taken || !options.settings.store.empty())) return find_place(point, options.join_by);
  return Status(ErrorCode::init, fmt::format("{} started this job on several machines ({} ranks, {} here), and {}; set UNISONO_STORE=host:port on all "
                                             "ranks, a free port of rank 0's machine",
                                             info.launcher, info.size, info.local_size,
                                             point.empty() ? "says no place where they could meet" : "listens at " + point + " itself"));
}

// Ranks that may be on several machines meet through a store, which rank 0 serves. It lives as long as the world. A rank that joins again soon may
// still meet the store of the world before, which is about to end.
Result<std::shared_ptr<World>> join_through_machines(const LaunchInfo& info, WorldOptions options) {
  options.join_by = Deadline::in_seconds(options.settings.join_timeout_s);  // of finding the store, and of meeting through it
  auto place = place_of_machines(info, options);
  if (!place.ok()) return place.status();
  options.meeting_point = place->addresses.front();
  auto trust = trust_for(options.job, options.meeting_point);
  if (!trust.ok()) return trust.status();
  TcpStoreRequest request;
  request.host = place->host;
  request.port = options.meeting_point.port();
  request.trust = std::move(*trust);
  request.rank = options.rank;
  request.options.is_master = options.rank == 0;
  while (true) {
    const double left_s = std::max(static_cast<double>(options.join_by.remaining_ns()) * 1e-9, 0.001);
    request.options.timeout_s = left_s;
    auto store = make_tcp_store(request);
    if (!store.ok()) return store.status();
    const StoreMeeting meeting{options.rank, options.size, left_s};
    auto job = job_in_store(**store, meeting);
    if (!job.ok() && job.status().code() == ErrorCode::store_lost && !options.join_by.passed()) continue;
    if (!job.ok()) return job.status();
    options.store = *store;
    return join_named(**store, std::move(options), meeting, *job);
  }
}

// A job's name given in the program stands for the launcher's, and only adds to what a file or a store says.
std::string name_of_job(const LaunchRequest& request, const LaunchInfo& info, const Settings& settings) {
  const std::string added = request.job.empty() ? "" : " " + request.job;
  if (request.store || info.launcher == "file") return added;
  return !request.job.empty() ? request.job : !info.job.empty() ? info.job : settings.job;
}

}  // namespace

Result<std::shared_ptr<World>> launch(const LaunchRequest& request, const Environment& environment, const Status& refusal) {
  auto settings = settings_from(environment);
  if (!settings.ok()) return settings.status();
  if (request.timeout_s && !(*request.timeout_s > 0))
    return Status(ErrorCode::argument, fmt::format("timeout_s is {}; it must be more than 0", *request.timeout_s));
  if (request.timeout_s) settings->timeout_s = settings->join_timeout_s = *request.timeout_s;
  auto info = who_am_i(request, environment);
  if (!info.ok()) return info.status();
  if (!info->is_rank)
    return Status(ErrorCode::init, "this process is msrun's scheduler, which takes no part in the job");
  if (!info->all_local && !settings->pretend_hosts.empty())
    return Status(ErrorCode::init, fmt::format("UNISONO_PRETEND_HOSTS=\"{}\" divides the ranks of one machine, and {} started this job on "
                                               "several ({} ranks, {} here); unset it",
                                               settings->pretend_hosts, info->launcher, info->size, info->local_size));
  WorldOptions options;
  options.rank = info->rank;
  options.size = info->size;
  options.local_rank = info->local_rank < 0 ? info->rank : info->local_rank;
  options.local_size = info->local_size < 0 ? info->size : info->local_size;
  options.launcher = info->launcher;
  options.job = name_of_job(request, *info, *settings);
  options.settings = std::move(*settings);
  options.refusal = refusal;
  if (request.store) return join_by_store(*request.store, std::move(options));
  if (info->launcher == "file") return join_by_file(init_method_of(request.init_method)->path, std::move(options));
  if (options.job.empty() && options.size > 1)
    return Status(ErrorCode::init, fmt::format("rank {} of {}: nothing says which job this is; set UNISONO_JOB to the same text on "
                                               "all ranks, or start them with `unisono run -n {} …`", options.rank, options.size, options.size));
  if (options.job.empty()) options.job = fmt::format("alone {}", getpid());
  static_cast<void>(secret_to_hand_on().ok());  // ranks of one machine need none; but one that this process was handed is not left for all to see
  if (!info->all_local) return join_through_machines(*info, std::move(options));
  if (info->launcher == "none")
    Log("warning", -1).warning("no launcher found, world of 1; start with `unisono run -n 4 …`");
  return World::join(std::move(options));
}

}  // namespace unisono
