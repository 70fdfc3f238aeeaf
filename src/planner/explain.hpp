// Says in words what the planner would do and why: the body of `unisono explain`.
#pragma once

#include <string>

#include "planner/overrides.hpp"
#include "planner/query.hpp"
#include "schedule/cost.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct ExplainRequest {
  Query query =
      {};  // its rank is not read: all ranks are shown, or of more than eight the first two, the root and the last
  PlannerRules rules = {};
  CostModel model = {};
  int widened = 1;  // how many times as long a partial is as what it was made of: see schedule/cost.hpp
};

// The choice, the reason, the predicted cost beside that of the other algorithms, the steps, and what to set to change
// it. The error is the planner's: an override that cannot be followed.
Result<std::string> explain(const ExplainRequest& request);

}  // namespace unisono
