// Joining and leaving. How groups are made: world_groups.cpp; the two threads: world_threads.cpp. Order: see world.hpp.
#include "group/world.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/all_signals_blocked.hpp"
#include "base/check.hpp"
#include "base/cores.hpp"
#include "base/hash.hpp"
#include "base/legible.hpp"
#include "base/shortage.hpp"
#include "transport/headroom.hpp"
#include "transport/peer_memory.hpp"
#include "transport/fabric_choice.hpp"
#include "rendezvous/trust_for.hpp"

namespace unisono {

World::World(WorldOptions options)
    : options_(std::move(options)), log_(options_.settings.log, options_.rank) {}

Result<std::shared_ptr<World>> World::join(WorldOptions options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    return Status(ErrorCode::init, fmt::format("rank {} is out of range: the world has {} ranks", options.rank, options.size));
  if (options.size > most_ranks)
    return Status(ErrorCode::init, fmt::format("a world of {} ranks is too large: {} at most", options.size, most_ranks));
  std::shared_ptr<World> world(new World(std::move(options)));
  const Status status = or_out_of_memory([&] { return world->open(); });
  if (status.ok()) return world;
  world->leave(world->request_.deadline.later_by(joining_overtime_s));
  return status;
}

World::~World() { leave(); }

Status World::open() {
  arm_fault(settings().fault, rank());
  const bool has_deadline = options_.join_by.at_ns != never_ns;
  request_ = {rank(), size(), options_.job, has_deadline ? options_.join_by : Deadline::in_seconds(settings().join_timeout_s), log_};
  request_.store = options_.store;
  request_.listen = [this](const std::string& world) { return listen(world); };
  request_.warn_after_s = settings().warn_after_s;
  request_.encrypt = settings().encrypt;
  request_.sockets_per_peer = static_cast<int>(settings().sockets_per_peer);
  request_.hint = options_.hint;
  if (Status prepared = or_out_of_memory([this] { return prepare(); }); !prepared.ok()) {
    arena_.reset();  // what there is, so that there are descriptors to say so with
    death_watch_.reset();
    wake_.reset();
    sockets_.reset();
    return decline(request_, prepared);
  }
  FAULT_POINT("before_join");
  auto joined = unisono::join(request_, *arena_);
  if (!joined.ok()) return joined.status();
  FAULT_POINT("joined");
  joined_ = std::move(*joined);
  request_.hosts = joined_.hosts;
  lost_.resize(static_cast<size_t>(size()));
  std::vector<std::atomic<int64_t>*> taking = {&head().taking};
  for (const Neighbour& neighbour : joined_.neighbours)
    if (neighbour.rank != rank() && neighbour.is_here()) taking.push_back(&neighbour.head().taking);
  arena_->take_beside(std::move(taking));
  settle_policy();
  if (!hosts().one()) remotes_ = std::make_unique<Remotes>(joined_.neighbours, rank(), ways(), [this] { wake_control(); });
  if (remotes_) sockets_->answer_inquiries([this](int one) { return one >= 0 && one < size() && lost_[static_cast<size_t>(one)].empty(); });  // by the control thread, which alone writes it
  if (remotes_) host_watch_ = std::make_unique<HostWatch>(*sockets_, joined_.neighbours, hosts(), rank());
  RETURN_IF_ERROR(watch_others());
  head().beat_ns.store(now_ns(), std::memory_order_relaxed);
  RETURN_IF_ERROR(start_threads());
  const Status status = make_world_group();
  if (joined_.roster) joined_.roster->finish(joined_.is_first_machine);
  options_.store = request_.store = {};  // who made it may end it now
  if (status.ok() || status.code() == ErrorCode::resource || status.code() == ErrorCode::memory) return status;
  return {ErrorCode::init, fmt::format("rank {} of {} met the others, but then: {}", rank(), size(), status.message()), status.peer()};
}

// All that can fail before anybody else is met.
Status World::prepare() {
  RETURN_IF_ERROR(options_.refusal);
  auto rules = PlannerRules::parse(settings().plan, settings().tile_bytes);
  if (!rules.ok()) return rules.status();
  rules_ = std::move(*rules);
  auto streams = StreamChoice::parse(settings().test_streams);
  if (!streams.ok()) return streams.status();
  streams_ = *streams;
  if (!settings().pretend_hosts.empty()) {
    auto hosts = Hosts::parse("UNISONO_PRETEND_HOSTS", settings().pretend_hosts, size());
    if (!hosts.ok()) return {ErrorCode::init, hosts.status().message()};
    request_.hosts = std::move(*hosts);
    request_.hosts_text = settings().pretend_hosts;
  }
  RETURN_IF_ERROR(parse_address_settings());
  auto fabric = look_for_fabric(settings(), log_);
  if (!fabric.ok()) return fabric.status();
  request_.fabric = *fabric;
  RETURN_IF_ERROR(require_descriptors(request_));
  if (streams_.kind == StreamChoice::Kind::sockets || !hosts().one()) {
    auto trust = trust_for(options_.job, Address::loopback(0));
    if (!trust.ok()) return trust.status();
    RETURN_IF_ERROR(prepare_sockets({Address::loopback(0)}, std::move(*trust)));
  }
  auto watch = DeathWatch::open();
  if (!watch.ok()) return watch.status();
  death_watch_ = std::move(*watch);
  wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return {ErrorCode::resource, "no descriptor is left for the control thread; raise the limit of open files (ulimit -n)"};
  RETURN_IF_ERROR(require_headroom(size() * static_cast<int64_t>(sizeof(ArenaHead)), fmt::format("joining {} ranks", size())));
  auto arena = Arena::create(settings().arena_bytes);
  if (!arena.ok()) return arena.status();
  arena_ = std::move(*arena);
  auto head_at = arena_->take(sizeof(ArenaHead), "the head of the arena");
  if (!head_at.ok()) return head_at.status();
  CHECK(*head_at == 0);
  CoreMask mask = affinity();
  std::copy(std::begin(mask.words), std::end(mask.words), head().core_mask);
  head().cores = static_cast<uint32_t>(settings().cores ? settings().cores : quota_cores());
  if (getrandom(&head().probe, sizeof(head().probe), 0) < 0) head().probe = static_cast<uint64_t>(now_ns());
  private_probe_ = head().probe;
  if (sockets_) sockets_->know(head().probe);
  head().private_address = reinterpret_cast<uint64_t>(&private_probe_);
  head().own_address = reinterpret_cast<uint64_t>(&head());
  head().magic = arena_magic;
  return Status::success();
}

// Who knocks and is not let in makes a line in the log now and then, however many they are.
std::function<void(const std::string&)> World::tell_of_refusals() const {
  constexpr double quiet_s = 60;
  return [log = log_, quiet = Deadline{0}, unsaid = 0](const std::string& why) mutable {
    if (!quiet.passed()) {
      ++unsaid;
      return;
    }
    log.warning(unsaid == 0 ? why : fmt::format("{}; and {} before it", why, unsaid));
    quiet = Deadline::in_seconds(quiet_s);
    unsaid = 0;
  };
}

Status World::parse_address_settings() {
  auto interfaces = InterfacePattern::parse(settings().socket_ifname);
  if (!interfaces.ok()) return interfaces.status();
  interfaces_ = std::move(*interfaces);
  auto advertised = parse_advertised(settings().advertise);
  if (!advertised.ok()) return advertised.status();
  advertised_ = std::move(*advertised);
  auto ports = PortRange::parse(settings().port_range);
  if (!ports.ok()) return ports.status();
  ports_ = *ports;
  return Status::success();
}

// Only when it is known that there are ranks on other machines. `world` stands for all of them, so that nobody is let in who has met others.
// They may be anywhere, wherever this one has met them: it listens where others can reach it, and lets nobody in without proof. Who meets at a loopback address
// is there, though it may seem to be elsewhere, in a container say; and asks for no other.
Result<Sockets*> World::listen(const std::string& world) {
  const std::string job = fmt::format("{} {}", options_.job, world);
  auto trust = trust_between_machines(job, fmt::format("some of the {} ranks are on other machines", size()), options_.secret);
  if (!trust.ok()) return trust.status();
  Address of_kernel;
  if (options_.meeting_point) {
    auto there = options_.meeting_point();
    if (!there.ok()) return there.status();
    of_kernel = Address::of_route_to(*there);
    if (!of_kernel)
      return Status(ErrorCode::init, fmt::format("rank {} has no address from which {} can be reached: {}; its interfaces: {}", rank(), there->text(),
                                                 std::strerror(errno), text_of(interfaces_here())));
  }
  auto addresses = of_kernel.is_loopback() ? Result(std::vector<Address>{of_kernel}) : choose_addresses(interfaces_here(), interfaces_, of_kernel);
  if (!addresses.ok()) return addresses.status();
  if (sockets_) sockets_->finish_left(request_.deadline.later_by(joining_overtime_s));
  fabric_.reset();
  sockets_.reset();  // of an attempt before this one: their ports may be all there are
  if (Status status = prepare_sockets(std::move(*addresses), std::move(*trust)); !status.ok()) return status;
  sockets_->know(head().probe);
  met_as_ = world;
  return sockets_.get();
}

// On the loopback interface, where nobody else is told of them, ports and addresses are nobody's choice.
Status World::prepare_sockets(std::vector<Address> at, std::shared_ptr<const Trust> trust) {
  if (settings().encrypt && !trust)
    return {ErrorCode::auth, "UNISONO_ENCRYPT is on, and there is no secret to encrypt by; make one with `unisono secret new`, or name a file that holds it by UNISONO_SECRET_FILE"};
  const bool is_told = !at.front().is_loopback();
  SocketChoice choice{.listens_at = std::move(at),
                      .send_buffer_bytes = streams_.send_buffer_bytes,
                      .trust = std::move(trust),
                      .me = rank(),
                      .sealed = settings().encrypt,
                      .per_peer = static_cast<int>(settings().sockets_per_peer),
                      .fabric = request_.fabric == FabricHere::found,
                      .refused = tell_of_refusals()};
  if (is_told) choice.ports = ports_;
  if (is_told) choice.advertised = advertised_;
  auto sockets = Sockets::open(std::move(choice));
  if (!sockets.ok()) return sockets.status();
  sockets_ = std::move(*sockets);
  if (request_.fabric == FabricHere::found) fabric_ = open_fabric({.settings = settings(), .ranks = size(), .log = log_, .ring = [this] { ring_bell(head()); }});
  request_.addresses = text_of(sockets_->published());
  return Status::success();
}

// With all signals blocked, which they inherit: signals are for the user's threads, and handlers are the user's code.
Status World::start_threads() {
  const AllSignalsBlocked blocked;
  try {
    control_thread_ = std::thread([this] { run_control(); });
    progress_thread_ = std::thread([this] { run_progress(); });
  } catch (const std::system_error& error) {
    return {ErrorCode::resource, fmt::format("a thread could not be started: {}; is the limit of processes reached?", error.what())};
  }
  return Status::success();
}

Status World::make_world_group() {
  std::vector<int> everybody(static_cast<size_t>(size()));
  for (int index = 0; index < size(); ++index) everybody[static_cast<size_t>(index)] = index;
  GroupOptions options;
  options.made_by = request_.deadline;
  auto group = create_group(std::string(world_group_name), everybody, options);
  if (!group.ok()) return group.status();
  world_group_ = std::move(*group);
  return Status::success();
}

// Every rank computes the policy from what all ranks have written into their arenas, so all come to the same answer. Whose memory
// it may read is this rank's own finding: the members of a group tell each other when they make it (making.hpp).
void World::settle_policy() {
  CoreMask together;
  uint32_t quota = 0;
  readable_ = std::vector<std::atomic<bool>>(static_cast<size_t>(size()));
  for (const Neighbour& neighbour : joined_.neighbours) {
    if (!neighbour.is_here()) continue;
    for (int word = 0; word < core_mask_words; ++word) together.words[word] |= neighbour.head().core_mask[word];
    uint32_t theirs = neighbour.head().cores;
    if (theirs != 0 && (quota == 0 || theirs < quota)) quota = theirs;
    readable_[static_cast<size_t>(neighbour.rank)] = settings().peer_reads != "off" && can_read_memory_of(neighbour);
  }
  cores_ = count(together);
  if (quota != 0) cores_ = std::min(cores_, static_cast<int>(quota));
  const auto here = std::ranges::count_if(joined_.neighbours, &Neighbour::is_here);
  policy_.crowded = (request_.store ? here : size()) > cores_;  // pretended hosts share the cores, too
  policy_.spin_ns = policy_.patience_ns = settings().spin_us * 1000;
  policy_.global_barrier = joined_.global_barrier && !policy_.crowded;  // where ranks sleep all the time, a fence is cheaper
}

Seat World::seat_of(int one) const {
  const Neighbour& neighbour = joined_.neighbours[static_cast<size_t>(one)];
  return {.size = size(), .rank = one, .pid = neighbour.pid, .probe = neighbour.token, .host = neighbour.machine.empty() ? name_of_this_machine() : neighbour.machine};
}

std::optional<std::pair<std::string, Seat>> World::place_between_machines() const {
  if (!remotes_ || met_as_.empty()) return std::nullopt;
  Seat seat = seat_of(rank());
  seat.addresses = text_of(sockets_->published());
  return std::pair(met_as_, seat);
}

void World::say_goodbye(const std::string& how) {
  Notice notice;
  notice.head = {.kind = NoticeHead::Kind::goodbye};
  notice.add_text(how);
  remotes_->tell_all(notice);
}

std::string World::how_lost(int rank) const {
  std::lock_guard lock(mutex_);
  return lost_[static_cast<size_t>(rank)];
}

void World::say_exiting(int status) {
  if (forked() || left_ || !arena_) return;
  if (remotes_) say_goodbye(fmt::format("{}{}", exited_text, status & 0xff));
  head().goodbye.store(static_cast<uint32_t>(Goodbye::exiting) | static_cast<uint32_t>(status & 0xff) << 8, std::memory_order_release);
}

void World::say_last_words(const std::string& why) {
  if (forked()) return;
  std::lock_guard lock(mutex_);
  if (left_) return;
  write_note(head().last_words, legible(why));
  if (!remotes_) return;
  Notice notice;
  notice.head = {.kind = NoticeHead::Kind::last_words};
  notice.add_text(why);
  remotes_->tell_all(notice);
}

std::string World::last_words(int rank) const {
  const std::string words = legible(read_note(joined_.neighbours[static_cast<size_t>(rank)].head().last_words));
  return words.empty() ? "" : " after " + words;
}

Result<std::shared_ptr<std::byte>> World::share_memory(int64_t bytes) {
  auto at = arena_->take(std::max<int64_t>(bytes, 1), "a shared tensor");
  if (!at.ok()) return at.status();
  auto give_back = [arena = arena_, offset = *at, owner = getpid()](std::byte*) {
    if (getpid() == owner) arena->give_back(offset);  // a child's copy is not its to give back
  };
  return std::shared_ptr<std::byte>(arena_->mapping()->data() + *at, give_back);
}

void World::note_waiting(const std::string& call) {
  std::lock_guard lock(mutex_);
  write_note(head().waiting, call);
}

// The parent's descriptors stay its own; this child only has copies of them.
void World::close_in_child() {
  joined_.door.close_in_child();
  options_.meeting_file.reset();
  joined_.life.reset();
  joined_.watches.clear();
  if (death_watch_) death_watch_->close_in_child();
  if (fabric_) fabric_->close_in_child();
  if (sockets_) sockets_->close_in_child();
  if (host_watch_) host_watch_->close_in_child();
  if (remotes_) remotes_->close_in_child();
  wake_.reset();
  if (arena_) arena_->close_in_child();
}

void World::leave(const Deadline& by) {
  if (forked()) {  // the child's copy: its threads do not exist and its descriptors are only closed
    if (progress_thread_.joinable()) progress_thread_.detach();
    if (control_thread_.joinable()) control_thread_.detach();
    return;
  }
  std::map<std::string, std::shared_ptr<Group>> groups;
  {
    std::lock_guard lock(mutex_);
    if (left_) return;
    left_ = true;
    groups.swap(groups_);
    groups_version_.fetch_add(1, std::memory_order_release);
  }
  for (auto& [name, group] : groups) group->leave();
  stopping_.store(true, std::memory_order_release);
  wake_progress();
  wake_control();
  if (progress_thread_.joinable()) progress_thread_.join();
  if (control_thread_.joinable()) control_thread_.join();
  host_watch_.reset();
  for (int one = 0; one < size() && options_.note_left; ++one) options_.note_left(one);  // nobody hears any more who leaves; the store ends soon, and who comes waits for that
  if (remotes_) say_goodbye(std::string(left_text));
  if (remotes_) remotes_->finish([this] { sockets_->rang(); }, by);
  if (arena_) head().goodbye.store(static_cast<uint32_t>(Goodbye::left), std::memory_order_release);
  joined_.life.reset();  // the others hear of it now
  joined_.door.close();
  options_.meeting_file.reset();
  options_.note_left = nullptr;  // and with it the store where the ranks met
  joined_.watches.clear();
  joined_.roster.reset();
  death_watch_.reset();
  groups.clear();
  retired_.clear();
  world_group_.reset();
  if (remotes_) remotes_->close();
  if (fabric_) fabric_->finish(by);
  if (sockets_) sockets_->finish_left(by);
  if (sockets_) sockets_->close_door();  // somebody may hold a group still, and with it these
}

}  // namespace unisono
