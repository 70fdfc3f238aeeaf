// A client of a TCPStore's server: as many connections as threads ask at the same time, of which a few are kept for the next.
//
// A connection that ends in the middle of a call is a StoreLostError, since nobody knows whether the server did what it was asked to. The
// next call tries a new one: the server may be there, and must be the same, which its epoch tells. Thread-safe; a forked child opens
// connections of its own.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/fork.hpp"
#include "base/log.hpp"
#include "rendezvous/store_connection.hpp"

namespace unisono {

struct StoreTarget {
  std::string name;  // as the user gave it, for errors
  std::vector<Address> addresses;
  StoreCaller caller;
  Log log = {};
  std::stop_token stop = {};  // ends every wait
};

class StoreClient {
 public:
  explicit StoreClient(StoreTarget target) : target_(std::move(target)) {}

  Status connect(const Deadline& deadline, double timeout_s);  // waits for a server that starts late; the number is for the error
  Result<std::vector<distributed::StoreAnswer>> perform(const std::vector<distributed::StoreRequest>& requests, double timeout_s);
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s);

 private:
  using Connection = std::unique_ptr<StoreConnection>;
  Result<Connection> try_addresses(const StoreCaller& caller, Patience& patience, double each_s) const;
  Result<Connection> reopen(Patience& patience);
  Result<Connection> take(Patience& patience);
  void keep(Connection connection);
  Result<StoreFrame> ask(const std::string& frame, Patience& patience);
  Status named(ErrorCode code, const std::string& message) const;

  StoreTarget target_;
  uint64_t epoch_ = 0;
  std::mutex mutex_;
  std::vector<Connection> idle_;
  std::optional<ForkMark> fork_mark_{std::in_place};
};

}  // namespace unisono
