// Whether other hosts are there at all. From host to host stand connections that never carry a byte once they are open: on those the two kernels ask each other
// every second, and answer also for a process that is stopped, frozen or starved. So a process that is late is late, and a machine without power, or without a
// wire, is silent. Nothing else here depends on how fast anybody is.
//
// Two ranks of each host, its watchers, connect to the next two hosts that are there, to whichever rank of them answers; both ends judge by what they have. A connection
// that ends is no news: processes end, boxes on the way reset. It is made anew, and silence counts from when the other kernel was last heard.
//
// While it is made anew, that a kernel takes the connection is an answer, for its process may be stopped; but only at an address where a rank of that host has shown
// that it is there. At any other somebody else may answer: this machine itself, which has a docker0 with the same address, or a box on the way.
//
// Not thread-safe: the control thread's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/hosts.hpp"
#include "transport/connecting.hpp"
#include "transport/lanes.hpp"

namespace unisono {

// The next two hosts after mine, going round, that can be watched from here.
std::vector<int> hosts_to_watch(int mine, int count, const std::function<bool(int host)>& can_be_watched);

// How long a host has been quiet, for one who may have been away itself: who did not look for a while (its own machine slept) has heard nothing meanwhile, and
// begins to count anew. A value.
class Quiet {
 public:
  void look(int64_t now_ns);
  int64_t of(int64_t heard_ns, int64_t now_ns) const { return now_ns - std::max(heard_ns, looking_since_ns_); }

 private:
  int64_t looking_since_ns_ = 0, looked_ns_ = 0;
};

class HostWatch {
 public:
  static constexpr int64_t late_ns = 3'000'000'000, silent_ns = 8'000'000'000;

  HostWatch(Sockets& sockets, std::span<const Neighbour> everybody, const Hosts& hosts, int me);
  HostWatch(const HostWatch&) = delete;

  struct News {
    enum class Kind { late, back, silent };  // silent: told in each look until forget() was called
    Kind kind;
    int host;
    double quiet_s;
  };
  // Several times a second.
  std::vector<News> look(bool is_watcher, const std::function<bool(int rank)>& is_lost);
  bool is_late(int host) const;
  void forget(int host);  // it is silent, and never looked at again
  void close_in_child() { watched_.clear(); }

 private:
  struct Held {
    Wire wire;
    bool ended = false;
  };
  struct Watched {
    std::vector<Held> held;                  // open connections to its ranks and from them
    std::vector<Address> proven;             // where a rank of it has shown that it is there
    std::unique_ptr<Connecting> connecting;  // one more
    size_t candidates = 0;                   // that were tried so far
    Deadline speaks_by = {}, rests_until = {};
    int64_t heard_ns = 0;  // when its kernel last answered; 0: it was not asked
    bool is_late = false, is_silent = false;
  };
  Watched& watched(int host);
  void take_arrived();
  void hold(Watched& host, Wire wire);
  static void prove(Watched& host, const Address& address);
  void hear(Watched& host, int64_t now);
  void connect(int number, Watched& host, const std::function<bool(int rank)>& is_lost);
  bool can_connect(int rank, const std::function<bool(int rank)>& is_lost) const;
  void judge(int number, Watched& host, int64_t now, std::vector<News>& news);

  Sockets& sockets_;
  std::span<const Neighbour> everybody_;
  Hosts hosts_;
  int me_;
  Quiet quiet_;
  std::map<int, Watched> watched_;  // by host
};

}  // namespace unisono
