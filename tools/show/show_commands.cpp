// `unisono explain` and `unisono settings`: what would happen, and what can be set.
#include "tools/show/show_commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/cores.hpp"
#include "base/sizes.hpp"
#include "doctor/probes.hpp"
#include "kernels/kernels.hpp"
#include "planner/explain.hpp"
#include "schedule/chunks.hpp"
#include "transport/lanes.hpp"
#include "unisono/settings.hpp"

namespace unisono::tools {
namespace {

struct ExplainLine {
  std::string collective = "all_reduce", bytes = "1M", dtype = "float32", plan, hosts;
  std::optional<int> given_ranks;  // otherwise as many as the hosts have, or 2
  int ranks = 2, root = 0, cores = 0;
  std::optional<bool> peer_reads;  // otherwise as it is here
};

// Whether ranks that one launcher starts may read each other's own memory on this machine: two children try.
bool siblings_may_read() {
  const Result<int> error = doctor::error_of_sibling_read();
  return error.ok() && error.value() == 0;
}

int complain(const std::string& command, const Status& status) {
  fmt::print(stderr, "unisono {}: {}\n", command, status.text());
  return 1;
}

// The hosts that the line says, and the ranks that follow from them where it says none.
Result<Hosts> hosts_of(ExplainLine& line) {
  if (line.given_ranks) line.ranks = *line.given_ranks;
  if (line.hosts.empty()) return Hosts();
  Result<int> made = Hosts::ranks_in("--hosts", line.hosts);
  if (!made.ok()) return made.status();
  if (!line.given_ranks) line.ranks = *made;
  return Hosts::parse("--hosts", line.hosts, line.ranks);
}

int most_on_a_host(const Hosts& hosts, int ranks) {
  if (hosts.one()) return ranks;
  size_t most = 0;
  for (int host = 0; host < hosts.count(); ++host) most = std::max(most, hosts.ranks_on(host).size());
  return static_cast<int>(most);
}

int explain_line(ExplainLine line) {
  auto collective = collective_named(line.collective);
  auto bytes = parse_size(line.bytes);
  auto dtype = dtype_named(line.dtype);
  if (!collective) return complain("explain", {ErrorCode::argument, fmt::format("there is no collective {}", line.collective)});
  if (!bytes) return complain("explain", {ErrorCode::argument, fmt::format("--bytes {}: write it as 64, 4K or 1M", line.bytes)});
  if (!dtype) return complain("explain", {ErrorCode::argument, fmt::format("--dtype {}: there is no such dtype; write float32, bfloat16, float16, int64 and so on", line.dtype)});
  if (const Status status = check_reduction({*dtype, ReduceOp::sum}); adds(*collective) && !status.ok()) return complain("explain", status);
  auto hosts = hosts_of(line);
  if (!hosts.ok()) return complain("explain", hosts.status());
  if (line.ranks > most_ranks)
    return complain("explain", {ErrorCode::argument, fmt::format("--ranks {}: at most {} ranks can be", line.ranks, most_ranks)});
  if (line.root < 0 || line.root >= line.ranks)
    return complain("explain", {ErrorCode::argument, fmt::format("--root {} is not one of {} ranks", line.root, line.ranks)});
  auto settings = settings_from(process_environment());
  if (!settings.ok()) return complain("explain", settings.status());
  auto rules = PlannerRules::parse(line.plan.empty() ? settings->plan : line.plan, settings->tile_bytes);
  if (!rules.ok()) return complain("explain", rules.status());
  int cores = line.cores > 0 ? line.cores : settings->cores > 0 ? static_cast<int>(settings->cores) : count(affinity());
  ExplainRequest request;
  request.query.collective = *collective;
  request.query.ranks = line.ranks;
  request.query.root = line.root;
  request.query.bytes = *bytes;
  request.query.hosts = *hosts;
  request.query.set_bytes = Lanes::set_bytes_for(line.ranks);
  request.query.crowded = most_on_a_host(*hosts, line.ranks) > cores;
  request.query.peer_reads = line.peer_reads ? *line.peer_reads : settings->peer_reads != "off" && siblings_may_read();
  if (settings->reproducible) request.query.order = Order::tree;
  request.rules = *rules;
  request.widened = static_cast<int>(element_bytes(of_partials({*dtype, ReduceOp::sum}).dtype) / element_bytes(*dtype));
  auto text = explain(request);
  if (!text.ok()) return complain("explain", text.status());
  fmt::print("{}", *text);
  return 0;
}

int print_settings() {
  auto settings = settings_from(process_environment());
  if (!settings.ok()) return complain("settings", settings.status());
  for (const SettingText& row : describe(*settings))
    fmt::print("{:<22} {:<10} {}{}\n", row.variable, row.value.empty() ? "-" : row.value, row.sentence,
               row.value == row.default_value ? "" : fmt::format(" (default {})", row.default_value.empty() ? "-" : row.default_value));
  return 0;
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_code) {
  auto line = std::make_shared<ExplainLine>();
  CLI::App* explain = app.add_subcommand("explain", "Say which algorithm a call would use, why, and its steps.");
  explain->footer("Examples:\n  unisono explain all_reduce 1M --ranks 8\n  unisono explain all_reduce 1M --hosts 2x4");
  explain->add_option("collective", line->collective, "which collective")->capture_default_str();
  explain->add_option("bytes,--bytes", line->bytes, "the data, or one piece, with K, M, G")->capture_default_str();
  explain->add_option("--dtype", line->dtype, "of what is added up: sums of 8- and 16-bit floats travel in float32")->capture_default_str();
  explain->add_option("-n,--ranks", line->given_ranks, "how many ranks; 2, or as many as the hosts have")->check(CLI::Range(1, 100000));
  explain->add_option("--hosts", line->hosts, "who shares a host: 2x4 is two hosts of four ranks, 3,1,2 so many on each, 0/1/0/1 the host of each rank");
  explain->add_option("--root", line->root, "of rooted collectives")->capture_default_str();
  explain->add_option("--cores", line->cores, "usable cores; this machine's by default");
  explain->add_option("--plan", line->plan, "overrides, as in UNISONO_PLAN");
  explain->add_flag_callback("--peer-reads", [line] { line->peer_reads = true; }, "as if ranks may read each other's own memory");
  explain->add_flag_callback("--no-peer-reads", [line] { line->peer_reads = false; }, "as if they may not; by default it is tried");
  explain->callback([line, &exit_code] { exit_code = explain_line(*line); });
}

void add_settings_command(CLI::App& app, int& exit_code) {
  CLI::App* settings = app.add_subcommand("settings", "Print every setting with its value and a sentence.");
  settings->callback([&exit_code] { exit_code = print_settings(); });
}

}  // namespace unisono::tools
