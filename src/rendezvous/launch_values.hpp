// Reading what launchers leave in the environment: every value is checked, and whatever is wrong is named together
// with what was expected. An empty variable counts as one that is not set.
#pragma once

#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/settings.hpp"
#include "unisono/status.hpp"

namespace unisono {

std::string_view text_of(const Environment& environment, std::string_view name);  // "" where it is not set
bool is_set(const Environment& environment, std::string_view name);
std::optional<int64_t> integer(std::string_view text);  // the whole text must be the number
std::string_view argument_after(std::string_view option, const std::vector<std::string>& command);
std::string address(std::string_view host, int port);  // "host:port", an IPv6 host in brackets
bool is_loopback(std::string_view host);

struct Range {
  int least = 0;
  int most = INT_MAX;
  std::string_view most_because = {};  // the variable that sets the upper bound
};

// The variables of one launcher, and how a user puts them right.
class LaunchValues {
 public:
  LaunchValues(const Environment& environment, std::string_view launcher, std::string_view remedy)
      : environment_(environment), launcher_(launcher), remedy_(remedy) {}

  bool has(std::string_view name) const { return is_set(environment_, name); }
  std::string_view text(std::string_view name) const { return text_of(environment_, name); }

  Status require(std::string_view name, std::string_view meaning) const;
  Status read(std::string_view name, Range range, int& number) const;
  // One entry of a list such as "5,4(x3)": the number of tasks on the first host, then on the next three.
  Status read_from_list(std::string_view name, int index, int& number) const;
  Status wrong(std::string_view name, std::string_view expected) const;

 private:
  const Environment& environment_;
  std::string_view launcher_, remedy_;
};

}  // namespace unisono
