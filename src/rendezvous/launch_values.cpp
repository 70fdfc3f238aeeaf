// Text to numbers and addresses, and the sentences for what does not fit. The table of launchers is in launchers.cpp.
#include "rendezvous/launch_values.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>

#include "base/check.hpp"

namespace unisono {
namespace {

std::string expectation(Range range) {
  if (range.most == INT_MAX) return fmt::format("a whole number of at least {}", range.least);
  return fmt::format("a whole number from {} to {}", range.least, range.most);
}

// "4(x3)" is four tasks on each of three hosts, "4" is four tasks on one.
struct Run {
  int64_t tasks = 0, hosts = 0;
};

std::optional<Run> parse_run(std::string_view text) {
  size_t opened = text.find("(x");
  std::optional<int64_t> tasks = integer(text.substr(0, opened)), hosts = 1;
  if (opened != std::string_view::npos) {
    if (!text.ends_with(')')) return std::nullopt;
    hosts = integer(text.substr(opened + 2, text.size() - opened - 3));
  }
  if (!tasks || !hosts || *tasks < 1 || *tasks > INT_MAX || *hosts < 1) return std::nullopt;
  return Run{*tasks, *hosts};
}

}  // namespace

std::string_view text_of(const Environment& environment, std::string_view name) {
  auto entry = environment.find(name);
  return entry == environment.end() ? std::string_view() : std::string_view(entry->second);
}

bool is_set(const Environment& environment, std::string_view name) { return !text_of(environment, name).empty(); }

std::optional<int64_t> integer(std::string_view text) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string_view argument_after(std::string_view option, const std::vector<std::string>& command) {
  auto found = std::find(command.begin(), command.end(), option);
  if (found == command.end() || found + 1 == command.end()) return {};
  return *(found + 1);
}

std::string address(std::string_view host, int port) {
  bool is_bare_ipv6 = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return is_bare_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "ip6-localhost") return true;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string text(host);
  in_addr four{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, text.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

Status LaunchValues::wrong(std::string_view name, std::string_view expected) const {
  std::string found = has(name) ? fmt::format("{}=\"{}\"", name, text(name)) : fmt::format("{} is not set", name);
  return {ErrorCode::init, fmt::format("{} (launched by {}): expected {}; {}", found, launcher_, expected, remedy_)};
}

Status LaunchValues::require(std::string_view name, std::string_view meaning) const {
  return has(name) ? Status::success() : wrong(name, meaning);
}

Status LaunchValues::read(std::string_view name, Range range, int& number) const {
  std::optional<int64_t> value = integer(text(name));
  if (value && *value >= range.least && *value <= range.most) {
    number = static_cast<int>(*value);
    return Status::success();
  }
  if (range.most_because.empty()) return wrong(name, expectation(range));
  return wrong(name, fmt::format("{}, since {}={}", expectation(range), range.most_because, text(range.most_because)));
}

Status LaunchValues::read_from_list(std::string_view name, int index, int& number) const {
  int64_t hosts_before = 0;
  std::string_view rest = text(name);
  while (!rest.empty()) {
    size_t comma = rest.find(',');
    std::optional<Run> run = parse_run(rest.substr(0, comma));
    if (!run) return wrong(name, "numbers of tasks, such as 4, 4(x2) or 5,4(x3)");
    hosts_before += run->hosts;
    if (index < hosts_before) {
      number = static_cast<int>(run->tasks);
      return Status::success();
    }
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return wrong(name, fmt::format("an entry for host {}, which this one is", index));
}

}  // namespace unisono
