// The command line of `unisono run`; what it does is in launcher.cpp.
#include "tools/run/run_command.hpp"

#include <fmt/format.h>

#include <memory>

#include "base/hosts.hpp"
#include "tools/run/launcher.hpp"

namespace unisono::tools {
namespace {

constexpr const char* description = "Start the ranks of a program on this machine.";
constexpr const char* explanation =
    "Examples:\n"
    "  unisono run -n 4 -- ./program --its-own-option\n"
    "  unisono run -n 2 --env OMP_NUM_THREADS=1 -- python3 train.py\n"
    "  unisono run --pretend-hosts 2,2 -- ./program\n"
    "\n"
    "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT\n"
    "in its environment, as env:// asks for. Every line that a rank writes gets its number in\n"
    "front. Standard input goes to rank 0. Signals go to all ranks; a second Ctrl-C kills them.\n"
    "When a rank fails, the launcher says which, how, and what it wrote last; it ends the others\n"
    "and returns the status of the one that failed: its exit status, or 128 + signal.\n"
    "\n"
    "With --pretend-hosts the ranks treat each other as if they were on several machines: 2,2 is two\n"
    "ranks on each of two, 2x4 two machines of four, 0/1/0/1 names the host of each rank. Ranks on\n"
    "different ones share no memory and speak through plain sockets on the loopback interface: to try\n"
    "a program, not to be fast.";

constexpr int misused = 2;

// The layout that was asked for, and the ranks that follow from it where the line says none.
Status settle_hosts(RunOptions& options) {
  if (options.pretend_hosts.empty()) return Status::success();
  if (options.ranks == 0) {
    auto ranks = Hosts::ranks_in("--pretend-hosts", options.pretend_hosts);
    if (!ranks.ok()) return ranks.status();
    options.ranks = *ranks;
  }
  if (auto hosts = Hosts::parse("--pretend-hosts", options.pretend_hosts, options.ranks); !hosts.ok()) return hosts.status();
  options.environment.push_back("UNISONO_PRETEND_HOSTS=" + options.pretend_hosts);
  return Status::success();
}

// What the parser lets through although it cannot be run; empty when all is well.
std::string objection(const RunOptions& options) {
  if (options.ranks == 0) return "say how many ranks to start: unisono run -n 4 -- ./program";
  if (options.ranks < 0) return fmt::format("-n {}: there must be at least one rank", options.ranks);
  if (options.grace_s < 0) return fmt::format("--grace {}: seconds cannot be negative", options.grace_s);
  for (const std::string& setting : options.environment)
    if (setting.find('=') == std::string::npos || setting.front() == '=')
      return fmt::format("--env {}: write it as NAME=VALUE", setting);
  if (options.command.empty()) return "say which program to run: unisono run -n 4 -- ./program";
  const std::string& program = options.command.front();
  if (program.starts_with('-')) return fmt::format("there is no option {}; see unisono run --help", program);
  if (program.empty()) return "the name of the program is empty";
  return {};
}

// The first word that is not an option of ours, and all that follow it, belong to the program. The parser does that
// with prefix_command(), but hands a "--" to the parent command unless some positional is still missing; so there is
// one, also for the help text, which never takes a word.
void take_the_rest_as_it_is(CLI::App& run) {
  auto refuse = [](std::string&) { return std::string("left to the program"); };
  run.add_option_function<std::string>(
         "program", [](const std::string&) {}, "the program and its arguments")
      ->check(CLI::Validator(refuse, ""));
  run.validate_positionals();
  run.prefix_command();
}

std::vector<std::string> the_rest(const CLI::App& run) {
  std::vector<std::string> words = run.remaining();
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  return words;
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  auto no_prefix = std::make_shared<bool>(false);
  CLI::App* run = app.add_subcommand("run", description);
  run->footer(explanation);
  auto has_ranks = run->add_option("-n,--ranks", options->ranks, "how many ranks to start");
  run->add_option("--pretend-hosts", options->pretend_hosts, "treat ranks as if they were on several machines: 2,2, 2x4 or 0/1/0/1");
  run->add_flag("--keep-going", options->keep_going, "leave the others running when a rank fails");
  run->add_flag("--no-prefix", *no_prefix, "pass lines on without the rank in front");
  run->add_option("--grace", options->grace_s, "seconds from SIGTERM to SIGKILL when ranks are ended")
      ->capture_default_str();
  run->add_option("--env", options->environment, "NAME=VALUE for every rank; may be repeated")->take_all()->expected(1)->allow_extra_args(false);
  take_the_rest_as_it_is(*run);

  run->callback([run, options, no_prefix, has_ranks, &exit_code] {
    options->prefix = !*no_prefix;
    options->command = the_rest(*run);
    const bool asks_for_none = has_ranks->count() > 0 && options->ranks == 0;
    std::string text = asks_for_none ? "" : settle_hosts(*options).message();
    if (text.empty()) text = asks_for_none ? "-n 0: there must be at least one rank" : objection(*options);
    if (text.empty()) {
      exit_code = run_command(*options);
      return;
    }
    fmt::print(stderr, "unisono run: {}\n", text);
    exit_code = misused;
  });
}

}  // namespace unisono::tools
