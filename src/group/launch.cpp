// From the environment to a World: settings, launcher, and the words for what is missing. Next: world.cpp.
#include "group/launch.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include "base/check.hpp"
#include "base/in_time.hpp"
#include "group/launch_machines.hpp"
#include "rendezvous/ancestors.hpp"
#include "rendezvous/job_names.hpp"
#include "rendezvous/launch_values.hpp"
#include "rendezvous/launchers.hpp"
#include "rendezvous/pmix_launch.hpp"
#include "rendezvous/running_world.hpp"
#include "rendezvous/trust_for.hpp"
#include "trust/secret.hpp"

namespace unisono {
namespace {

using distributed::StoreReach;

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
    info.meeting_variable = "init_method";
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
  options.hint = " file:// brings together ranks of one machine; those of several meet by tcp://host:port, or by env:// with MASTER_ADDR";
  return World::join(std::move(options));
}

// Addresses that are only there to be written about, so that they lie where the default route leads.
Result<Address> anywhere_else() {
  for (const char* there : {"192.0.2.1:9", "[2001:db8::1]:9"})
    if (const auto address = Address::parse(there); address && Address::of_route_to(*address)) return *address;
  return Status(ErrorCode::init, "there are ranks on other machines, and this one has neither a default route nor a word of where they meet; set "
                                 "MASTER_ADDR to an address of rank 0's machine");
}

// Where ranks that meet by a store of the user's choose their addresses by: what the user says, where the store is, where the launcher says that rank 0
// is, or the default route. An address that only this machine can reach leads nowhere.
std::function<Result<Address>()> point_of(const StoreReach& reach, const Settings& settings, const Environment& environment, const Deadline& deadline) {
  constexpr int any_port = 9;
  std::vector<PlaceText> places;
  const std::string by_user = settings.store.substr(0, settings.store.rfind(':'));
  for (const auto& [host, given_by] : {std::pair(by_user, "UNISONO_STORE"), {reach.host, "store"}, {std::string(text_of(environment, "MASTER_ADDR")), "MASTER_ADDR"}})
    if (!host.empty() && !is_loopback(host)) places.push_back({address(host, any_port), given_by});
  return [places, deadline, log = Log(settings.log, -1)]() -> Result<Address> {
    if (places.empty()) return anywhere_else();
    auto place = find_place(places.front(), deadline, log);
    if (!place.ok()) return place.status();
    return place->is_own_name() ? anywhere_else() : place->addresses.front();
  };
}

// Joining's deadline holds, whether a store that is somebody else's answers or not. What it is told then it may still hear.
Status tell_in_time(const Deadline& deadline, std::function<Status()> tell) {
  return in_time<bool>(deadline.later_by(joining_overtime_s), [tell = std::move(tell)](const std::stop_token&) {
    const Status status = tell();
    return status.ok() ? Result<bool>(true) : Result<bool>(status);
  }).status();
}

Result<StoreJob> learn_name(const std::shared_ptr<distributed::Store>& store, const StoreMeeting& meeting, const Deadline& deadline) {
  auto job = in_time<StoreJob>(deadline.later_by(joining_overtime_s), [store, meeting](const std::stop_token& stop) { return job_in_store(*store, meeting, stop); });
  if (job.status().code() != ErrorCode::timeout) return job;
  return Status(ErrorCode::init, fmt::format("rank {} of {} waited {} s for the store to say the name of the world: {}", meeting.rank, meeting.size, meeting.timeout_s, job.status().message()));
}

// A place that cannot be is refused by World::join; nobody need be waited for.
Result<std::shared_ptr<World>> join_by_store(const std::shared_ptr<distributed::Store>& store, WorldOptions options, const Environment& environment) {
  if (options.rank < 0 || options.rank >= options.size) return World::join(std::move(options));
  options.join_by = Deadline::in_seconds(options.settings.join_timeout_s);  // of both: of learning the name, and of meeting by it
  const Deadline join_by = options.join_by;
  const StoreMeeting meeting{options.rank, options.size, options.settings.join_timeout_s, options.job};
  auto job = learn_name(store, meeting, join_by);
  if (job.status().code() == ErrorCode::store_lost && store->reach().other_machines) return meeting_store_lost(job.status());
  if (!job.ok()) return job.status();
  options.job = job->name + options.job;
  const StoreReach reach = store->reach();
  const bool may_span = reach.other_machines && options.size > 1 && options.settings.pretend_hosts.empty();
  if (may_span) {
    options.store = {[store](const std::stop_token&) { return Result(store); }, meeting_prefix(options.job)};
    options.meeting_point = point_of(reach, options.settings, environment, options.join_by);
  } else if (!reach.other_machines) {
    options.hint = " This kind of store brings together ranks of one machine; those of several meet by a TCPStore, tcp://host:port, or env:// with MASTER_ADDR";
  }
  auto world = World::join(std::move(options));
  if (!world.ok()) {
    if (may_span && meeting.rank == 0 && world.status().code() != ErrorCode::revoked) {
      auto take_back = [store, meeting, job = *job, why = world.status()] { return take_name_back(*store, meeting, job, why), Status::success(); };
      static_cast<void>(tell_in_time(join_by, take_back).ok());
    }
    return world;
  }
  const auto place = (*world)->place_between_machines();
  const std::string running = place ? RunningWorld{job->generation, job->name, place->first, place->second}.text() : "";
  if (Status counted = tell_in_time(join_by, [store, meeting, job = *job, running] { return count_joined(*store, meeting, job, running); }); !counted.ok())
    (*world)->log().warning(fmt::format("the world is joined, but the store cannot serve for another: {}", counted.text()));
  return world;
}

// A job's name given in the program stands for the launcher's, and only adds to what a file or a store says.
std::string name_of_job(const LaunchRequest& request, const LaunchInfo& info, const Settings& settings) {
  const std::string added = request.job.empty() ? "" : " " + request.job;
  if (request.store || info.launcher == "file") return added;
  return !request.job.empty() ? request.job : !info.job.empty() ? info.job : settings.job;
}

}  // namespace

Result<std::shared_ptr<World>> launch(const LaunchRequest& request, const Environment& given, const Status& refusal) {
  auto settings = settings_from(given);
  if (!settings.ok()) return settings.status();
  if (request.timeout_s && !(*request.timeout_s > 0))
    return Status(ErrorCode::argument, fmt::format("timeout_s is {}; it must be more than 0", *request.timeout_s));
  if (request.timeout_s) settings->timeout_s = settings->join_timeout_s = *request.timeout_s;
  auto told = with_what_pmix_says(given, Deadline::in_seconds(settings->join_timeout_s));
  if (!told.ok()) return told.status();
  const Environment& environment = *told;
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
  if (request.store) return join_by_store(request.store, std::move(options), environment);
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
