// A network that moves messages between processes without the kernel: an engine of others' behind a few functions, of which ucx.cpp has one. How two ranks find out that they share
// one, and how messages become a stream: fabric_stream.hpp.
//
// Whatever is sent lies in memory of the fabric's own, and what came does: a call may be given up, and its memory be its owner's again, while the network still has hold of a message.
//
// Thread-safe. Who writes a message's state: the fabric, once, after the bytes and their number; who has fetched it reads those after that. Order: acquire and release.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "transport/channel.hpp"
#include "unisono/status.hpp"

namespace unisono {

// A message that is sent, or comes.
struct FabricMessage {
  enum class State { flying, whole, failed };
  static constexpr size_t most_bytes = 64 << 10;

  std::atomic<State> state = State::flying;
  size_t bytes = 0;
  std::array<std::byte, most_bytes> data;  // not cleared: it is written before it is read
};

class Fabric {
 public:
  // Another process, as the fabric reaches it.
  class Peer {
   public:
    virtual ~Peer() = default;
    virtual Status state() const = 0;        // ok, or why nothing can be sent there any more
    virtual bool has_unsent() const = 0;     // messages are on their way
    virtual void lost() = 0;                 // it is known to have ended: nobody waits for it
  };

  Fabric() = default;
  Fabric(const Fabric&) = delete;
  virtual ~Fabric() = default;

  virtual std::string address() const = 0;  // what another process needs to reach this one; empty: nobody can
  virtual Result<std::shared_ptr<Peer>> reach(const std::string& address) = 0;
  virtual Status send(Peer& peer, uint64_t tag, Channel::Sent first, Channel::Sent second) = 0;  // both copied, in one message of at most FabricMessage::most_bytes; in order for one tag
  virtual std::shared_ptr<FabricMessage> receive(uint64_t tag) = 0;  // the next, which may be flying still; null: none has come
  virtual void give_back(std::shared_ptr<FabricMessage> message) = 0;  // also one that is flying
  virtual void arm() = 0;         // the bell rings when something happens
  virtual int descriptor() const = 0;  // readable when the control thread is to look; -1: never
  virtual bool rang() = 0;        // it was: whether something has happened that a sleeper may wait for
  virtual void look_after() = 0;  // by the control thread, whenever it is awake: moves what nobody else does
  virtual void finish(const Deadline& by) = 0;  // what is on its way goes until then; nothing is sent or received any more
  virtual void close_in_child() = 0;
  virtual bool is_in_child() const = 0;
};

// What a rank tells the others while joining. All or none look for a fabric; who has one uses it with whom has one.
enum class FabricHere : int32_t { not_looked_for, looked_for, found };

// What is said where only some ranks look for a fabric.
inline std::string differs_in_fabric(const std::string& one, bool tries, const std::string& other) {
  return one + (tries ? " tries" : " does not try") + " UCX between hosts (UNISONO_TRANSPORT, UNISONO_FABRIC), and " + other + (tries ? " does not" : " does") + "; give all ranks the same";
}

}  // namespace unisono
