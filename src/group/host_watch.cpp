// See host_watch.hpp. Who hears the news: world_hosts.cpp.
#include "group/host_watch.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace unisono {
namespace {

constexpr int64_t away_ns = 2'000'000'000;  // who has not looked for so long was away itself
constexpr double speaks_within_s = 2;       // a rank that does not may be stopped: another of its host is tried
constexpr double rests_s = 0.5;             // between two attempts
constexpr size_t most_held = 4;             // of one host, which has two watchers, or three where one came back

// Asked by the kernel every second of a connection that is idle; given up by it when nothing has come for as long as makes a host silent.
void keep_alive(int socket) {
  constexpr int on = 1, every_s = 1, most = 100, most_quiet_ms = static_cast<int>(HostWatch::silent_ns / 1'000'000);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &every_s, sizeof(every_s));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof(most));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_quiet_ms, sizeof(most_quiet_ms));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

// Since the other kernel last acknowledged something; not of a connection that has ended.
int64_t quiet_ns(int socket) {
  tcp_info info = {};
  socklen_t length = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  return int64_t{info.tcpi_last_ack_recv} * 1'000'000;
}

// Nothing is ever sent, so whatever comes is an end.
bool has_ended(const Wire& wire) {
  std::byte byte;
  return wire.receive({&byte, 1}) >= 0 || (errno != EAGAIN && errno != EINTR);
}

}  // namespace

std::vector<int> hosts_to_watch(int mine, int count, const std::function<bool(int host)>& can_be_watched) {
  constexpr size_t enough = 2;
  std::vector<int> chosen;
  for (int step = 1; step < count && chosen.size() < enough; ++step)
    if (const int host = (mine + step) % count; can_be_watched(host)) chosen.push_back(host);
  return chosen;
}

void Quiet::look(int64_t now_ns) {
  if (looked_ns_ == 0 || now_ns - looked_ns_ > away_ns) looking_since_ns_ = now_ns;
  looked_ns_ = now_ns;
}

HostWatch::HostWatch(Sockets& sockets, std::span<const Neighbour> everybody, const Hosts& hosts, int me)
    : sockets_(sockets), everybody_(everybody), hosts_(hosts), me_(me) {}

void HostWatch::hold(Watched& host, Wire wire) {
  keep_alive(wire.number());
  prove(host, Address::of_peer(wire.number()));
  host.held.push_back({std::move(wire)});
  if (host.held.size() > most_held) host.held.erase(host.held.begin());
}

void HostWatch::prove(Watched& host, const Address& address) {
  auto is_it = [&](const Address& one) { return one.is_same_host(address); };
  if (address && std::ranges::none_of(host.proven, is_it)) host.proven.push_back(address);
}

// Two that watch a host begin with two of its ranks.
HostWatch::Watched& HostWatch::watched(int host) {
  const auto [entry, is_new] = watched_.try_emplace(host);
  if (is_new) entry->second.candidates = static_cast<size_t>(hosts_.index_on_host(me_));
  return entry->second;
}

void HostWatch::take_arrived() {
  while (auto came = sockets_.any_arrived(watch_use)) {
    auto& [key, wire] = *came;
    const bool is_member = key.from >= 0 && key.from < static_cast<int>(everybody_.size()) && !hosts_.share(key.from, me_);
    if (!is_member) continue;
    Watched& host = watched(hosts_.of(key.from));
    if (!host.is_silent) hold(host, std::move(wire));
  }
}

void HostWatch::hear(Watched& host, int64_t now) {
  for (Held& held : host.held) {
    held.ended = has_ended(held.wire);
    if (!held.ended) host.heard_ns = std::max(host.heard_ns, now - quiet_ns(held.wire.number()));
  }
}

bool HostWatch::can_connect(int rank, const std::function<bool(int rank)>& is_lost) const {
  return !is_lost(rank) && !everybody_[static_cast<size_t>(rank)].where.out_of_reach;
}

// To one of its ranks after the other, until one opens. That its kernel refuses a connection is no answer: on a machine that was started anew nobody of the job is left.
void HostWatch::connect(int number, Watched& host, const std::function<bool(int rank)>& is_lost) {
  if (!host.connecting) {
    if (host.rests_until.at_ns != never_ns && !host.rests_until.passed()) return;
    const std::span<const int> ranks = hosts_.ranks_on(number);
    size_t tries = 0;
    int to = -1;
    for (; tries < ranks.size() && to < 0; ++tries)
      if (const int rank = ranks[(host.candidates + tries) % ranks.size()]; can_connect(rank, is_lost)) to = rank;
    if (to < 0) return;
    host.candidates += tries;
    const Neighbour& other = everybody_[static_cast<size_t>(to)];
    const SocketKey key{.token = other.token, .group = 0, .use = watch_use, .from = me_, .to = to};
    if (!other.where.addresses.empty()) prove(host, other.where.addresses.front());  // by which it was reached when ranks joined
    host.connecting = std::make_unique<Connecting>(sockets_, other.where.addresses, key);
    host.speaks_by = Deadline::in_seconds(speaks_within_s);
    if (host.heard_ns == 0) host.heard_ns = now_ns();
  }
  const bool is_over = host.connecting->turn();
  auto is_proven = [&](const Address& at) { return std::ranges::any_of(host.proven, [&](const Address& one) { return one.is_same_host(at); }); };
  host.heard_ns = std::max(host.heard_ns, host.connecting->answered_ns(is_proven));
  if (is_over && host.connecting->was_short()) host.heard_ns = now_ns();  // who was not asked cannot be silent; where there is no way to ask it, it is
  if (is_over && host.connecting->state().ok()) hold(host, host.connecting->take());
  if (!is_over && !host.speaks_by.passed()) return host.connecting->arm();
  host.connecting.reset();
  host.rests_until = Deadline::in_seconds(rests_s);
}

void HostWatch::judge(int number, Watched& host, int64_t now, std::vector<News>& news) {
  if (host.heard_ns == 0 || host.is_silent) return;
  const int64_t quiet = quiet_.of(host.heard_ns, now);
  const double quiet_s = static_cast<double>(quiet) * 1e-9;
  if (quiet >= silent_ns) return news.push_back({News::Kind::silent, number, quiet_s});
  if (const bool is_late = quiet >= late_ns; is_late != host.is_late) {
    host.is_late = is_late;
    news.push_back({is_late ? News::Kind::late : News::Kind::back, number, quiet_s});
  }
}

void HostWatch::forget(int host) {
  Watched& silent = watched_[host];
  silent = {};
  silent.is_silent = true;
}

bool HostWatch::is_late(int host) const {
  const auto known = watched_.find(host);
  return known != watched_.end() && (known->second.is_late || known->second.is_silent);
}

std::vector<HostWatch::News> HostWatch::look(bool is_watcher, const std::function<bool(int rank)>& is_lost) {
  std::vector<News> news;
  take_arrived();
  auto can_be_watched = [&](int host) {
    const auto known = watched_.find(host);
    if (known != watched_.end() && (known->second.is_silent || known->second.is_late)) return false;
    return std::ranges::any_of(hosts_.ranks_on(host), [&](int rank) { return can_connect(rank, is_lost); });
  };
  std::vector<int> wanted;
  if (is_watcher) wanted = hosts_to_watch(hosts_.of(me_), hosts_.count(), can_be_watched);
  for (int host : wanted) watched(host);
  const int64_t now = now_ns();
  quiet_.look(now);
  for (auto& [number, host] : watched_) {
    hear(host, now);
    judge(number, host, now, news);
    std::erase_if(host.held, [](const Held& held) { return held.ended; });
    const bool is_wanted = std::ranges::find(wanted, number) != wanted.end();
    const bool is_asked = !host.is_silent && (is_wanted || host.is_late);  // who is late by one way may answer by another
    if (is_asked && (host.held.empty() || host.is_late || host.connecting)) connect(number, host, is_lost);  // what was begun is not left half open
    if (!is_asked) host.connecting.reset();
    if (host.held.empty() && !is_asked) host.heard_ns = 0;  // nobody here asks it any more
  }
  return news;
}

}  // namespace unisono
