// The server of a TCPStore: a thread that listens at the addresses that it is given, and at no others, and keeps the keys. Who may connect is decided by TLS.
//
// Strangers, who have not shown the job's secret and said who they are, have five seconds for that, and there are at most 64 of them: when one
// more comes, first those go that have not even named this job, then those of the network that most of them come from. Where a process may open few
// descriptors there are fewer, and where those run out a stranger goes for who comes next, or that one waits in the kernel's line until one is free.
//
// Order: nothing is shared with the thread but a count under a lock; all else is its own from the moment it starts until it has ended.
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "rendezvous/store_table.hpp"
#include "transport/address.hpp"
#include "trust/trust.hpp"

namespace unisono {

struct StoreServerOptions {
  std::vector<Address> addresses;  // those of them that are this machine's
  std::shared_ptr<const Trust> trust;
  Log log = {};
  StoreCaps caps = {};
  double stranger_s = 5;
  size_t queued_bytes = 64_MiB;  // of answers that a client does not take
  std::string away_prefix = {};  // where ranks meet: a key that begins so, and ends with the number of a rank, is there while that rank was connected and is not any more
};

class StoreServer {
 public:
  static Result<std::unique_ptr<StoreServer>> start(StoreServerOptions options);  // InitError: none is this machine's, or one is taken
  StoreServer(const StoreServer&) = delete;
  ~StoreServer();  // ends all connections

  const Address& address() const;  // the first of them
  const std::vector<Address>& addresses() const;  // all at which it listens
  Status await_users(int count, const Deadline& deadline, double timeout_s);  // until so many have connected; the number is for the error
  void await_left(const Deadline& deadline);  // until nobody is connected but rank 0
  void note(std::string key, std::string value);  // sets it, if it is not there; nobody waits for that

 private:
  struct Hall;
  explicit StoreServer(std::unique_ptr<Hall> hall);
  std::unique_ptr<Hall> hall_;
};

}  // namespace unisono
