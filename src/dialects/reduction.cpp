// Making a reduction of the user's own; see reduction.hpp. What calls it: kernels/user.cpp.
#include "unisono/reduction.hpp"

#include <fmt/format.h>

#include <memory>

#include "unisono/status.hpp"

namespace unisono {

ReduceOp make_reduction(UserReduction reduction) {
  auto wrong = [](std::string text) { throw_if_error({ErrorCode::argument, std::move(text)}); };
  const std::string& name = reduction.name;
  if (name.empty()) wrong("make_reduction: give the reduction a name, the same on all ranks");
  if (name.size() > longest_reduction_name)
    wrong(fmt::format("make_reduction: the name \"{}\" has {} bytes; at most {} are compared between ranks", name, name.size(),
                      longest_reduction_name));
  if (!reduction.combine) wrong(fmt::format("make_reduction: \"{}\" has no function", name));
  const int64_t unit = reduction.unit_bytes;
  if (unit < 1 || largest_reduction_unit % unit != 0)
    wrong(fmt::format("make_reduction: \"{}\" has units of {} bytes; they must divide {}", name, unit, largest_reduction_unit));
  return {ReduceKind::user, 1.0, std::make_shared<const UserReduction>(std::move(reduction))};
}

}  // namespace unisono
