// The TCP sockets of one process: a listener at each of its addresses, and the connections that others opened to it until those who want them come. With trust,
// whoever has the job's secret is let in, and nobody else; without, on the loopback interface and for tests, whoever knows the token.
//
// Who connects says first what for, and need not wait for the other side to ask for it: a connection that comes early waits here, and is in nobody's way.
// One for a group that this process neither has nor makes, without the token, or for the same as several before it, is refused.
//
// Strangers: with trust, only rang() lets in, which the control thread calls, so that no knocking holds up who works. At most 64 that have not
// proven to have the secret are kept, for five seconds each; who goes when more come, trust/strangers.hpp says.
//
// Order: that descriptors are lacking any thread may say, and nothing hangs on when another sees it.
//
// Thread-safe. Its descriptor is readable when something that was armed has happened, and when one thread let in a connection that
// another waits for; rang() disarms it.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "transport/address.hpp"
#include "transport/listeners.hpp"
#include "transport/opening.hpp"
#include "transport/proofs.hpp"
#include "trust/strangers.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct SocketChoice {
  std::vector<Address> listens_at = {Address::loopback(0)};  // port 0: any of the range
  PortRange ports = {};
  std::vector<Address> advertised = {};       // told instead of where it listens, as UNISONO_ADVERTISE has it; port 0: that of the first listener
  int64_t send_buffer_bytes = 0;              // 0: as the kernel has it
  std::shared_ptr<const Trust> trust = {};    // null: plain
  int me = 0;                                 // the rank for which connections are accepted
  bool sealed = false;                        // all connections stay in TLS
  int per_peer = 1;                           // connections for one group and use
  bool fabric = false;                        // there is one, to which these may lead
  double stranger_s = 5;                      // until one that has not opened its connection goes
  std::function<void(const std::string&)> refused = [](const std::string&) {};  // told why somebody was not let in
};

inline constexpr int32_t trial_use = 3;  // of a connection that only proves that there is a way
inline constexpr int32_t watch_use = 4;  // of one that shows that the other machine is there: see group/host_watch.hpp
inline constexpr int32_t inquiry_use = 5;  // of one that only asks whether the rank that it comes from is in this world already: see rendezvous/running_world.hpp

bool is_acknowledged(int socket);  // all that was sent, by the other kernel

class Sockets {
 public:
  static Result<std::unique_ptr<Sockets>> open(SocketChoice choice = {});
  Sockets(const Sockets&) = delete;
  ~Sockets();

  const Address& address() const { return listeners_.front().address; }
  const std::vector<Listener>& listeners() const { return listeners_; }
  std::vector<Address> published() const;  // as others are to be told
  Descriptor connect(const Address& to) const;  // begins to; empty, with errno, when it cannot be
  // Of a connection that was begun. What stays in TLS for its own reasons says so in the key.
  std::unique_ptr<Opening> open(Descriptor connection, SocketKey key) const;
  void fit(int socket) const;  // how much may be under way, once it is open
  // What is known of the addresses of others; any thread.
  template <typename Deed>
  auto with_proofs(Deed deed) {
    std::lock_guard lock(mutex_);
    return deed(proofs_);
  }
  void ask_often(int socket) const;  // its kernel asks the other every two seconds whether it knows the connection, instead of every minute
  bool was_tried_by(int rank);  // a trial of that rank's has come
  Wire arrived(const SocketKey& key);  // the connection that was opened for this; empty: not yet
  std::optional<std::pair<SocketKey, Wire>> any_arrived(int32_t use);  // whoever opened it, for no group
  std::vector<SocketKey> waiting(int32_t use);  // what those that came, for no group, and were not fetched are for
  int per_peer() const { return choice_.per_peer; }
  bool lacks_descriptors() const { return lacks_descriptors_; }  // for those who wait to be let in
  void know(uint64_t token) { token_ = token; }
  void answer_inquiries(std::function<bool(int rank)> is_there) { is_there_ = std::move(is_there); }  // before anybody can ask; called where rang() is
  void expect(uint64_t group);  // from now on connections for it may come; always for group 0
  void forget(uint64_t group);  // none more, and those that came and that nobody fetched are closed

  // A connection that its owner is done with ends for the other side, and is closed once that side's kernel has all that was sent, or after
  // two seconds: closed with unread bytes it would be reset, and what is still on its way lost. What hangs on it is closed after it.
  void leave(Descriptor socket, Descriptor after_it);
  bool look_after_left();  // now and then, and after strangers too; whether there are any
  void close_door();  // nobody is let in any more
  void finish_left(const Deadline& by = {});  // when nobody will look any more: waits for them, until then; the destructor does

  enum Event : uint32_t { readable = 1, writable = 2 };
  // Rings once. A socket is watched from the first time on that somebody is about to sleep for it, and not before: the kernel goes through the watch
  // with every packet that comes.
  void arm(int socket, uint32_t events) const;
  void disarm(int socket) const;
  void arm_listener();
  void wake_by(int64_t at_ns);  // the descriptor is readable then, or before
  int descriptor() const { return epoll_.number(); }
  void rang();
  void close_in_child();
  bool is_in_child() const { return is_in_child_; }

 private:
  struct Guest {
    Opening opening;
    Deadline open_by;
    Address from;
    int64_t since_ns;
  };
  struct Left {
    Descriptor after_it, socket;  // destroyed from the last to the first
    Deadline close_by;
  };
  explicit Sockets(SocketChoice choice) : choice_(std::move(choice)) {}
  Status listen();
  Status watch_always(const Descriptor& one, const char* what);
  void prepare(int socket) const;
  bool welcome();
  void welcome_plain();
  Wire take(std::list<Guest>::iterator guest);
  void let_in();
  void let_in_at(const Listener& listener);
  bool hear(Guest& guest, bool& opened);
  bool has_room(const Listener& listener);
  std::optional<size_t> oldest_stranger() const;
  bool send_away(std::optional<size_t> stranger);
  Status verdict_on(const SocketKey& key) const;

  SocketChoice choice_;
  std::vector<Listener> listeners_;
  Descriptor epoll_, others_, timer_;  // an eventfd: something came for somebody else; a timerfd
  int64_t wakes_at_ns_ = never_ns;
  uint64_t token_ = 0;
  std::function<bool(int rank)> is_there_;
  std::mutex mutex_;
  std::list<Guest> guests_;
  std::list<Left> left_;
  std::set<uint64_t> expected_;
  Proofs proofs_;
  std::set<int> tried_by_;
  Deadline listens_again_;  // where descriptors or room are lacking: until then nobody is let in
  std::atomic<bool> lacks_descriptors_{false};
  size_t most_strangers_ = strangers_here();
  bool is_crowded_ = false;  // by strangers of which none can be sent away as yet
  bool is_in_child_ = false;
};

}  // namespace unisono
