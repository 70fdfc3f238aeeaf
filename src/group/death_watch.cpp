// See death_watch.hpp. Next: world_threads.cpp, which tells the groups.
//
// Order: a rank stores its goodbye with release before it closes its end of the life pipe, and it is loaded with acquire after
// that was seen.
#include "group/death_watch.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/check.hpp"
#include "base/proc_text.hpp"

namespace unisono {
namespace {

constexpr int64_t patience_ns = 200'000'000;
constexpr int look_again_ms = 5;

// Linux 6.13's struct pidfd_info, first published form; Debian 12's headers do not have it yet.
struct PidfdInfo {
  uint64_t mask = 1 << 3;  // the exit status, which the kernel knows once the process has been reaped
  uint64_t cgroup = 0;
  uint32_t ids[11] = {};
  int32_t exit_code = 0;
};

// In this pid namespace; 0 where it has been reaped, or has no number here.
int pid_of(int pidfd) {
  std::ifstream file(fmt::format("/proc/self/fdinfo/{}", pidfd));
  for (std::string key, value; file >> key && std::getline(file, value);)
    if (key == "Pid:") return std::max(std::atoi(value.c_str()), 0);
  return 0;
}

// What wait() would give, of a process that nobody has reaped: field 52 of /proc/<pid>/stat, counted from behind the name, which may
// have blanks in it.
std::optional<int> status_of_zombie(int pidfd) {
  constexpr int fields_from_state_to_exit_code = 49;
  const int pid = pid_of(pidfd);
  if (pid == 0) return std::nullopt;
  const std::string text = proc_text(fmt::format("/proc/{}/stat", pid));
  const size_t name_ends = text.rfind(')');
  if (name_ends == std::string::npos || pid_of(pidfd) != pid) return std::nullopt;  // reaped meanwhile, and the number used again
  std::istringstream fields(text.substr(name_ends + 1));
  std::string state, skipped;
  fields >> state;
  for (int field = 1; field < fields_from_state_to_exit_code; ++field) fields >> skipped;
  int status = 0;
  return state == "Z" && fields >> status ? std::optional(status) : std::nullopt;
}

std::optional<int> exit_status(int pidfd) {
  if (auto status = status_of_zombie(pidfd)) return status;
  PidfdInfo info;
  if (ioctl(pidfd, _IOWR(0xff, 11, PidfdInfo), &info) == 0 && info.mask & 1 << 3) return info.exit_code;
  return std::nullopt;
}

std::string exit_text(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("{}{}", exited_text, WEXITSTATUS(status));
}

Status cannot_watch(const char* what) {
  return {ErrorCode::resource, fmt::format("watching for the others' deaths: {}: {}", what, std::strerror(errno))};
}

}  // namespace

Result<std::unique_ptr<DeathWatch>> DeathWatch::open() {
  std::unique_ptr<DeathWatch> watch(new DeathWatch);
  watch->epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!watch->epoll_) return cannot_watch("epoll_create1");
  return watch;
}

Status DeathWatch::watch(const Joined& joined) {
  joined_ = &joined;
  peers_.resize(joined.watches.size());
  for (size_t rank = 0; rank < joined.watches.size(); ++rank) {
    const auto token = static_cast<int64_t>(2 * rank);
    if (const Descriptor& process = joined.watches[rank].process) RETURN_IF_ERROR(add(process.number(), token));
    if (const Descriptor& life = joined.watches[rank].life) RETURN_IF_ERROR(add(life.number(), token + 1));
  }
  return Status::success();
}

Status DeathWatch::add(int descriptor, int64_t token, Often often) {
  epoll_event event{static_cast<uint32_t>(EPOLLIN) | (often == Often::once ? static_cast<uint32_t>(EPOLLONESHOT) : 0u),
                    {.u64 = static_cast<uint64_t>(token)}};
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, descriptor, &event) == 0) return Status::success();
  return cannot_watch("epoll_ctl");
}

void DeathWatch::remove(int descriptor) { epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, descriptor, nullptr); }

DeathWatch::News DeathWatch::wait(int most_milliseconds) {
  epoll_event events[64];
  const int count = epoll_wait(epoll_.number(), events, std::size(events), suspected_ > 0 ? look_again_ms : most_milliseconds);
  News news;
  for (int index = 0; index < count; ++index) {
    const auto token = static_cast<int64_t>(events[index].data.u64);
    if (token < 0)
      news.tokens.push_back(token);
    else
      suspect(token);
  }
  for (size_t rank = 0; rank < peers_.size() && suspected_ > 0; ++rank) {
    if (peers_[rank].suspected_ns == 0 || peers_[rank].reported) continue;
    std::string how = how_it_ended(static_cast<int>(rank));
    if (how.empty()) continue;
    news.losses.push_back({static_cast<int>(rank), std::move(how)});
  }
  for (const Loss& loss : news.losses) peers_[static_cast<size_t>(loss.rank)].reported = true;  // last, when memory can no longer run out
  suspected_ -= static_cast<int>(news.losses.size());
  return news;
}

void DeathWatch::suspect(int64_t token) {
  const auto rank = static_cast<size_t>(token / 2);
  const Watch& watch = joined_->watches[rank];
  const bool ended = token % 2 == 0;
  remove(ended ? watch.process.number() : watch.life.number());
  peers_[rank].ended |= ended;
  if (peers_[rank].suspected_ns != 0) return;
  peers_[rank].suspected_ns = now_ns();
  ++suspected_;
}

std::string DeathWatch::how_it_ended(int rank) const {
  const auto index = static_cast<size_t>(rank);
  const uint32_t goodbye = joined_->neighbours[index].head().goodbye.load(std::memory_order_acquire);
  if ((goodbye & 0xff) == static_cast<uint32_t>(Goodbye::exiting)) return fmt::format("{}{}", exited_text, goodbye >> 8 & 0xff);
  if ((goodbye & 0xff) == static_cast<uint32_t>(Goodbye::left)) return std::string(left_text);
  const Peer& peer = peers_[index];
  const Descriptor& process = joined_->watches[index].process;
  if (peer.ended)
    if (auto status = exit_status(process.number())) return exit_text(*status);
  if (now_ns() - peer.suspected_ns < patience_ns) return "";
  if (peer.ended) return "died, cause unknown (its launcher knows)";
  return process ? "replaced its program by another (exec)" : "died or replaced its program by another, cause unknown (its launcher knows)";
}

}  // namespace unisono
