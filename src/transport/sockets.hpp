// The plain TCP sockets of one process on the loopback interface: one listener, and the connections that others opened to it until those
// who want them come. For tests: nothing is encrypted, and whoever knows the token is let in.
//
// Who connects says first what for, and need not wait for the other side to ask for it: a connection that comes early waits here, within
// a bound. One for a group that this process neither has nor makes, or without the token, is closed.
//
// Order: that descriptors are lacking any thread may say, and nothing hangs on when another sees it.
//
// Thread-safe. Its descriptor is readable when something that was armed has happened, and when one thread let in a connection that
// another waits for; rang() disarms it.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <set>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "unisono/status.hpp"

namespace unisono {

// What a connection is for; both ends say the same. A value.
struct SocketKey {
  uint64_t token = 0;  // of the process that listens
  uint64_t group = 0;
  int32_t use = 0;
  int32_t from = 0, to = 0;  // ranks; `from` connects

  bool operator==(const SocketKey&) const = default;
};

class Sockets {
 public:
  static Result<std::unique_ptr<Sockets>> open(int64_t send_buffer_bytes);  // 0: as the kernel has it
  Sockets(const Sockets&) = delete;
  ~Sockets();

  int port() const { return port_; }
  Descriptor connect(int port) const;        // begins to; empty, with errno, when it cannot be
  Descriptor arrived(const SocketKey& key);  // the connection that was opened for this; empty: not yet
  bool lacks_descriptors() const { return lacks_descriptors_; }  // for those who wait to be let in
  void know(uint64_t token) { token_ = token; }
  void expect(uint64_t group);  // from now on connections for it may come; always for group 0
  void forget(uint64_t group);  // none more, and those that came and that nobody fetched are closed

  // A connection that its owner is done with ends for the other side, and is closed once that side's kernel has all that was sent, or after
  // two seconds: closed with unread bytes it would be reset, and what is still on its way lost. What hangs on it is closed after it.
  void leave(Descriptor socket, Descriptor after_it);
  bool look_after_left();  // now and then; whether there are any
  void finish_left();      // when nobody will look any more: waits for them; the destructor does

  enum Event : uint32_t { readable = 1, writable = 2 };
  void watch(int socket);                    // before it is armed; until it is closed
  void arm(int socket, uint32_t events);     // once
  void arm_listener() { arm(listener_.number(), readable); }
  int descriptor() const { return epoll_.number(); }
  void rang();
  void close_in_child();
  bool is_in_child() const { return is_in_child_; }

 private:
  struct Guest {
    Descriptor socket;
    SocketKey key;
    size_t heard = 0;  // bytes of its key
  };
  struct Left {
    Descriptor after_it, socket;  // destroyed from the last to the first
    Deadline close_by;
  };
  explicit Sockets(int64_t send_buffer_bytes) : send_buffer_bytes_(send_buffer_bytes) {}
  Status listen();
  void prepare(int socket) const;
  bool welcome();
  bool is_wanted(const Guest& guest) const;

  int64_t send_buffer_bytes_;
  Descriptor listener_, epoll_, others_;  // an eventfd: something came for somebody else
  int port_ = 0;
  uint64_t token_ = 0;
  std::mutex mutex_;
  std::list<Guest> guests_;
  std::list<Left> left_;
  std::set<uint64_t> expected_;
  std::atomic<bool> lacks_descriptors_{false};
  bool is_in_child_ = false;
};

}  // namespace unisono
