// The command line of `unisono run`; what it does is in launcher.cpp.
#include "tools/run/run_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>

#include "base/hosts.hpp"
#include "tools/run/agent.hpp"
#include "tools/run/launcher.hpp"
#include "tools/run/over_ssh.hpp"
#include "tools/run/restarts.hpp"

namespace unisono::tools {
namespace {

constexpr const char* description = "Start the ranks of a program, on this machine or on several.";
constexpr const char* explanation =
    "Examples:\n"
    "  unisono run -n 4 -- ./program --its-own-option\n"
    "  unisono run -n 2 --env OMP_NUM_THREADS=1 -- python3 train.py\n"
    "  unisono run --hosts one:4,ada@two:4 -- ./program\n"
    "  unisono run --pretend-hosts 2,2 -- ./program\n"
    "\n"
    "Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT\n"
    "in its environment, as env:// asks for. Every line that a rank writes gets its number in\n"
    "front. Standard input goes to rank 0. Signals go to all ranks; a second Ctrl-C kills them.\n"
    "When a rank fails, the launcher says which, how, and what it wrote last; it ends the others\n"
    "and returns the status of the one that failed: its exit status, or 128 + signal.\n"
    "\n"
    "With --hosts the ranks run on several machines, in the order of the list, each reached by ssh,\n"
    "which must need no password (ssh-copy-id), and must find unisono: at the same path as here, or\n"
    "in PATH. The folder, a secret made for this job and the environment go along, but for what\n"
    "belongs to this machine and session (HOME, TMPDIR, DISPLAY, SSH_… and the like). A host that\n"
    "cannot be reached is told before anything starts; one that is lost ends the job.\n"
    "\n"
    "With --restarts 3 a job whose rank has failed is started anew, three times at most; rank 0 then\n"
    "reads what is left of standard input.\n"
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

// Who wants ranks on several machines.
struct HostsAsked {
  std::string list, file, ssh = "ssh";
  int restarts = 0;
  bool are_several = false;
};

// In an allocation the resource manager starts ranks, with limits and accounts that ssh would go round.
std::string line_for_slurm(const RunOptions& options, const std::vector<HostShare>& hosts) {
  std::string names, words;
  for (const HostShare& host : hosts) names += (names.empty() ? "" : ",") + host.name.substr(host.name.find('@') + 1);
  if (!options.environment.empty()) words = " env";
  for (const auto* list : {&options.environment, &options.command})
    for (const std::string& word : *list) words += " " + for_a_shell(word);
  const bool is_even = std::ranges::all_of(hosts, [&](const HostShare& host) { return host.ranks == hosts.front().ranks; });
  return fmt::format("this is inside Slurm, which starts ranks on its hosts itself: srun --mpi=pmix --nodelist={} --nodes={} --ntasks={}{}{}", names, hosts.size(), options.ranks,
                     is_even ? fmt::format(" --ntasks-per-node={}", hosts.front().ranks) : "", words);
}

Result<std::vector<HostShare>> settle_shares(RunOptions& options, const HostsAsked& asked) {
  const auto refused = [](std::string_view why) { return Status(ErrorCode::argument, std::string(why)); };
  if (!asked.list.empty() && !asked.file.empty()) return refused("give --hosts or --hostfile, not both");
  if (!options.pretend_hosts.empty()) return refused("--pretend-hosts is for ranks on this machine; leave --hosts out");
  auto hosts = asked.file.empty() ? parse_hosts(asked.list) : read_hostfile(asked.file);
  if (!hosts.ok()) return hosts;
  const int sum = ranks_of(*hosts);
  if (options.ranks != 0 && options.ranks != sum) return refused(fmt::format("-n {}: the hosts have {} ranks in all; leave -n out, or say one:{} and so on", options.ranks, sum, options.ranks));
  options.ranks = sum;
  if (process_environment().contains("SLURM_JOB_ID")) return refused(line_for_slurm(options, *hosts));
  return hosts;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// What the parser lets through although it cannot be run; empty when all is well.
std::string objection(const RunOptions& options, const HostsAsked& asked) {
  if (asked.restarts < 0) return fmt::format("--restarts {}: it cannot be negative", asked.restarts);
  if (words_of(asked.ssh).empty()) return "--ssh: it names no command";
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
  auto asked = std::make_shared<HostsAsked>();
  auto is_agent = std::make_shared<bool>(false);
  run->add_option("--hosts", asked->list, "hosts and how many ranks on each: one:4,two:4");
  run->add_option("--hostfile", asked->file, "the same as a file: a line for each host, as in one slots=4");
  run->add_option("--ssh", asked->ssh, "the command that reaches a host, with options of its own")->capture_default_str();
  run->add_option("--restarts", asked->restarts, "how often to start the job anew when a rank fails")->capture_default_str();
  run->add_flag("--agent", *is_agent, "")->group("");
  take_the_rest_as_it_is(*run);

  run->callback([=, &exit_code] {
    open_standard_descriptors();
    if (*is_agent) {
      exit_code = run_agent();
      return;
    }
    options->prefix = !*no_prefix;
    options->command = the_rest(*run);
    const bool asks_for_none = has_ranks->count() > 0 && options->ranks == 0;
    Result<std::vector<HostShare>> hosts = std::vector<HostShare>();
    asked->are_several = run->count("--hosts") + run->count("--hostfile") > 0;
    if (!asks_for_none && asked->are_several) hosts = settle_shares(*options, *asked);
    std::string text = asks_for_none ? "-n 0: there must be at least one rank" : hosts.status().message();
    if (text.empty() && !asked->are_several) text = settle_hosts(*options).message();
    if (text.empty()) text = objection(*options, *asked);
    if (text.empty()) {
      const SshOptions over{.hosts = *hosts, .ssh = words_of(asked->ssh)};
      exit_code = run_with_restarts(asked->restarts, [&] { return over.hosts.empty() ? run_here(*options) : run_over_ssh(*options, over); });
      return;
    }
    fmt::print(stderr, "unisono run: {}\n", text);
    exit_code = misused;
  });
}

}  // namespace unisono::tools
