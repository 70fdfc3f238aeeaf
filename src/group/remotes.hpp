// The ranks on other hosts: one connection to each process, for notices (notice.hpp) alone. Notices from one rank come in the order in
// which it told them, each once, also where something on the way has reset the connection: a notice is kept until the other end has said that it heard it. A new
// connection begins with how many each end has heard, and what is missing is told again. Either end may open it; of two, the one with the later number counts.
//
// Thread-safe. Any thread may tell; the control thread listens. Nobody waits: what does not go at once goes when the control thread is
// woken for it.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "group/teller.hpp"
#include "transport/router.hpp"

namespace unisono {

class Remotes final : public Teller {
 public:
  // `wake`: the control thread is to listen, though nothing may come any more.
  Remotes(std::span<const Neighbour> everybody, int me, const Ways& ways, std::function<void()> wake);
  Remotes(const Remotes&) = delete;

  std::span<const int> ranks() const { return ranks_; }
  void tell(int rank, const Notice& notice) override;
  void tell_all(const Notice& notice);

  struct Heard {
    int rank = -1;
    Notice notice = {};
  };
  struct News {
    std::deque<Heard> heard;
    struct Ended {
      int rank = -1;
      std::string why = {};  // it said what cannot be; empty: the connection ended by itself
    };
    std::vector<Ended> ended;  // whose connection did, after the last that was heard from them; see reopen()
    std::vector<int> back;     // who is spoken with again
  };
  void listen(News& news);  // adds what has come so far; then the sockets' descriptor tells when there is more
  bool has_ended(int rank);   // its connection; it may come back
  bool is_opening(int rank);  // a new one is on its way, and nothing tells yet that it cannot be
  void reopen(int rank);      // whose connection has ended by itself; ten times a second at most
  void give_up(int rank);     // nothing more is told to it, nor heard from it
  // When the last was told: until all of it has left, or two seconds. A connection that was begun late is opened meanwhile, for which those of
  // the others have to be let in.
  void finish(const std::function<void()>& let_in, const Deadline& by);
  void close();
  void close_in_child() { peers_.clear(); }

 private:
  struct Peer {
    enum class Part : uint8_t { none, head, body };

    std::unique_ptr<Channel> channel;  // null: on this host, or gone
    int number = 0;                    // of the connection
    Deadline rests_until = {};         // before another is tried
    bool has_ended = false;            // the connection
    bool resumes = false;              // it has taken the place of another, and the other end has not said yet how many it has heard
    std::deque<Notice> telling;        // until the other end has heard them
    uint64_t forgotten = 0;            // how many it has heard before those
    uint64_t forgets = 0;              // how many it says that it has heard
    uint64_t heard = 0, said = 0;      // of its notices; and how many it was told

    Notice hearing;
    std::string why;                   // what it said that cannot be
    Part part = Part::none;            // that is being received; telling turns the channel, too, and may have received the rest of it
  };
  Peer& peer(int rank) { return peers_[static_cast<size_t>(rank)]; }
  void connect(int rank, int number);
  void take_arrived();
  static void move(Peer& peer);
  static void post(Peer& to, const Notice& kept);
  static void say_heard(Peer& to);
  static Status note_heard(Peer& to, uint64_t count);
  bool all_is_told();
  static bool end(Peer& from, const Status& why);
  bool hear(int rank, News& news);

  std::span<const Neighbour> everybody_;
  int me_;
  Sockets* sockets_;
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<Peer> peers_;  // by rank
  std::vector<int> ranks_;
};

}  // namespace unisono
