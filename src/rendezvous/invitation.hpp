// What rank 0 lets all others know where a resource manager passes it on: where they meet, or why they do not. See pmix.hpp and group/launch.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "transport/address.hpp"
#include "unisono/status.hpp"

namespace unisono {

// A value.
struct Invitation {
  std::vector<Address> at = {};  // where rank 0's store listens, in the order in which to try
  std::string credential = {};   // of munge, which seals the job's secret; empty: every rank has to know it by itself
  Status refusal = {};           // then nothing else counts

  std::string text() const;
  static Result<Invitation> parse(std::string_view text);  // nothing but what text() writes
};

}  // namespace unisono
