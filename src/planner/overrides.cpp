// Reads "collective[:[from]-[up to]]=algorithm", separated by commas. See overrides.hpp.
#include "planner/overrides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/sizes.hpp"

namespace unisono {
namespace {

Status unreadable(std::string_view part, const std::string& reason) {
  return Status(ErrorCode::init, fmt::format("UNISONO_PLAN: \"{}\": {}", part, reason));
}

std::string collective_names() {
  std::string names;
  for (Collective collective : all_collectives()) names.append(names.empty() ? "" : ", ").append(name_of(collective));
  return names;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Status read_sizes(std::string_view part, std::string_view sizes, Override& rule) {
  const size_t dash = sizes.find('-');
  if (dash == std::string_view::npos) return unreadable(part, "sizes are written from-to, as in 0-64K or 1M-");
  const std::string_view from = trimmed(sizes.substr(0, dash)), up_to = trimmed(sizes.substr(dash + 1));
  for (auto [text, bytes] : {std::pair(from, &rule.from_bytes), std::pair(up_to, &rule.up_to_bytes)}) {
    if (text.empty()) continue;
    const std::optional<int64_t> size = parse_size(text);
    if (!size)
      return unreadable(part, fmt::format("\"{}\" is not a size; write bytes, or a number with K, M or G", text));
    *bytes = *size;
  }
  if (rule.from_bytes > rule.up_to_bytes) return unreadable(part, "the sizes run backwards");
  return Status::success();
}

Status read_override(std::string_view part, Override& rule) {
  const size_t equals = part.find('=');
  if (equals == std::string_view::npos)
    return unreadable(part, "write collective=algorithm, as in all_reduce=two_shot");
  const std::string_view where = trimmed(part.substr(0, equals)), name = trimmed(part.substr(equals + 1));
  const size_t colon = where.find(':');
  const std::string_view collective_name = trimmed(where.substr(0, colon));
  const std::optional<Collective> collective = collective_named(collective_name);
  if (!collective)
    return unreadable(part,
                      fmt::format("\"{}\" is not a collective; there are {}", collective_name, collective_names()));
  rule.collective = *collective;
  if (colon != std::string_view::npos) RETURN_IF_ERROR(read_sizes(part, where.substr(colon + 1), rule));
  rule.algorithm = find_algorithm(*collective, name);
  rule.text = std::string(part);
  if (rule.algorithm) return Status::success();
  return unreadable(part, fmt::format("\"{}\" is not an algorithm of {}; there are {}", name, collective_name,
                                      algorithm_names(*collective)));
}

}  // namespace

Result<PlannerRules> PlannerRules::parse(std::string_view setting, int64_t tile_bytes) {
  PlannerRules rules{.tile_bytes = tile_bytes};
  setting = trimmed(setting);
  while (!setting.empty()) {
    const size_t comma = std::min(setting.find(','), setting.size());
    RETURN_IF_ERROR(read_override(trimmed(setting.substr(0, comma)), rules.overrides.emplace_back()));
    setting.remove_prefix(std::min(comma + 1, setting.size()));
  }
  return rules;
}

}  // namespace unisono
