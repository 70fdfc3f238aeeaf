// See launch_machines.hpp. What the meeting itself is: rendezvous/served_meeting.hpp and rendezvous/roster.hpp.
#include "group/launch_machines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "rendezvous/invitation.hpp"
#include "rendezvous/pmix.hpp"
#include "rendezvous/served_meeting.hpp"
#include "rendezvous/trust_for.hpp"
#include "transport/interfaces.hpp"
#include "transport/ports.hpp"
#include "trust/munge.hpp"
#include "trust/secret.hpp"

namespace unisono {
namespace {

constexpr const char* prefix = "unisono/meeting";

std::string what_was_started(const LaunchInfo& info) {
  return fmt::format("{} started this job on several machines ({} ranks, {} here)", info.launcher, info.size, info.local_size);
}

// The place where ranks of several machines meet: where the user says, or the launcher, if nobody else listens there.
Result<MeetingPlace> place_of_machines(const LaunchInfo& info, const WorldOptions& options) {
  const bool by_user = !options.settings.store.empty();
  const PlaceText point = by_user ? PlaceText{options.settings.store, "UNISONO_STORE"} : PlaceText{info.meeting_point, info.meeting_variable};
  if (!point.text.empty() && (!info.meeting_point_is_taken || by_user)) return find_place(point, options.join_by, Log(options.settings.log, options.rank));
  const std::string_view by_pmix = call_with_pmix(info);
  return Status(ErrorCode::init, fmt::format("{}, and {}; {}set UNISONO_STORE=host:port on all ranks, a free port of rank 0's machine", what_was_started(info),
                                             point.text.empty() ? "says no place where they could meet" : "listens at " + point.text + " itself",
                                             by_pmix.empty() ? "" : fmt::format("start it by `{}`, or ", by_pmix)));
}

// By which the ranks of a job know each other at the place where they meet, and whether rank 0 can listen there for other machines. Where the place's name
// stands for the loopback interface here, and there is a secret, rank 0 listens at the machine's other addresses as well, since that is where others look for it.
struct WayToMeet {
  std::shared_ptr<const Trust> trust;
  std::vector<Address> also_at;
};
Result<WayToMeet> way_to_meet(const MeetingPlace& place, const WorldOptions& options) {
  WayToMeet way;
  if (!place.is_own_name()) {
    auto trust = trust_for(options.job, place.addresses.front());
    if (!trust.ok()) return trust.status();
    way.trust = std::move(*trust);
    return way;
  }
  auto secret = find_secret();
  if (!secret.ok()) return secret.status();
  if (!*secret && !options.settings.insecure) return way;  // then all ranks have to be here
  auto trust = trust_between_machines(options.job, place.host + " may be looked for by other machines");
  if (!trust.ok()) return trust.status();
  way.trust = std::move(*trust);
  auto interfaces = InterfacePattern::parse(options.settings.socket_ifname);
  if (!interfaces.ok()) return interfaces.status();
  auto addresses = choose_addresses(interfaces_here(), *interfaces, {});
  for (const Address& one : addresses.ok() ? *addresses : std::vector<Address>())
    if (!one.is_loopback()) way.also_at.push_back(one.with_port(place.addresses.front().port()));
  return way;
}

std::string hint_of(const MeetingPlace& place) {
  if (!place.is_own_name()) return "";
  return fmt::format(" {} is {} on this machine, where no other machine finds it: without a secret (`unisono secret new`), or if they find nothing by that name "
                     "either, name rank 0's machine by an address that the others reach", place.host, place.addresses.front().host());
}

// Where this rank goes to meet the others.
struct Meeting {
  TcpStoreRequest request = {};
  std::shared_ptr<distributed::TCPStore> served = {};  // by rank 0
  std::optional<Address> towards = {};                 // this machine's own address is chosen by it; none: any
  std::string hint = {};
  std::optional<Secret> secret = {};                   // that was handed out for this world
};

double time_left_s(const Deadline& join_by) {
  constexpr double before_the_end_s = 0.2;  // the agent's own deadline comes a little later, and says less
  return std::max(static_cast<double>(join_by.remaining_ns()) * 1e-9 - before_the_end_s, 0.001);
}

TcpStoreRequest request_of(const WorldOptions& options) {
  TcpStoreRequest request;
  request.away_prefix = std::string(prefix) + "/away/";
  request.options.job = options.job;  // without a secret, too, no other job is met
  request.rank = options.rank;
  request.options.is_master = options.rank == 0;
  return request;
}

Status serve(Meeting& meeting, const WorldOptions& options) {
  meeting.request.options.timeout_s = time_left_s(options.join_by);
  auto store = serve_meeting(meeting.request, prefix);
  if (store.ok()) meeting.served = std::move(*store);
  return store.status();
}

Result<Meeting> meet_at_place(const LaunchInfo& info, const WorldOptions& options) {
  auto place = place_of_machines(info, options);
  if (!place.ok()) return place.status();
  const Address point = place->addresses.front();
  auto way = way_to_meet(*place, options);
  if (!way.ok()) return way.status();
  Meeting meeting{.request = request_of(options), .hint = hint_of(*place)};
  meeting.request.host = place->host;
  meeting.request.port = point.port();
  meeting.request.trust = std::move(way->trust);
  meeting.request.also_at = std::move(way->also_at);
  if (!place->is_own_name()) meeting.towards = point;
  if (options.rank == 0 && options.size > 1) RETURN_IF_ERROR(serve(meeting, options));
  return meeting;
}

// At all addresses of this machine that others may reach, by one port that is free.
Status serve_anywhere(Meeting& meeting, const WorldOptions& options) {
  auto pattern = InterfacePattern::parse(options.settings.socket_ifname);
  if (!pattern.ok()) return pattern.status();
  auto ports = PortRange::parse(options.settings.port_range);
  if (!ports.ok()) return ports.status();
  auto here = choose_addresses(interfaces_here(), *pattern, {});
  if (!here.ok()) return here.status();
  Status last;
  for (int index = 0; index < (ports->is_any() ? 1 : ports->count()); ++index) {
    meeting.request.addresses.clear();
    for (const Address& one : *here) meeting.request.addresses.push_back(one.with_port(ports->is_any() ? 0 : ports->at(index)));
    meeting.request.host = here->front().host();
    meeting.request.port = meeting.request.addresses.front().port();
    last = serve(meeting, options);
    if (last.code() != ErrorCode::init) return last;
  }
  return last;
}

// Where there is no secret, rank 0 makes one for this world, and munge hands it out, where it is.
Status make_secret(Meeting& meeting, Invitation& invitation, const WorldOptions& options) {
  auto found = find_secret();
  if (!found.ok()) return found.status();
  if (*found || options.settings.insecure || !has_munge()) return Status::success();
  auto made = Secret::random("munge");
  if (!made.ok()) return made.status();
  auto sealed = seal_by_munge(*made, options.settings.join_timeout_s, options.join_by);
  if (!sealed.ok()) return sealed.status();
  meeting.secret = *made;
  invitation.credential = *sealed;
  return Status::success();
}

// By the secret that was handed out, or that this rank knows by itself.
Status trust(Meeting& meeting, const std::string& why, const WorldOptions& options) {
  auto trust = trust_between_machines(options.job, why, meeting.secret);
  if (trust.ok()) meeting.request.trust = *trust;
  return trust.status();
}

Result<Invitation> invite(Meeting& meeting, const LaunchInfo& info, const WorldOptions& options) {
  Invitation invitation;
  const Status made = make_secret(meeting, invitation, options);
  RETURN_IF_ERROR(trust(meeting, made.ok() ? what_was_started(info) : fmt::format("{}, {}", what_was_started(info), made.message()), options));
  auto advertised = parse_advertised(options.settings.advertise);
  if (!advertised.ok()) return advertised.status();
  RETURN_IF_ERROR(serve_anywhere(meeting, options));
  for (const Address& one : addresses_of(*meeting.served)) invitation.at.push_back(one.without_scope());
  const int port = invitation.at.front().port();
  if (!advertised->empty()) invitation.at.clear();
  for (const Address& one : *advertised) invitation.at.push_back(one.with_port(port));
  return invitation;
}

// Rank 0 says where its store listens, or why it does not, and the launcher passes it on. Everybody takes part, whatever is wrong here: the others wait for it.
Result<Invitation> pass_on(Pmix& pmix, const Result<Invitation>& mine, const WorldOptions& options) {
  const std::string said = options.rank != 0 ? "" : mine.ok() ? mine.value().text() : Invitation{.refusal = mine.status()}.text();
  auto told = pmix.told_by_rank_0(said, options.join_by);
  if (options.rank == 0 && !mine.ok()) return mine.status();
  if (told.status().code() == ErrorCode::timeout)
    return Status(ErrorCode::init, fmt::format("rank {} of {} waited {} s for all ranks to come to where the launcher passes on where they meet (PMIx_Fence)", options.rank, options.size,
                                               options.settings.join_timeout_s));
  if (!told.ok()) return told.status();
  auto invitation = Invitation::parse(*told);
  if (invitation.ok() && !invitation->refusal.ok()) return invitation->refusal;
  return invitation;
}

Status follow(Meeting& meeting, const Invitation& invitation, const LaunchInfo& info, const WorldOptions& options) {
  if (!invitation.credential.empty()) {
    auto opened = open_by_munge(invitation.credential, options.join_by);
    if (!opened.ok()) return opened.status();
    meeting.secret = *opened;
  }
  RETURN_IF_ERROR(trust(meeting, what_was_started(info), options));
  meeting.request.addresses = invitation.at;
  meeting.request.host = invitation.at.front().host();
  meeting.request.port = invitation.at.front().port();
  return Status::success();
}

Result<Meeting> meet_by_pmix(const LaunchInfo& info, const WorldOptions& options) {
  auto pmix = Pmix::of_process(options.join_by);
  if (!pmix.ok())
    return Status(pmix.status().code(), fmt::format("{}, and {}; or set UNISONO_STORE=host:port on all ranks, a free port of rank 0's machine", what_was_started(info), pmix.status().message()));
  Meeting meeting{.request = request_of(options)};
  auto invitation = pass_on(**pmix, options.rank == 0 ? invite(meeting, info, options) : Invitation{}, options);
  if (!invitation.ok()) return invitation.status();
  if (options.rank != 0) RETURN_IF_ERROR(follow(meeting, *invitation, info, options));
  const auto routed = std::ranges::find_if(invitation->at, [](const Address& one) { return static_cast<bool>(Address::of_route_to(one)); });
  if (routed != invitation->at.end()) meeting.towards = *routed;
  return meeting;
}

}  // namespace

Result<std::shared_ptr<World>> join_through_machines(const LaunchInfo& info, WorldOptions options) {
  options.join_by = Deadline::in_seconds(options.settings.join_timeout_s);  // of finding the store, and of meeting through it
  const bool is_said = !options.settings.store.empty() || !info.meeting_point.empty();
  auto meeting = is_said || !info.has_pmix ? meet_at_place(info, options) : meet_by_pmix(info, options);
  if (!meeting.ok()) return meeting.status();
  options.hint = meeting->hint;
  options.secret = meeting->secret;
  if (options.size == 1) return World::join(std::move(options));
  auto served = meeting->served;
  if (served) {
    options.store.open = [served](const std::stop_token&) { return Result<std::shared_ptr<distributed::Store>>(served); };
    options.note_left = [served](int rank) { note_in(*served, meeting_key(prefix, "left", rank), "yes"); };
  } else {
    options.store.open = [request = meeting->request, join_by = options.join_by](const std::stop_token& stop) mutable -> Result<std::shared_ptr<distributed::Store>> {
      request.stop = stop;
      request.options.timeout_s = time_left_s(join_by);
      auto store = make_tcp_store(request);
      return store.ok() ? Result<std::shared_ptr<distributed::Store>>(*store) : store.status();
    };
  }
  options.store.prefix = prefix;
  options.store.ends_with_meeting = true;
  if (meeting->towards) options.meeting_point = [point = *meeting->towards] { return Result(point); };
  FailedMeeting failed{prefix, options.size, options.join_by, {}};
  auto world = World::join(std::move(options));
  failed.why = world.status();
  if (!world.ok() && served) tell_latecomers(std::move(served), std::move(failed));
  if (!world.ok() || !served) return world;
  for (int rank = 0; rank < (*world)->size(); ++rank) note_in(*served, meeting_key(prefix, "seats", rank), (*world)->seat_of(rank).text());  // unless agents had time to
  note_in(*served, meeting_key(prefix, "complete", 0), "all on one machine");  // unless several have said so
  return world;
}

}  // namespace unisono
