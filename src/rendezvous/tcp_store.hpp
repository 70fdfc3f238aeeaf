// Making a TCPStore with what only the library and its tests can give. See unisono/store.hpp.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "rendezvous/store_server.hpp"
#include "trust/tls.hpp"
#include "unisono/store.hpp"

namespace unisono {

struct TcpStoreRequest {
  std::string host = {};
  int port = 0;
  distributed::TCPStoreOptions options = {};
  std::vector<Address> addresses = {};      // in the order in which to try them, or at which the master listens; none: what the host stands for
  std::vector<Address> also_at = {};        // of the master: where it listens beside the host's addresses
  std::shared_ptr<const Trust> trust = {};  // null: by the job's secret, see store_trust.hpp
  int rank = TlsEnds::client;               // by which the server knows the client
  StoreCaps caps = {};                      // of the master
  double stranger_s = 5;                    // likewise
  size_t queued_bytes = 64_MiB;             // likewise
  std::string away_prefix = {};             // likewise: see StoreServerOptions
  std::stop_token stop = {};                // ends whatever the client waits for
};

struct TcpStoreMaker {
  static Result<std::shared_ptr<distributed::TCPStore>> make(const TcpStoreRequest& request);
  static Result<std::unique_ptr<distributed::TCPStore::Parts>> parts(const TcpStoreRequest& request);
  static std::unique_ptr<distributed::TCPStore::Parts> parts_or_throw(const TcpStoreRequest& request);
  static void await_left(distributed::TCPStore& store, const Deadline& deadline);
  static void note(distributed::TCPStore& store, std::string key, std::string value);
  static std::vector<Address> addresses(const distributed::TCPStore& store);
};

inline Result<std::shared_ptr<distributed::TCPStore>> make_tcp_store(const TcpStoreRequest& request) { return TcpStoreMaker::make(request); }
// At the master: until nobody but rank 0 is connected any more.
inline void await_left(distributed::TCPStore& store, const Deadline& deadline) { TcpStoreMaker::await_left(store, deadline); }
// At the master: sets a key, if it is not there. Any thread; nobody waits.
inline void note_in(distributed::TCPStore& store, std::string key, std::string value) { TcpStoreMaker::note(store, std::move(key), std::move(value)); }
// At the master: where it listens.
inline std::vector<Address> addresses_of(const distributed::TCPStore& store) { return TcpStoreMaker::addresses(store); }

}  // namespace unisono
