// Joining as the launcher says.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "group/world.hpp"
#include "unisono/store.hpp"

namespace unisono {

struct LaunchRequest {
  std::optional<int> rank = {}, size = {};  // both or neither; otherwise the launcher says
  std::string job = {};                     // otherwise the launcher says
  std::optional<double> timeout_s = {};     // of joining and of calls; otherwise as the settings say
  std::string init_method = {};             // empty: env://
  std::shared_ptr<distributed::Store> store = {};  // instead of a method; with rank and size
};

// Reads the settings and the launcher's variables from `environment` and joins; or only tells the others why it does not, where
// there is a refusal.
Result<std::shared_ptr<World>> launch(const LaunchRequest& request, const Environment& environment, const Status& refusal = {});

}  // namespace unisono
