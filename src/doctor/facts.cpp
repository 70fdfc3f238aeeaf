// Reading what this machine allows: limits, cgroups, /proc, and what has to be tried. See facts.hpp; the network is in network_facts.cpp.
#include "doctor/facts.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/cores.hpp"
#include "base/proc_text.hpp"
#include "kernels/kernels.hpp"
#include "rendezvous/join.hpp"
#include "rendezvous/pmix_launch.hpp"
#include "trust/secret_file.hpp"

namespace unisono::doctor {
namespace {

Fact<Limit> limit_of(int resource) {
  rlimit limit = {};
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return Fact<Limit>::unknown(fmt::format("getrlimit: {}", std::strerror(errno)));
  auto number = [](rlim_t value) { return value == RLIM_INFINITY ? unlimited : static_cast<int64_t>(std::min<rlim_t>(value, INT64_MAX)); };
  return Limit{number(limit.rlim_cur), number(limit.rlim_max)};
}

int64_t count_open_files() {
  std::error_code error;
  int64_t count = 0;
  for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", error); !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) ++count;
  return std::max<int64_t>(count - 1, 0);  // without the folder's own
}

// The most ranks that the library's own check lets join, found by asking it.
int most_that_fit(const std::function<bool(int)>& fits) {
  int least = 0, beyond = most_ranks + 1;
  while (beyond - least > 1) {
    const int middle = least + (beyond - least) / 2;
    (fits(middle) ? least : beyond) = middle;
  }
  return least;
}

void read_limits(MachineFacts& facts) {
  facts.files = limit_of(RLIMIT_NOFILE);
  facts.processes = limit_of(RLIMIT_NPROC);
  facts.address_space = limit_of(RLIMIT_AS);
  facts.locked = limit_of(RLIMIT_MEMLOCK);
  facts.open_files = count_open_files();
  facts.ranks_that_fit_here = most_that_fit([](int ranks) {
    JoinRequest request;
    request.size = ranks;
    return require_descriptors(request).ok();
  });
  facts.ranks_that_fit_elsewhere = most_that_fit([&](int ranks) {
    JoinRequest request;
    request.size = ranks + 1;
    request.sockets_per_peer = static_cast<int>(facts.settings.sockets_per_peer);
    return require_connections(request, ranks, false).ok();
  });
}

// A page of an arena as ranks make them: a sealed memfd, mapped whole, of which memory is taken as it is used.
Status try_arena(const Settings& settings) {
  auto arena = Arena::create(settings.arena_bytes);
  if (!arena.ok()) return arena.status();
  return (*arena)->take(1, "a first page").status();
}

Fact<int> field_of_status(const std::string& root, const std::string& name) {
  std::istringstream lines(proc_text(root + "proc/self/status"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ":")) return std::atoi(line.c_str() + name.size() + 1);
  return Fact<int>::unknown(fmt::format("{}proc/self/status does not say", root));
}

Fact<int> first_number(const std::string& path) {
  const auto numbers = numbers_in(path, 1);
  return numbers ? Fact<int>(static_cast<int>(numbers->front())) : Fact<int>::unknown(numbers.why);
}

SecretFacts read_secret(const Environment& environment) {
  SecretFacts facts;
  facts.own_path = own_secret_path(environment).value_or("");
  auto secret = find_secret();
  facts.status = secret.status();
  if (!secret.ok() || !*secret) return facts;
  facts.source = (*secret)->source();
  struct stat about = {};
  const std::string path = facts.source.substr(0, facts.source.find(" ("));  // of a file that a variable names, the variable stands behind it
  if (stat(path.c_str(), &about) == 0) facts.mode = fmt::format("{:04o}", about.st_mode & 07777);
  return facts;
}

bool is_interrupt_ignored() {
  struct sigaction action = {};
  return sigaction(SIGINT, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void read_launch(MachineFacts& facts, const Environment& environment) {
  constexpr double launcher_answers_within_s = 10;
  auto told = with_what_pmix_says(environment, Deadline::in_seconds(launcher_answers_within_s));
  auto launch = told.ok() ? launch_info(*told, process_ancestors()) : Result<LaunchInfo>(told.status());
  facts.launch_status = launch.status();
  if (!launch.ok()) return;
  facts.launch = *launch;
  facts.ranks = launch->size;
  facts.ranks_here = std::max(launch->local_size, 0);
}

}  // namespace

Fact<std::vector<int64_t>> numbers_in(const std::string& path, size_t at_least) {
  std::ifstream file(path);
  if (!file) return Fact<std::vector<int64_t>>::unknown(fmt::format("{}: {}", path, std::strerror(errno)));
  std::vector<int64_t> numbers;
  for (int64_t number = 0; file >> number;) numbers.push_back(number);
  if (numbers.size() < at_least) return Fact<std::vector<int64_t>>::unknown(fmt::format("{} holds no such numbers", path));
  return numbers;
}

Fact<int64_t> pids_left(const std::string& root, std::string& limited_by) {
  std::ifstream groups(root + "proc/self/cgroup");  // lines of id:controllers:path
  if (!groups) return Fact<int64_t>::unknown(root + "proc/self/cgroup cannot be read");
  int64_t left = unlimited;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers != ",," && controllers.find(",pids,") == line.npos) continue;
    for (const char* mount : {"sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/pids"})
      for (std::string group = line.substr(second + 1);; group.resize(group.find_last_of('/'))) {
        const std::string directory = root + mount + group + (group.ends_with('/') ? "" : "/");
        const auto most = numbers_in(directory + "pids.max", 1), now = numbers_in(directory + "pids.current", 1);
        if (most && now && most->front() - now->front() < left) {
          left = std::max<int64_t>(most->front() - now->front(), 0);
          limited_by = directory + "pids.max";
        }
        if (group.find('/') == group.npos || group == "/") break;
      }
  }
  return left;
}

MachineFacts read_machine_facts(const Environment& environment, const std::string& root) {
  MachineFacts facts;
  facts.engines = find_engines();  // first: these have children, and looking names up leaves threads behind
  const auto sibling = error_of_sibling_read();
  facts.sibling_read_error = sibling.ok() ? Fact<int>(sibling.value()) : Fact<int>::unknown(sibling.status().message());
  utsname system = {};
  if (uname(&system) == 0) facts.kernel = system.release;
  facts.host = name_of_this_machine();
  facts.version = UNISONO_VERSION;
  facts.target = kernel_target();
  auto settings = settings_from(environment);
  facts.settings_status = settings.status();
  if (settings.ok()) facts.settings = *settings;
  auto ucx = examine_ucx(facts.settings);
  facts.ucx = ucx.ok() ? Fact<UcxFindings>(*ucx) : Fact<UcxFindings>::unknown(ucx.status().message());
  facts.rdma = rdma_ports(root);
  read_launch(facts, environment);
  read_limits(facts);
  facts.memory = memory_headroom(root);
  facts.arena = try_arena(facts.settings);
  facts.pids_left = pids_left(root, facts.pids_limited_by);
  facts.cores = count(affinity());
  facts.quota = quota_cores(root);
  facts.is_root = geteuid() == 0;
  facts.ptrace_scope = first_number(root + "proc/sys/kernel/yama/ptrace_scope");
  facts.seccomp = field_of_status(root, "Seccomp");
  facts.refused = refused_system_calls();
  facts.interrupt_is_ignored = is_interrupt_ignored();
  facts.secret = read_secret(environment);
  read_network_facts(facts, environment, root);
  return facts;
}

}  // namespace unisono::doctor
