// TCPStore: a client of a server, and in the master the server as well; see store.hpp. Next: store_client.cpp, store_server.cpp.
#include "rendezvous/tcp_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"
#include "rendezvous/lookup.hpp"
#include "rendezvous/store_client.hpp"
#include "rendezvous/store_trust.hpp"
#include "unisono/binding.hpp"
#include "unisono/settings.hpp"

namespace unisono {
namespace {

constexpr int last_port = 65535;

Status check_request(const TcpStoreRequest& request) {
  const distributed::TCPStoreOptions& options = request.options;
  auto wrong = [](std::string message) { return Status(ErrorCode::argument, "TCPStore: " + message); };
  if (request.port < 0 || request.port > last_port || (request.port == 0 && !options.is_master))
    return wrong(fmt::format("port {}; it must be 1 to {}, or 0 at the master, for one that is free", request.port, last_port));
  if (!(options.timeout_s > 0)) return wrong(fmt::format("the timeout is {} s; it must be more than 0", options.timeout_s));
  if (options.world_size && *options.world_size < 1) return wrong(fmt::format("world_size is {}; it must be at least 1", *options.world_size));
  return Status::success();
}

Log log_of_process() {
  const Environment environment = process_environment();
  const auto level = environment.find("UNISONO_LOG");
  return {level == environment.end() ? std::string_view() : std::string_view(level->second), -1};
}

}  // namespace

struct distributed::TCPStore::Parts {
  std::string host;
  int port = 0;
  std::unique_ptr<StoreServer> server;  // of the master; goes after the client
  std::unique_ptr<StoreClient> client;
};

Result<std::unique_ptr<distributed::TCPStore::Parts>> TcpStoreMaker::parts(const TcpStoreRequest& request) {
  RETURN_IF_ERROR(outside_interrupt_check());
  RETURN_IF_ERROR(check_request(request));
  const Deadline deadline = Deadline::in_seconds(request.options.timeout_s);
  const Log log = log_of_process();
  auto addresses = request.addresses.empty() ? await_addresses(request.host, request.port, deadline, log) : Result(request.addresses);
  if (addresses.status().code() == ErrorCode::timeout)
    return Status(ErrorCode::timeout, fmt::format("TCPStore: waited {:.3g} s: {}", request.options.timeout_s, addresses.status().message()));
  if (!addresses.ok()) return Status(addresses.status().code(), "TCPStore: " + addresses.status().message());
  const std::string name = fmt::format("{}:{}", request.host, request.port);
  std::shared_ptr<const Trust> trust = request.trust;
  if (!trust) {
    auto found = trust_for_store(request.options.job, name, std::ranges::all_of(*addresses, &Address::is_loopback));
    if (!found.ok()) return found.status();
    trust = std::move(*found);
  }
  auto parts = std::make_unique<distributed::TCPStore::Parts>();
  parts->host = request.host;
  parts->port = request.port;
  if (request.options.is_master) {
    std::ranges::copy(request.also_at, std::back_inserter(*addresses));
    auto server = StoreServer::start({*addresses, trust, log, request.caps, request.stranger_s, request.queued_bytes, request.away_prefix});
    if (!server.ok()) return server.status();
    parts->server = std::move(*server);
    parts->port = parts->server->address().port();
    *addresses = {parts->server->address()};
  }
  parts->client = std::make_unique<StoreClient>(
      StoreTarget{fmt::format("{}:{}", request.host, parts->port), std::move(*addresses), {trust, {.rank = request.rank}}, log, request.stop});
  RETURN_IF_ERROR(parts->client->connect(deadline, request.options.timeout_s));
  const bool waits = request.options.wait_for_workers && request.options.world_size && parts->server;
  if (waits) RETURN_IF_ERROR(parts->server->await_users(*request.options.world_size, deadline, request.options.timeout_s));
  return parts;
}

std::unique_ptr<distributed::TCPStore::Parts> TcpStoreMaker::parts_or_throw(const TcpStoreRequest& request) {
  auto made = parts(request);
  throw_if_error(made.status());
  return std::move(*made);
}

void TcpStoreMaker::await_left(distributed::TCPStore& store, const Deadline& deadline) {
  if (store.parts_->server) store.parts_->server->await_left(deadline);
}

void TcpStoreMaker::note(distributed::TCPStore& store, std::string key, std::string value) {
  if (store.parts_->server) store.parts_->server->note(std::move(key), std::move(value));
}

std::vector<Address> TcpStoreMaker::addresses(const distributed::TCPStore& store) { return store.parts_->server ? store.parts_->server->addresses() : std::vector<Address>(); }

Result<std::shared_ptr<distributed::TCPStore>> TcpStoreMaker::make(const TcpStoreRequest& request) {
  auto made = parts(request);
  if (!made.ok()) return made.status();
  std::shared_ptr<distributed::TCPStore> store(new distributed::TCPStore(std::move(*made)));
  store->set_timeout(request.options.timeout_s);
  return store;
}

namespace distributed {

TCPStore::TCPStore(const std::string& host, int port, const TCPStoreOptions& options)
    : TCPStore(TcpStoreMaker::parts_or_throw({.host = host, .port = port, .options = options})) {
  set_timeout(options.timeout_s);
}

TCPStore::TCPStore(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TCPStore::~TCPStore() = default;

const std::string& TCPStore::host() const { return parts_->host; }
int TCPStore::port() const { return parts_->port; }

Result<std::vector<StoreAnswer>> TCPStore::perform(const std::vector<StoreRequest>& requests) {
  RETURN_IF_ERROR(outside_interrupt_check());
  return parts_->client->perform(requests, timeout());
}

Result<std::vector<std::string>> TCPStore::await_values(const std::vector<std::string>& keys, double timeout_s) {
  RETURN_IF_ERROR(outside_interrupt_check());
  return parts_->client->await_values(keys, timeout_s);
}

}  // namespace distributed
}  // namespace unisono
