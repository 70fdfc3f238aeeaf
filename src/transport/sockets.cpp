// See sockets.hpp.
#include "transport/sockets.hpp"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/check.hpp"
#include "base/shortage.hpp"

namespace unisono {

bool is_acknowledged(int socket) {
  int unacknowledged = 0;
  return ioctl(socket, SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
}

namespace {

// What the kernel takes beyond what it can send at once grows old there: taken later, it is still in the cache. But it sends by itself what it has, as room
// comes, while this rank does something else: docs/performance.md has what more and less of it cost.
constexpr int most_unsent_bytes = 1 << 20;
// Where the other end is at the same address, on this machine, less under way is enough, and goes from cache to cache. On a wire the kernel finds out what the way holds.
constexpr int near_send_buffer_bytes = 256 << 10;
constexpr ptrdiff_t most_plain_guests = 1024;  // without trust, that have not said yet what they are for
constexpr ptrdiff_t most_alike = 4;            // for one use, that nobody has fetched: one that was given up may still be here
constexpr int most_let_in_at_once = 64;  // in a flood members are heard between strangers
constexpr double listener_rests_s = 0.1;

// Reads away what came, and asks whether the other end's kernel has all that was sent, or never will.
bool all_is_there(int socket) {
  std::byte unread[4096];
  for (int pieces = 0; pieces < 1024 && recv(socket, unread, sizeof(unread), 0) > 0;) ++pieces;
  tcp_info info = {};
  socklen_t length = sizeof(info);
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state == TCP_CLOSE || is_acknowledged(socket);
}

// Whether it stays in TLS is the connector's to say.
bool is_same_but_sealed(SocketKey one, const SocketKey& other) {
  one.sealed = other.sealed;
  return one == other;
}

bool is_inquiry(const SocketKey& key) { return key.group == 0 && key.use == inquiry_use; }

Status no_sockets(const char* what) { return {ErrorCode::resource, fmt::format("sockets: {}: {}", what, std::strerror(errno))}; }

}  // namespace

Result<std::unique_ptr<Sockets>> Sockets::open(SocketChoice choice) {
  std::unique_ptr<Sockets> sockets(new Sockets(std::move(choice)));
  if (Status status = sockets->listen(); !status.ok()) return status;
  return sockets;
}

Sockets::~Sockets() {
  if (!is_in_child_) finish_left();
}

Status Sockets::listen() {
  auto listeners = open_listeners(choice_.listens_at, choice_.ports, choice_.me);
  if (!listeners.ok()) return listeners.status();
  listeners_ = std::move(*listeners);
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return no_sockets("epoll_create1");
  others_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  RETURN_IF_ERROR(watch_always(others_, "eventfd"));
  timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  RETURN_IF_ERROR(watch_always(timer_, "timerfd_create"));
  for (const Listener& listener : listeners_) arm(listener.socket.number(), readable);
  return Status::success();
}

Status Sockets::watch_always(const Descriptor& one, const char* what) {
  if (!one) return no_sockets(what);
  epoll_event event{EPOLLIN, {.fd = one.number()}};
  return epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, one.number(), &event) == 0 ? Status::success() : no_sockets("epoll_ctl");
}

std::vector<Address> Sockets::published() const {
  std::vector<Address> told;
  for (const Address& one : choice_.advertised) told.push_back(one.port() == 0 ? one.with_port(address().port()) : one);
  if (told.empty())
    for (const Listener& listener : listeners_) told.push_back(listener.address.without_scope());
  return told;
}

void Sockets::ask_often(int socket) const {
  constexpr int every_s = 2;
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &every_s, sizeof(every_s));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
}

bool Sockets::was_tried_by(int rank) {
  std::lock_guard lock(mutex_);
  return tried_by_.contains(rank);
}

void Sockets::prepare(int socket) const {
  const int on = 1, every_s = 60, most = 100, bytes = static_cast<int>(choice_.send_buffer_bytes);
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most_unsent_bytes, sizeof(most_unsent_bytes));
  if (bytes > 0) setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  // A firewall on the way forgets connections on which nothing is sent, without a word. Whether the other machine is there is decided elsewhere, and long before this gives up.
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &every_s, sizeof(every_s));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof(most));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

void Sockets::fit(int socket) const {
  const bool is_near = Address::of_socket(socket).is_same_host(Address::of_peer(socket));
  if (is_near && choice_.send_buffer_bytes == 0) setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &near_send_buffer_bytes, sizeof(near_send_buffer_bytes));
}

Descriptor Sockets::connect(const Address& to) const {
  const Address there = to.with_scope_of(address());
  if (!choice_.trust && !there.is_loopback()) {  // nothing is sent in the clear to another machine, whoever says that a rank is there
    errno = EACCES;
    return {};
  }
  Descriptor connection(socket(there.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!connection) return {};
  prepare(connection.number());
  if (::connect(connection.number(), there.get(), there.bytes()) != 0 && errno != EINPROGRESS) return {};
  return connection;
}

std::unique_ptr<Opening> Sockets::open(Descriptor connection, SocketKey key) const {
  if (choice_.sealed && key.sealed == 0) key.sealed = stays_sealed;
  return std::make_unique<Opening>(std::move(connection), choice_.trust, key);
}

void Sockets::let_in() {
  lacks_descriptors_ = is_crowded_ = false;
  for (const Listener& listener : listeners_) let_in_at(listener);
}

void Sockets::let_in_at(const Listener& listener) {
  for (int count = 0; count < most_let_in_at_once && has_room(listener); ++count) {
    Descriptor socket(accept4(listener.socket.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const bool is_shortage = !socket && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
    if (is_shortage && send_away(oldest_stranger())) continue;  // what a stranger holds is there for who comes next
    if (is_shortage) lacks_descriptors_ = true;
    if (!socket) return;
    prepare(socket.number());
    const Address from = Address::of_peer(socket.number());
    guests_.push_back({Opening(std::move(socket), choice_.trust, choice_.me), Deadline::in_seconds(choice_.stranger_s), from, now_ns()});
  }
}

// For one more that is to say who it is. Connections of members that have said so, and come early, take no room: of those there are no more than there
// will be anyhow (verdict_on). Nobody has to go while nobody comes.
bool Sockets::has_room(const Listener& listener) {
  if (!choice_.trust) return std::ranges::count_if(guests_, [](const Guest& guest) { return !guest.opening.is_open(); }) < most_plain_guests;
  if (guests_.size() < most_strangers_) return true;
  std::vector<Stranger> strangers;
  for (const Guest& guest : guests_)
    if (!guest.opening.is_known()) strangers.push_back({guest.from.network(), guest.opening.names_our_job(), guest.since_ns});
  if (strangers.size() < most_strangers_) return true;
  pollfd knocking{listener.socket.number(), POLLIN, 0};
  if (poll(&knocking, 1, 0) <= 0) return false;
  is_crowded_ = !send_away(one_to_send_away(strangers, now_ns()));
  return !is_crowded_;
}

std::optional<size_t> Sockets::oldest_stranger() const {
  const bool is_there = choice_.trust && std::ranges::any_of(guests_, [](const Guest& guest) { return !guest.opening.is_known(); });
  return is_there ? std::optional<size_t>(0) : std::nullopt;
}

// The number counts strangers alone.
bool Sockets::send_away(std::optional<size_t> number) {
  if (!number) return false;
  auto stranger = guests_.begin();
  for (size_t left = *number; stranger->opening.is_known() || left > 0; ++stranger) left -= !stranger->opening.is_known();
  guests_.erase(stranger);
  return true;
}

// False: it goes. `opened`: it is open just now.
bool Sockets::hear(Guest& guest, bool& opened) {
  Opening& opening = guest.opening;
  if (opening.is_open()) return true;
  while (opening.turn() && opening.asks()) opening.answer(verdict_on(opening.key()));
  opened = opening.is_open();
  if (opened && !is_inquiry(opening.key())) proofs_.note_came(opening.key().from, guest.from);  // who inquires for a rank is not that one
  const bool left_by_itself = opening.state().code() == ErrorCode::peer_lost;
  if (!opening.state().ok() && !left_by_itself && choice_.trust) choice_.refused(fmt::format("a connection from {} was refused: {}", guest.from.host(), opening.state().message()));
  const bool is_trial = opened && opening.key().use == trial_use;
  if (is_trial) tried_by_.insert(opening.key().from);
  if (is_trial || (opened && is_inquiry(opening.key()))) return false;  // it has shown what it was to show
  if (!opening.state().ok() || opened) return opened;
  arm(opening.number(), opening.wants_to_write() ? writable : readable);
  return !guest.open_by.passed() || !choice_.trust;
}

// Lets in who is there, and hears what they say they are for. True when somebody's connection is open just now.
bool Sockets::welcome() {
  bool somebody = false;
  let_in();
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    bool opened = false;
    const bool stays = hear(*guest, opened);
    somebody |= opened;
    guest = stays ? std::next(guest) : guests_.erase(guest);
  }
  return somebody;
}

void Sockets::arm_listener() {
  if (choice_.trust) return;
  for (const Listener& listener : listeners_) arm(listener.socket.number(), readable);
}

void Sockets::wake_by(int64_t at_ns) {
  std::lock_guard lock(mutex_);
  at_ns = std::max<int64_t>(at_ns, 1);  // at once; 0 would stop the clock
  if (at_ns >= wakes_at_ns_) return;
  wakes_at_ns_ = at_ns;
  itimerspec at = {};
  at.it_value = {at_ns / 1'000'000'000, at_ns % 1'000'000'000};
  timerfd_settime(timer_.number(), TFD_TIMER_ABSTIME, &at, nullptr);
}

// Without trust nobody else lets in.
void Sockets::welcome_plain() {
  constexpr uint64_t one = 1;
  if (!choice_.trust && welcome()) static_cast<void>(!write(others_.number(), &one, sizeof(one)));  // full: it is readable
}

Wire Sockets::take(std::list<Guest>::iterator guest) {
  disarm(guest->opening.number());
  Wire wire = guest->opening.take();
  fit(wire.number());
  guests_.erase(guest);
  return wire;
}

Wire Sockets::arrived(const SocketKey& key) {
  std::lock_guard lock(mutex_);
  welcome_plain();
  for (auto guest = guests_.begin(); guest != guests_.end(); ++guest) {
    if (!is_same_but_sealed(guest->opening.key(), key)) continue;
    guest->opening.turn();  // the rest of its opening, and bytes behind it, may be here before the control thread has looked
    if (!guest->opening.is_open()) continue;
    proofs_.note_came(key.from, guest->from);
    return take(guest);
  }
  return {};
}

std::optional<std::pair<SocketKey, Wire>> Sockets::any_arrived(int32_t use) {
  std::lock_guard lock(mutex_);
  welcome_plain();
  const auto guest = std::ranges::find_if(guests_, [&](const Guest& one) {
    return one.opening.is_open() && one.opening.key().group == 0 && one.opening.key().use == use;
  });
  if (guest == guests_.end()) return std::nullopt;
  const SocketKey key = guest->opening.key();
  return std::pair(key, take(guest));
}

std::vector<SocketKey> Sockets::waiting(int32_t use) {
  std::lock_guard lock(mutex_);
  std::vector<SocketKey> keys;
  for (const Guest& guest : guests_)
    if (guest.opening.is_open() && guest.opening.key().group == 0 && guest.opening.key().use == use) keys.push_back(guest.opening.key());
  return keys;
}

// What a connection is for was said; whether there is such a thing here.
Status Sockets::verdict_on(const SocketKey& key) const {
  if (key.token != token_)
    return {ErrorCode::init, fmt::format("rank {} looks for a run of this job that is over, or has not begun, on rank {}", key.from, key.to)};
  if (is_inquiry(key) && !(is_there_ && is_there_(key.from))) return {ErrorCode::peer_lost, fmt::format("rank {} is not in this world any more", key.from)};
  if (key.group != 0 && !expected_.contains(key.group)) return {ErrorCode::peer_lost, fmt::format("that group is not on rank {} any more", key.to)};
  auto is_alike = [&](const Guest& guest) { return guest.opening.is_open() && is_same_but_sealed(guest.opening.key(), key); };
  if (std::ranges::count_if(guests_, is_alike) >= most_alike)
    return {ErrorCode::protocol, fmt::format("rank {} opens one connection more often than rank {} takes it", key.from, key.to)};
  if (choice_.sealed && !key.sealed)
    return {ErrorCode::init, fmt::format("UNISONO_ENCRYPT is on on rank {} and off on rank {}; give all ranks the same", key.to, key.from)};
  if (key.sealed == leads_to_fabric && !choice_.fabric) return {ErrorCode::protocol, fmt::format("rank {} looks for rank {} on a fabric that this one has never told of", key.from, key.to)};
  if (key.group != 0 && key.of != choice_.per_peer)
    return {ErrorCode::init, fmt::format("UNISONO_SOCKETS_PER_PEER is {} on rank {} and {} on rank {}; give all ranks the same", choice_.per_peer, key.to,
                                         key.of, key.from)};
  return Status::success();
}

void Sockets::expect(uint64_t group) {
  std::lock_guard lock(mutex_);
  expected_.insert(group);
}

void Sockets::forget(uint64_t group) {
  std::lock_guard lock(mutex_);
  expected_.erase(group);
  guests_.remove_if([&](const Guest& guest) { return guest.opening.is_open() && guest.opening.key().group == group; });
}

void Sockets::leave(Descriptor socket, Descriptor after_it) {
  constexpr double patience_s = 2;
  if (!socket) socket = std::move(after_it);
  if (!socket) return;
  shutdown(socket.number(), SHUT_WR);
  if (all_is_there(socket.number())) return;
  std::lock_guard lock(mutex_);
  static_cast<void>(or_out_of_memory([&] {  // else it is closed here and now
    left_.push_back({std::move(after_it), std::move(socket), Deadline::in_seconds(patience_s)});
    return Status::success();
  }).ok());
}

bool Sockets::look_after_left() {
  std::lock_guard lock(mutex_);
  left_.remove_if([](const Left& left) { return left.close_by.passed() || all_is_there(left.socket.number()); });
  if (!choice_.trust) return !left_.empty();
  if (listens_again_.passed()) {
    listens_again_ = {};
    for (const Listener& listener : listeners_) arm(listener.socket.number(), readable);
  }
  guests_.remove_if([](const Guest& guest) { return !guest.opening.is_open() && guest.open_by.passed(); });
  return !left_.empty() || listens_again_.at_ns != never_ns || std::ranges::any_of(guests_, [](const Guest& guest) { return !guest.opening.is_open(); });
}

// Nothing announces that the last byte was acknowledged. Strangers are not waited for.
void Sockets::finish_left(const Deadline& by) {
  constexpr int look_again_ms = 1;
  {
    std::lock_guard lock(mutex_);
    guests_.clear();
    listens_again_ = {};
  }
  while (look_after_left() && !by.passed()) poll(nullptr, 0, look_again_ms);
  std::lock_guard lock(mutex_);
  left_.clear();
}

void Sockets::close_door() {
  std::lock_guard lock(mutex_);
  for (Listener& listener : listeners_) listener.socket.reset();
  guests_.clear();
}

void Sockets::arm(int socket, uint32_t events) const {
  const uint32_t wanted = (events & readable ? EPOLLIN : 0u) | (events & writable ? EPOLLOUT : 0u);
  epoll_event event{wanted | EPOLLONESHOT, {.fd = socket}};
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket, &event) == 0 || errno != EEXIST) return;  // where it cannot be: sleepers look ten times a second
  static_cast<void>(epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, socket, &event));
}

void Sockets::disarm(int socket) const { static_cast<void>(epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, socket, nullptr)); }

void Sockets::rang() {
  epoll_event events[64];
  uint64_t count = 0;
  static_cast<void>(!read(others_.number(), &count, sizeof(count)));
  static_cast<void>(epoll_wait(epoll_.number(), events, std::size(events), 0));
  std::lock_guard lock(mutex_);
  if (read(timer_.number(), &count, sizeof(count)) > 0) wakes_at_ns_ = never_ns;
  if (!choice_.trust) return;
  welcome();
  if (lacks_descriptors_ || is_crowded_)
    listens_again_ = Deadline::in_seconds(listener_rests_s);  // whoever knocks still does, and would wake this thread again at once
  else
    for (const Listener& listener : listeners_) arm(listener.socket.number(), readable);
}

void Sockets::close_in_child() {
  is_in_child_ = true;
  listeners_.clear();
  epoll_.reset();
  others_.reset();
  timer_.reset();
  guests_.clear();
  left_.clear();
}

}  // namespace unisono
