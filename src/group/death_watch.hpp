// Who of the other ranks is gone, and how each ended: one epoll over everybody's pidfd and life pipe (rendezvous/join.hpp).
//
//   the pidfd is readable         the process has ended
//   the life pipe is at its end   it has ended, has left the world, or replaced its program by exec(); the pidfd tells which
//
// How a process ended only its parent is sure to learn. Others know it when it said so itself, as long as its parent has not
// reaped it (/proc tells), or afterwards where the kernel does (Linux 6.15). So who ended silently is asked after for a moment
// before it is reported. Not thread-safe: the control thread's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/join.hpp"

namespace unisono {

inline constexpr std::string_view left_text = "left";           // how one ended that left the world
inline constexpr std::string_view exited_text = "exited with ";  // and one that said so when its process ended

class DeathWatch {
 public:
  static Result<std::unique_ptr<DeathWatch>> open();  // before joining, so that a lack of descriptors is told to all
  DeathWatch(const DeathWatch&) = delete;

  Status watch(const Joined& joined);  // all of them, or an error: nobody is left unwatched
  // Something else to wait for; tokens are negative.
  enum class Often { always, once };
  Status add(int descriptor, int64_t token, Often often = Often::always);
  void remove(int descriptor);
  void close_in_child() { epoll_.reset(); }

  struct Loss {
    int rank;
    std::string how;  // "was killed by signal 9 (Killed)"
  };
  struct News {
    std::vector<Loss> losses;
    std::vector<int64_t> tokens;
  };
  News wait(int most_milliseconds);

 private:
  struct Peer {
    int64_t suspected_ns = 0;  // since when it is known to be gone, but not how
    bool ended = false;        // its pidfd said so
    bool reported = false;
  };
  DeathWatch() = default;
  void suspect(int64_t token);
  std::string how_it_ended(int rank) const;  // empty: not known yet

  Descriptor epoll_;
  const Joined* joined_ = nullptr;
  std::vector<Peer> peers_;
  int suspected_ = 0;  // and not reported
};

}  // namespace unisono
