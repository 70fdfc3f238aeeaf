// Somebody between clients and a server on the loopback interface who passes on what they say, or not.
//
// Who writes: stops_ by the one who made it, once; swallowed_bytes_ and the rest by the thread. Order: relaxed would do, since nothing comes with them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/meddler.hpp"
#include "tests/support/raw_store_client.hpp"

namespace unisono::testing {

// A connection that something was swallowed of is of no use any more: it is reset once nothing is swallowed.
enum class Cut {
  none,
  reset,            // every connection, also new ones
  hold,             // nothing is passed on now; all of it is later, also for who has left meanwhile
  swallow,          // in both directions
  swallow_answers,  // what the server says vanishes
  reset_at_answer,  // connections that were there before, when the server says something, which the client then does not hear
};

struct CutNow {
  Cut cut = Cut::none;
  bool spares_half = false;  // of the connections
};

// Listens from the start, so that processes can be forked who connect; passes on once it is told to start.
class CuttingRelay {
 public:
  explicit CuttingRelay(int to) : to_(to), listener_(listening()) {}
  CuttingRelay(const CuttingRelay&) = delete;
  ~CuttingRelay() { stop(); }
  void stop() {  // from then on what_now is not asked
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int port() const { return Address::of_socket(listener_.number()).port(); }

  int64_t swallowed_bytes() const { return swallowed_bytes_; }

  // It asks what it shall do whenever there is something to pass on, and every millisecond.
  void start(std::function<CutNow()> what_now) {
    thread_ = std::thread([this, what_now = std::move(what_now)] {
      while (!stops_) turn(what_now);
    });
  }

 private:
  struct Pair {
    Descriptor client, server;
    bool is_spared = false, is_broken = false, came_during_resets = false;
  };

  static Cut cut_of(const Pair& pair, const CutNow& now) {
    const bool is_none_of_those = now.cut == Cut::reset_at_answer && pair.came_during_resets;
    return is_none_of_those || (now.spares_half && pair.is_spared) ? Cut::none : now.cut;
  }

  void turn(const std::function<CutNow()>& what_now) {
    if (poll_for(what_now()) <= 0) return;
    const CutNow now = what_now();  // what comes after somebody has said so is cut
    for (size_t index = 0; index < pairs_.size(); ++index) {
      Pair& pair = pairs_[index];
      const Cut cut = cut_of(pair, now);
      if (cut == Cut::hold) continue;
      if (polled_[2 * index + 1].revents != 0) pass_on(pair, true, cut);
      if (pair.client && polled_[2 * index + 2].revents != 0) pass_on(pair, false, cut);
    }
    if (polled_[0].revents & POLLIN) let_in(now);
  }

  int poll_for(const CutNow& now) {
    for (Pair& pair : pairs_) {
      pair.came_during_resets = pair.came_during_resets && now.cut == Cut::reset_at_answer;
      const Cut cut = cut_of(pair, now);
      if (cut == Cut::reset || (pair.is_broken && cut == Cut::none)) reset(pair);
    }
    std::erase_if(pairs_, [](const Pair& pair) { return !pair.client; });
    polled_ = {{listener_.number(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      const bool is_held = cut_of(pair, now) == Cut::hold;
      for (const Descriptor* end : {&pair.client, &pair.server}) polled_.push_back({is_held ? -1 : end->number(), POLLIN, 0});
    }
    return poll(polled_.data(), polled_.size(), 1);
  }

  // Where nobody listens any more nobody listens here either, as if this were the server's own port.
  void let_in(const CutNow& now) {
    Pair pair{accepted_by(listener_), Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), ++count_ % 2 == 0};
    pair.came_during_resets = now.cut == Cut::reset_at_answer;
    const sockaddr_in address = loopback_at(to_);
    if (!pair.client) return;
    if (connect(pair.server.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return pairs_.push_back(std::move(pair));
    shutdown(listener_.number(), SHUT_RDWR);  // forked processes hold it, too
    reset(pair);
  }

  void pass_on(Pair& pair, bool is_from_client, Cut cut) {
    char bytes[65536];
    const ssize_t count = recv((is_from_client ? pair.client : pair.server).number(), bytes, sizeof(bytes), 0);
    if (cut == Cut::swallow || (cut == Cut::swallow_answers && !is_from_client)) pair.is_broken = true;
    if (cut == Cut::reset || (cut == Cut::reset_at_answer && !is_from_client) || (count <= 0 && pair.is_broken)) return reset(pair);
    if (pair.is_broken) swallowed_bytes_ += count;
    if (pair.is_broken) return;
    if (count > 0) return send_all(is_from_client ? pair.server : pair.client, {bytes, static_cast<size_t>(count)});
    pair.client.reset();
    pair.server.reset();
  }

  static void reset(Pair& pair) {
    const linger at_once{1, 0};
    for (Descriptor* end : {&pair.client, &pair.server}) {
      if (*end) setsockopt(end->number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
      end->reset();
    }
  }

  int to_, count_ = 0;
  Descriptor listener_;
  std::vector<Pair> pairs_;
  std::vector<pollfd> polled_;  // the listener, then both ends of each
  std::atomic<int64_t> swallowed_bytes_{0};
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace unisono::testing
