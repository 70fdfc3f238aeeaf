// Joining as a guest, and what both sides share. Rank 0's side is host.cpp. Next: group/world.cpp.
#include "rendezvous/join.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "base/check.hpp"
#include "base/hash.hpp"
#include "base/interrupt.hpp"
#include "base/legible.hpp"
#include "base/shortage.hpp"
#include "rendezvous/host.hpp"
#include "rendezvous/join_messages.hpp"
#include "transport/futex.hpp"
#include "trust/strangers.hpp"

namespace unisono {
namespace {

Status squatted(const PeerIdentity& who, const JoinRequest& request) {
  return {ErrorCode::auth, fmt::format("the meeting place of job \"{}\" is held by another user's process (uid {}, {}); "
                                       "end it or choose another UNISONO_JOB", request.job, who.uid, who.process())};
}

// As others call whom they visit.
std::string host_of(const JoinRequest& request) {
  return request.store ? fmt::format("the agent of job \"{}\" on this machine", request.job) : fmt::format("rank 0 of job \"{}\"", request.job);
}

// An agent that is there no more, or not yet, is not waited for: this rank may become it.
Result<Descriptor> find_host(const JoinRequest& request, const std::string& met_before) {
  constexpr int most_visits_to_an_agent = 50;
  InterruptWatch interrupts;
  for (int attempt = 0; !request.deadline.passed(); ++attempt) {
    if (request.store && attempt == most_visits_to_an_agent) return Status(ErrorCode::peer_lost, "nobody is there");
    if (interrupts.tripped()) return interrupted_while_joining(request);
    auto outcome = connect_to(meeting_place(request.job));
    if (!outcome.ok()) return outcome.status();
    if (outcome->attempt == Attempt::done) {
      auto who = identity_of(outcome->socket);
      if (!who.ok()) return who.status();
      if (who->uid != geteuid()) return squatted(*who, request);
      return std::move(outcome->socket);
    }
    rest(attempt);
  }
  const std::string what = met_before.empty() ? "has not appeared on this machine; was it started?"
                                              : fmt::format("was there ({}), went away without a word, and has not come back; did it die?", met_before);
  return Status(ErrorCode::init, fmt::format("rank {} of {} waited for {}, which {}{}", request.rank, request.size, host_of(request), what, request.hint));
}

// Past our own deadline, since only rank 0 can say who is missing.
Result<JoinReceived> next_message(const Descriptor& host, const JoinRequest& request) {
  const Readable readable = wait_readable(host.number(), request.deadline.later_by(joining_overtime_s));
  if (readable == Readable::interrupted) return interrupted_while_joining(request);
  if (readable == Readable::late)
    return Status(ErrorCode::init, fmt::format("rank {} of {} met {}, but not everybody came in time", request.rank, request.size, host_of(request)));
  auto received = receive(host);
  if (!received.ok())
    return Status(received.status().code(), fmt::format("{} went away while rank {} was joining: {}", host_of(request), request.rank,
                                                        received.status().message()));
  if (received->message.kind == JoinKind::refuse) return received->message.said();
  return received;
}

// Who closes the door without a word was leaving, or died: the next rank 0 may be on its way.
bool hung_up(const Status& status) { return status.code() == ErrorCode::peer_lost; }

// Who has closed the door already may have said why: the next message, or its end, tells.
Status tell_host(const Descriptor& host, const JoinRequest& request, const JoinMessage& message, std::span<const int> descriptors = {}) {
  const Status sent = send(host, message, descriptors, request.deadline);
  if (sent.code() == ErrorCode::revoked) return interrupted_while_joining(request);
  return hung_up(sent) ? Status::success() : sent;
}

Status invalid_entry() { return {ErrorCode::protocol, "rank 0 sent an invalid roster entry"}; }

Status check_entry(const JoinMessage& member, const JoinRequest& request) {
  if (member.kind != JoinKind::member) return invalid_entry();
  if (member.rank >= 0 && member.rank < request.size) return Status::success();
  return {ErrorCode::protocol, fmt::format("a roster entry for rank {} of {} cannot be", member.rank, request.size)};
}

// There are ranks on other machines, and they have to know where to find this one.
Status listen_for_others(const Descriptor& host, const JoinRequest& request, const JoinMessage& hello, const JoinMessage& told) {
  if (!request.listen || told.elsewhere < 0 || told.elsewhere > request.size) return invalid_entry();
  RETURN_IF_ERROR(require_connections(request, told.elsewhere, /*is_agent=*/false));
  auto sockets = request.listen(told.text);
  if (!sockets.ok()) return sockets.status();
  JoinMessage listening = hello;
  listening.kind = JoinKind::listening;
  listening.say_addresses(text_of((*sockets)->published()));
  return tell_host(host, request, listening);
}

// Everybody's arena and what to watch, one after the other. `again` is set when rank 0 asked us to come back later.
Status meet_members(const Descriptor& host, const JoinRequest& request, const JoinMessage& hello, Joined& joined, bool& again) {
  joined.neighbours.resize(static_cast<size_t>(request.size));
  joined.watches.resize(static_cast<size_t>(request.size));
  std::vector<int> hosts(static_cast<size_t>(request.size));
  for (int seen = 0; seen < request.size; ++seen) {
    auto received = next_message(host, request);
    if (received.ok() && received->message.kind == JoinKind::listen) {
      RETURN_IF_ERROR(listen_for_others(host, request, hello, received->message));
      received = next_message(host, request);
    }
    again = received.ok() ? received->message.kind == JoinKind::retry : seen == 0 && hung_up(received.status());
    if (again) return Status::success();
    if (!received.ok()) return received.status();
    std::vector<Descriptor>& descriptors = received->descriptors;
    const JoinMessage& member = received->message;
    RETURN_IF_ERROR(check_entry(member, request));
    const bool is_here = descriptors.size() >= 2;
    if (!request.store && is_here != request.hosts.share(member.rank, request.rank)) return invalid_entry();
    hosts[static_cast<size_t>(member.rank)] = member.host;
    RETURN_IF_ERROR(admit(member, is_here ? descriptors[0].number() : -1, joined));
    if (member.rank == request.rank || !is_here) continue;
    Watch& watch = joined.watches[static_cast<size_t>(received->message.rank)];
    watch.life = std::move(descriptors[1]);
    if (descriptors.size() > 2) watch.process = std::move(descriptors[2]);
  }
  joined.hosts = Hosts(hosts);
  return Status::success();
}

JoinMessage unable(const JoinRequest& request, const Status& why) {
  JoinMessage message;
  message.kind = JoinKind::unable;
  message.rank = request.rank;
  message.code = static_cast<uint32_t>(why.code());
  message.say(why.message());
  return message;
}

// Visits to rank 0, of which the last decides.
struct Visits {
  bool again = false;  // it asked us to come back later, or went away without a word
  std::string met;     // the process that was there
};

// One visit to rank 0: everybody's arena, or the reason why not.
Result<Joined> visit_host(const JoinRequest& request, const JoinMessage& hello, std::span<const int> mine, Visits& visits) {
  bool& again = visits.again;
  auto host = find_host(request, std::exchange(again, false) ? visits.met : "");
  again = request.store && hung_up(host.status());
  if (again) return Joined();
  if (!host.ok()) return host.status();
  if (auto who = identity_of(*host); who.ok()) visits.met = who->process();
  Joined joined;
  RETURN_IF_ERROR(tell_host(*host, request, hello, mine));
  FAULT_POINT("join_said_hello");
  if (Status met = or_out_of_memory([&] { return meet_members(*host, request, hello, joined, again); }); !met.ok()) {
    if (!hung_up(met)) mention(*host, unable(request, met));
    return met;
  }
  if (again) return joined;
  FAULT_POINT("join_mapped");
  JoinMessage ready = hello;
  ready.kind = JoinKind::ready;
  RETURN_IF_ERROR(tell_host(*host, request, ready));
  auto go = next_message(*host, request);
  if (!go.ok()) return go.status();
  joined.global_barrier = go->message.flag != 0;
  return joined;
}

// How many descriptors this process has open; 0 where nobody can say. (std::filesystem's iterator ends the process when memory runs out.)
int64_t open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  int64_t count = 0;
  while (folder && readdir(folder.get())) ++count;
  return count;
}

Result<Joined> meet(const JoinRequest& request, const Arena& arena) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return decline(request, {ErrorCode::resource, "no descriptors left for a pipe"});
  Descriptor reading(pipe_ends[0]), life(pipe_ends[1]);
  if (!reading || !life) return decline(request, {ErrorCode::resource, "no descriptors left for a pipe"});
  auto& head = *reinterpret_cast<ArenaHead*>(arena.mapping()->data());
  JoinMessage hello;
  hello.rank = request.rank;
  hello.size = request.size;
  hello.pid = getpid();
  hello.flag = register_global_barrier();
  hello.probe = head.probe;
  hello.say_addresses(request.addresses);
  hello.encrypt = request.encrypt;
  hello.sockets_per_peer = request.sockets_per_peer;
  hello.fabric = static_cast<int32_t>(request.fabric);
  hello.hosts = request.hosts.one() ? 0 : hash_text(request.hosts.text());  // 2,2 and 2x2 are the same
  hello.say(request.hosts_text);
  const int mine[] = {arena.descriptor(), reading.number()};
  Visits visits;
  for (int attempt = 0;; ++attempt) {
    HostTurn turn = request.rank == 0 || request.store ? HostTurn::done : HostTurn::visit;
    auto joined = turn == HostTurn::visit ? Result<Joined>(Joined()) : host_world(request, hello, mine, turn);
    if (turn == HostTurn::visit) joined = visit_host(request, hello, mine, visits);
    else visits.again = false;  // what the visit before this one came to
    if (visits.again || turn == HostTurn::again) {
      rest(attempt);
      continue;
    }
    if (hung_up(joined.status())) return Status(ErrorCode::init, joined.status().message());
    if (joined.ok()) joined->life = std::move(life);
    return joined;
  }
}

}  // namespace

Status interrupted_while_joining(const JoinRequest& request) {
  return {ErrorCode::revoked, fmt::format("rank {} of {} was interrupted while joining job \"{}\"", request.rank, request.size, request.job),
          request.rank};
}

// Soon at first, later every 10 ms.
void rest(int attempt) {
  timespec pause{0, std::min(200'000L << std::min(attempt, 6), 10'000'000L)};
  nanosleep(&pause, nullptr);
}

std::string meeting_place(const std::string& job) {
  return fmt::format("unisono/{}/{:016x}", geteuid(), hash_text(job));
}

// Maps the arena of one member and checks that it is the memory which that rank speaks of. One on another host has none here: -1.
Status admit(const JoinMessage& member, int arena, Joined& joined) {
  Neighbour& neighbour = joined.neighbours[static_cast<size_t>(member.rank)];
  neighbour = {member.rank, member.pid, nullptr, {}, member.probe};
  neighbour.has_fabric = member.fabric == static_cast<int32_t>(FabricHere::found);
  neighbour.where = {addresses_in(member.addresses).value_or(std::vector<Address>()), member.out_of_reach != 0, member.waits_for_us != 0};
  if (arena < 0) neighbour.machine = legible(member.text);
  if (arena < 0) neighbour.mirror = Mapping::of_nobody(sizeof(ArenaHead));
  if (arena < 0) return Status::success();
  auto mapping = Mapping::of(arena);
  if (!mapping.ok()) return mapping.status();
  const auto& head = *reinterpret_cast<ArenaHead*>((*mapping)->data());
  if ((*mapping)->bytes() < static_cast<int64_t>(sizeof(ArenaHead)) || head.magic != arena_magic || head.probe != member.probe)
    return {ErrorCode::init, fmt::format("rank {} (pid {}) is on this machine, but its shared memory does not hold "
                                         "what it wrote", member.rank, member.pid)};
  neighbour.mapping = std::move(*mapping);
  return Status::success();
}

namespace {

constexpr int64_t for_ourselves = 16;

Status require_open_files(const JoinRequest& request, int64_t needed, const std::string& what) {
  constexpr int64_t taken_for_granted = 16;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return Status::success();
  int64_t open_now = open_descriptors() - 3;  // without ".", ".." and the folder's own
  if (open_now <= 0) open_now = taken_for_granted;
  if (limit.rlim_cur >= static_cast<rlim_t>(open_now + needed)) return Status::success();
  return {ErrorCode::resource, fmt::format("{} needs {} open files beside the {} that rank {} has open, and the limit is {}; raise it with `ulimit -n {}`",
                                           what, needed, open_now, request.rank, limit.rlim_cur, open_now + needed)};
}

constexpr int64_t connections_to_watch = 8;  // that show whether other hosts are there: see group/host_watch.hpp

// To one rank on another host: for calls, for letters, and one for notices.
int64_t connections_to_one(const JoinRequest& request) { return 2 * int64_t{request.sockets_per_peer} + 1; }

}  // namespace

// Each rank keeps two for every other on its host (its pidfd and its life pipe), and connections to the rest; rank 0 has three of each while
// they meet (host.cpp, introduce). Who may be on several machines listens at each of its addresses, and does not know yet who is elsewhere.
Status require_descriptors(const JoinRequest& request) {
  int64_t needed = for_ourselves + (request.store ? static_cast<int64_t>(most_addresses) : 0);
  for (int rank = 0; rank < request.size; ++rank) {
    const bool is_elsewhere = !request.hosts.share(rank, request.rank);
    needed += is_elsewhere ? connections_to_one(request) : request.rank == 0 || request.store ? 3 : 2;
  }
  return require_open_files(request, needed, fmt::format("joining {} ranks", request.size));
}

Status require_connections(const JoinRequest& request, int elsewhere, bool is_agent) {
  const int64_t here = is_agent ? 0 : request.size - elsewhere;  // an agent has them open
  const int64_t needed = connections_to_one(request) * elsewhere + connections_to_watch + 2 * here + static_cast<int64_t>(most_addresses) + static_cast<int64_t>(strangers_here());
  return require_open_files(request, needed, fmt::format("joining {} ranks, {} of them on other machines, with UNISONO_SOCKETS_PER_PEER={}", request.size,
                                                         elsewhere, request.sockets_per_peer));
}

Status decline(const JoinRequest& request, const Status& why) {
  constexpr double patience_s = 0.7;  // whoever cannot join says so within a second
  JoinRequest briefly = request;
  briefly.deadline.at_ns = std::min(request.deadline.at_ns, Deadline::in_seconds(patience_s).at_ns);
  const bool hosts = request.size > 1 && (request.rank == 0 || request.store);
  const bool has_told = hosts && host_declines(briefly, why);
  if (has_told || (request.rank == 0 && !request.store)) return why;
  if (auto host = find_host(briefly, ""); host.ok()) mention(*host, unable(request, why));
  return why;
}

Result<Joined> join(const JoinRequest& request, const Arena& arena) {
  try {
    return meet(request, arena);
  } catch (const std::bad_alloc&) {
    return decline(request, out_of_memory());
  }
}

}  // namespace unisono
