// See agent.hpp. What it does with the ranks is in launcher.cpp, as on one machine.
#include "tools/run/agent.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "base/descriptor.hpp"
#include "transport/interfaces.hpp"
#include "tools/run/launcher.hpp"
#include "tools/run/orders.hpp"
#include "tools/run/rank_environment.hpp"
#include "trust/secret.hpp"

namespace unisono::tools {
namespace {

// Of this machine, as the others find it: the one that ssh has come to, unless that is for this machine alone.
Address address_here() {
  const Environment environment = process_environment();
  const auto found = environment.find("SSH_CONNECTION");  // "client port server port"
  std::istringstream words(found == environment.end() ? "" : found->second);
  std::string client, client_port, server;
  words >> client >> client_port >> server;
  const auto by_ssh = Address::parse_host(server.substr(0, server.find('%')));
  if (by_ssh && !by_ssh->is_loopback() && !by_ssh->is_link_local()) return *by_ssh;
  auto any = InterfacePattern::parse("");
  if (!any.ok()) return Address::loopback(0);
  auto chosen = choose_addresses(interfaces_here(), *any, {});
  return chosen.ok() ? chosen->front() : Address::loopback(0);
}

// Which rank 0 will find free, unless somebody takes it until then. 0: none.
int free_port_at(const Address& address) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const Address tried = address.with_port(random_port());
    const Descriptor socket(::socket(tried.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket && ::bind(socket.number(), tried.get(), tried.bytes()) == 0) return tried.port();
  }
  return 0;
}

// None where the launcher of the job has gone before it had anything to do for us.
Result<std::optional<Sheet>> read_sheet(OrderReader& reader) {
  while (true) {
    char bytes[16 * 1024];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got == 0) return std::optional<Sheet>();
    if (got < 0 && errno != EINTR) return Status(ErrorCode::internal, fmt::format("cannot read standard input: {}", strerror(errno)));
    if (got > 0) reader.add({bytes, static_cast<size_t>(got)});
    const std::optional<Order> order = reader.next();
    if (reader.is_lost()) return Sheet::parse("").status();
    if (!order) continue;
    if (order->kind != OrderKind::sheet) return Sheet::parse("").status();
    auto sheet = Sheet::parse(order->text);
    return sheet.ok() ? Result(std::optional(*sheet)) : sheet.status();
  }
}

void enter(const Sheet& sheet) {
  if (sheet.folder.empty() || ::chdir(sheet.folder.c_str()) == 0) return;
  fmt::print(stderr, "unisono run: host {} has no folder {} for this user ({}); its ranks start where ssh does, in the home directory\n", sheet.host, sheet.folder, strerror(errno));
}

}  // namespace

int run_agent() {
  ::prctl(PR_SET_DUMPABLE, 0);  // the job's secret passes through
  const Address here = address_here();
  // The shell that has started us may have written something without an end.
  const Answer answer{.version = UNISONO_VERSION, .address = here.host(), .port = free_port_at(here)};
  const std::string ready = fmt::format("\n{}\n", answer.line());
  if (::write(STDOUT_FILENO, ready.data(), ready.size()) != static_cast<ssize_t>(ready.size())) return 1;
  OrderReader orders;
  auto sheet = read_sheet(orders);
  if (!sheet.ok()) {
    fmt::print(stderr, "unisono run: {}\n", sheet.status().message());
    return 1;
  }
  if (!*sheet) return 0;
  enter(**sheet);
  auto secret = Secret::parse((*sheet)->secret, "the launcher of the job", "are the versions of unisono the same on all hosts?");
  auto descriptor = secret.ok() ? secret_descriptor(*secret) : secret.status();
  if (!descriptor.ok()) {
    fmt::print(stderr, "unisono run: {}\n", descriptor.status().message());
    return 1;
  }
  explicit_bzero((*sheet)->secret.data(), (*sheet)->secret.size());
  RunOptions options{.ranks = (*sheet)->ranks, .keep_going = (*sheet)->keep_going, .prefix = (*sheet)->prefix, .grace_s = (*sheet)->grace_s, .command = (*sheet)->command};
  options.environment = (*sheet)->settings;
  if (const auto path = (*sheet)->environment.find("PATH"); path != (*sheet)->environment.end()) ::setenv("PATH", path->second.c_str(), 1);  // by which the program is found
  options.orders = std::move(orders);
  options.secret = descriptor->number();
  options.sheet = std::move(**sheet);
  return run_here(options).status;
}

}  // namespace unisono::tools
