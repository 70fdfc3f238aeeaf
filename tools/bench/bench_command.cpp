// The command line of `unisono bench`; the measuring is in bench.cpp.
#include "tools/bench/bench_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/hosts.hpp"
#include "base/sizes.hpp"
#include "tools/bench/bench.hpp"
#include "tools/show/self.hpp"
#include "unisono/settings.hpp"

namespace unisono::tools {
namespace {

constexpr const char* explanation =
    "Examples:\n"
    "  unisono bench all_reduce --ranks 2 --sizes 64,4K,64K,1M,16M,64M --json rows.json\n"
    "  unisono bench all --ranks 4 --fresh\n"
    "  unisono bench send --ranks 2 --shared\n"
    "  unisono bench all --transport tcp --ranks 2\n"
    "  unisono bench all_reduce --through torch --sizes 64,64K,64M\n"
    "\n"
    "all is every collective. send goes to and fro between ranks 0 and 1, 2 and 3, and so on, all pairs at\n"
    "once; its time is half of a round trip. bytes is the data of one rank (all_reduce, reduce, broadcast,\n"
    "scan, exscan, send) or all pieces together (all_gather, reduce_scatter, scatter, gather, all_to_all).\n"
    "With --transport tcp every rank is a host of its own: what it sends goes through TCP over the loopback\n"
    "interface, as between machines. --pretend-hosts 2,2 puts two ranks on each of two.\n"
    "With --shared, ranks get an arena as large as the sizes need unless UNISONO_ARENA is set. Results are\n"
    "checked while timing: `wrong` counts elements, and the command fails unless it is 0. Run it with\n"
    "nothing else on the machine.";

struct Line {
  std::string collective = "all_reduce", sizes, through = "c++", transport = "memory", hosts;
  bool as_rank = false;
  BenchOptions options;
};

std::string all_names() {
  std::vector<std::string_view> names;
  for (const SubjectKind& kind : subject_kinds()) names.push_back(kind.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<const SubjectKind*> subjects_named(const std::string& name) {
  std::vector<const SubjectKind*> found;
  for (const SubjectKind& kind : subject_kinds())
    if (kind.name == name || (name == "all" && kind.collective)) found.push_back(&kind);
  if (found.empty()) throw CLI::ValidationError(fmt::format("collective {}: there are {}, and all", name, all_names()));
  return found;
}

// Those of unisono/bench.py, by the names that torch has for them. tests/python/test_bench.py compares.
constexpr std::string_view through_python[] = {"all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor",
                                               "reduce_scatter", "all_to_all_single", "barrier"};

void check_through(const Line& line) {
  if (std::find(std::begin(through_python), std::end(through_python), line.collective) == std::end(through_python))
    throw CLI::ValidationError(fmt::format("collective {}: --through {} measures one of {}", line.collective, line.through,
                                           fmt::join(through_python, ", ")));
  const BenchOptions& options = line.options;
  if (options.fresh || options.shared || options.persistent || options.dialect != "distributed" || !options.hosts.empty())
    throw CLI::ValidationError(fmt::format("--through {}: takes a collective, --ranks, --sizes, --repeats, --seconds and --json only",
                                           line.through));
}

void check(const BenchOptions& options) {
  if (options.persistent && options.dialect == "comm_func")
    throw CLI::ValidationError("--persistent: the comm_func dialect has no prepared calls; use --dialect distributed");
  for (const SubjectKind* kind : options.subjects) {
    if (!kind->collective && options.ranks % 2 != 0)
      throw CLI::ValidationError(fmt::format("--ranks {}: {} goes between ranks 0 and 1, 2 and 3, and so on; give an even number",
                                             options.ranks, kind->name));
    if (!kind->collective && options.persistent)
      throw CLI::ValidationError(fmt::format("--persistent: {} cannot be prepared, only collectives can", kind->name));
  }
}

// The hosts that the ranks are to pretend to be on; empty: they are on this machine.
std::string hosts_of(const Line& line) {
  const int ranks = line.options.ranks;
  if (line.hosts.empty()) return line.transport == "tcp" ? fmt::format("{}x1", ranks) : "";
  auto hosts = Hosts::parse("--pretend-hosts", line.hosts, ranks);
  if (!hosts.ok()) throw CLI::ValidationError(hosts.status().message());
  if (line.transport == "tcp" && hosts->count() < ranks)
    throw CLI::ValidationError(fmt::format("--pretend-hosts {}: ranks of one host share memory; leave out --transport tcp", line.hosts));
  return line.hosts;
}

std::vector<int64_t> sizes_of(const std::string& text) {
  std::vector<int64_t> sizes;
  for (size_t start = 0; start <= text.size();) {
    size_t comma = std::min(text.find(',', start), text.size());
    auto bytes = parse_size(std::string_view(text).substr(start, comma - start));
    if (!bytes || *bytes < 4) throw CLI::ValidationError(fmt::format("--sizes {}: write it as 64,4K,1M, each at least 4", text));
    sizes.push_back(*bytes);
    start = comma + 1;
  }
  return sizes;
}

std::vector<std::string> words_of(const Line& line) {
  std::vector<std::string> words = {"bench", line.collective, "--ranks", std::to_string(line.options.ranks), "--dialect",
                                    line.options.dialect, "--repeats", std::to_string(line.options.repeats), "--seconds",
                                    fmt::format("{}", line.options.seconds)};
  if (!line.sizes.empty()) words.insert(words.end(), {"--sizes", line.sizes});
  if (!line.options.json.empty()) words.insert(words.end(), {"--json", line.options.json});
  if (!line.options.hosts.empty()) words.insert(words.end(), {"--pretend-hosts", line.options.hosts});
  if (line.options.fresh) words.push_back("--fresh");
  if (line.options.shared) words.push_back("--shared");
  if (line.options.persistent) words.push_back("--persistent");
  return words;
}

// Shared tensors lie in the arena, beside what the library keeps there, which has as much of it as ever. An arena is address
// space: twice what the two buffers of a rank take costs nothing, and leaves room where others have lain before.
std::vector<std::string> environment_of(const BenchOptions& options) {
  std::vector<std::string> settings;
  if (!options.hosts.empty()) settings.push_back("UNISONO_PRETEND_HOSTS=" + options.hosts);
  if (!options.shared || process_environment().contains("UNISONO_ARENA")) return settings;
  const int64_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  const int64_t buffer = round_up(largest + 4 * options.ranks, 1_MiB);  // sizes that do not divide by the ranks are rounded up
  settings.push_back("UNISONO_ARENA=" + format_size(Settings().arena_bytes + 4 * buffer));
  return settings;
}

// The interpreter beside this command, as in a virtual environment, or the one that is found by name.
std::string interpreter() {
  std::error_code error;
  const auto beside = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "python3";
  return !error && std::filesystem::exists(beside, error) ? beside.string() : "python3";
}

// unisono/bench.py measures those: the ranks are Python's.
int run_in_python(const Line& line) {
  RunOptions run;
  run.ranks = line.options.ranks;
  run.prefix = false;
  run.command = {interpreter(), "-m", "unisono.bench", line.collective, "--through", line.through, "--repeats",
                 std::to_string(line.options.repeats), "--seconds", fmt::format("{}", line.options.seconds)};
  if (!line.sizes.empty()) run.command.insert(run.command.end(), {"--sizes", line.sizes});
  if (!line.options.json.empty()) run.command.insert(run.command.end(), {"--json", line.options.json});
  return run_here(run).status;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto line = std::make_shared<Line>();
  BenchOptions& options = line->options;
  CLI::App* bench = app.add_subcommand("bench", "Measure the collectives on this machine, and sending.");
  bench->footer(explanation);
  bench->add_option("collective", line->collective, all_names() + ", or all")->capture_default_str();
  bench->add_option("-n,--ranks", options.ranks, "how many ranks to start")->check(CLI::Range(1, 1024))->capture_default_str();
  bench->add_option("--sizes", line->sizes, "bytes, with K, M, G: 64,4K,64K,1M,16M,64M by default");
  bench->add_option("--dialect", options.dialect, "distributed or comm_func")->check(CLI::IsMember({"distributed", "comm_func"}))->capture_default_str();
  bench->add_option("--through", line->through, "c++; or python, all_reduce beside C++; or torch, beside Gloo: these need the Python package")
      ->check(CLI::IsMember({"c++", "python", "torch"}))->capture_default_str();
  bench->add_option("--transport", line->transport, "memory; or tcp, as if every rank were on a host of its own")
      ->check(CLI::IsMember({"memory", "tcp"}))->capture_default_str();
  bench->add_option("--pretend-hosts", line->hosts, "which ranks share a host, as in `unisono run`: 2,2 or 4x2");
  bench->add_flag("--fresh", options.fresh, "every rank rewrites its input before each call, outside the clock");
  bench->add_flag("--shared", options.shared, "buffers are shared tensors; in the comm_func dialect the inputs");
  bench->add_flag("--persistent", options.persistent, "calls are prepared once and then run; distributed dialect only");
  bench->add_option("--repeats", options.repeats, "how often each size is timed")->check(CLI::Range(1, 1000))->capture_default_str();
  bench->add_option("--seconds", options.seconds, "how long one repeat takes, roughly")->check(CLI::PositiveNumber)->capture_default_str();
  bench->add_option("--json", options.json, "write the rows to this file as well");
  bench->add_flag(as_rank_flag, line->as_rank)->group("");
  bench->callback([line, &exit_code] {
    line->options.hosts = hosts_of(*line);
    if (line->through != "c++") {
      check_through(*line);
      exit_code = run_in_python(*line);
      return;
    }
    line->options.subjects = subjects_named(line->collective);
    check(line->options);
    if (!line->sizes.empty()) line->options.sizes = sizes_of(line->sizes);
    exit_code = line->as_rank ? run_bench_rank(line->options)
                              : run_self(line->options.ranks, words_of(*line), environment_of(line->options));
  });
}

}  // namespace unisono::tools
