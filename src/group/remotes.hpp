// The ranks on other hosts: one connection to each process, for notices (notice.hpp) alone. Notices from one rank come in the order in
// which it told them, each once, also where something on the way has reset the connection: a notice is kept until the other end has said that it heard it. A new
// connection begins with how many each end has heard, and what is missing is told again. Either end may open it, and gives each that it tries a number greater than any
// it knows of. Of two the later counts; an earlier one does where what this end tried has failed.
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
      bool is_wrong = false;  // it said what cannot be; otherwise the connection ended by itself
      std::string why = {};
    };
    std::vector<Ended> ended;  // whose connection has, after the last that was heard from them: told in each look until it is open again; see reopen()
    std::vector<int> back;     // who is spoken with again
  };
  void listen(News& news);  // adds what has come so far; then the sockets' descriptor tells when there is more
  bool has_ended(int rank);   // its connection; it may come back
  int64_t unheard_ns(int rank);  // since when its connection is not open; 0: it is, or it was given up
  size_t kept(int rank);      // notices that it may not have heard
  void reopen(int rank);      // whose connection has ended by itself, or is refused; ten times a second at most
  void give_up(int rank);     // nothing more is told to it, nor heard from it
  // When the last was told: until the kernels of those who are there have all of it, or two seconds. A connection that was begun late, or reset, is opened meanwhile, for
  // which those of the others have to be let in. Nothing that they tell is heard any more.
  void finish(const std::function<void()>& let_in, const Deadline& by);
  void close();
  void close_in_child() { peers_.clear(); }

 private:
  struct Peer {
    enum class Part : uint8_t { none, head, body };

    std::unique_ptr<Channel> channel;  // null: on this host, or gone
    int number = 0;                    // of the connection
    int latest = 0;                    // of all that were tried
    int spoken = 0;                    // of the last by which both have said how many they have heard; the first needs none of that
    Deadline rests_until = {};         // before another is tried
    double patience_s = 0;             // with the one that is tried; twice as long with the next
    Deadline speaks_by = {};
    bool has_ended = false;            // the connection, or nobody could speak by it
    bool has_left = false;             // it has said goodbye
    int64_t unheard_ns = 0;
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
  void resume(int rank, int number);
  void note_unheard(int rank);
  void try_again(int rank);
  bool is_refused(int rank) const;
  void take_arrived();
  bool wants(int rank, int number, bool& fetches);
  void hear_all(int rank, News& news);
  static void move(Peer& peer);
  static void post(Peer& to, const Notice& kept);
  static void say_heard(Peer& to);
  static Status note_heard(Peer& to, uint64_t count);
  bool is_told(int rank);
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
