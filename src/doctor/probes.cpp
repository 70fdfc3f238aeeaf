// See probes.hpp.
#include "doctor/probes.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/membarrier.h>
#include <link.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <sstream>
#include <csignal>
#include <cstring>

#include "base/at_end.hpp"
#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/legible.hpp"

namespace unisono::doctor {
namespace {

constexpr size_t most_answer_bytes = 4096;
constexpr double patience_s = 5;

Status no_child() { return {ErrorCode::resource, fmt::format("no process could be started to try it: {}", std::strerror(errno))}; }

// Dies with its parent, so that Ctrl-C and kills leave nothing behind.
void be_a_child_of(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

[[noreturn]] void answer(const std::function<std::string()>& work, int to) {
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);  // what it loads may print
  for (int standard : {STDOUT_FILENO, STDERR_FILENO})
    if (nowhere >= 0) dup2(nowhere, standard);
  const std::string text = work();
  const bool is_told = write(to, text.data(), std::min(text.size(), most_answer_bytes)) >= 0;
  _exit(is_told ? 0 : 1);
}

// All that comes until the other end closes.
Result<std::string> read_until_end(int from, const Deadline& deadline) {
  std::string text;
  while (text.size() <= most_answer_bytes) {
    pollfd awaited{from, POLLIN, 0};
    const int64_t left_ms = std::max<int64_t>(deadline.remaining_ns() / 1'000'000, 0);
    const int ready = poll(&awaited, 1, static_cast<int>(left_ms));
    if (ready == 0) return Status(ErrorCode::timeout, "it did not return in time");
    char part[1024];
    const ssize_t got = ready < 0 ? -1 : read(from, part, sizeof(part));
    if (got == 0) break;
    if (got < 0 && errno != EINTR) return Status(ErrorCode::internal, std::strerror(errno));
    if (got > 0) text.append(part, static_cast<size_t>(got));
  }
  return text;
}

int errno_of_read(pid_t owner, int& word) {
  int copy = 0;
  iovec local{&copy, sizeof(copy)}, remote{&word, sizeof(word)};
  if (process_vm_readv(owner, &local, 1, &remote, 1, 0) != sizeof(copy)) return errno;
  return copy == word ? 0 : EIO;
}

struct SystemCall {
  const char* name;
  bool (*works)();
};

// Those that the library asks for by name and that came late to Linux, or that containers are known to refuse.
constexpr SystemCall system_calls[] = {
    {"memfd_create", [] { return static_cast<bool>(Descriptor(memfd_create("unisono-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING))); }},
    {"pidfd_open", [] { return static_cast<bool>(Descriptor(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)))); }},
    {"membarrier", [] { return syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) >= 0; }},
};

struct Wanted {
  const char *library, *what;
};
constexpr Wanted wanted_engines[] = {
    {"libucp.so.0", "UCX, for InfiniBand and RoCE"},
    {"libpmix.so.2", "PMIx, for launchers that say where ranks meet"},
    {"libmunge.so.2", "MUNGE, for the identity of users across machines"},
};

// "+" and where it was found, or "-" and why not.
std::string load(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (!handle) return fmt::format("-{}", dlerror());
  link_map* map = nullptr;
  const bool is_placed = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name;
  return fmt::format("+{}", is_placed ? map->l_name : library);
}

}  // namespace

Result<std::string> in_child(const std::function<std::string()>& work, double seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return no_child();
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return no_child();
  if (child == 0) {
    be_a_child_of(parent);
    answer(work, writing.number());
  }
  writing.reset();
  auto text = read_until_end(reading.number(), Deadline::in_seconds(seconds));
  if (!text.ok()) {
    end(child);
    return text;
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return Status(ErrorCode::internal, "its process could not be waited for");
  if (WIFSIGNALED(status)) return Status(ErrorCode::internal, fmt::format("it was killed by signal {}", WTERMSIG(status)));
  if (status != 0) return Status(ErrorCode::internal, "it failed");
  return text;
}

Result<int> error_of_sibling_read() {
  int word = 42;
  const pid_t parent = getpid(), owner = fork();
  if (owner < 0) return no_child();
  if (owner == 0) {
    be_a_child_of(parent);
    while (true) pause();
  }
  const AtEnd end_owner([owner] { end(owner); });
  auto text = in_child([owner, &word] { return std::to_string(errno_of_read(owner, word)); }, patience_s);
  if (!text.ok()) return text.status();
  int error = EIO;
  std::from_chars(text->data(), text->data() + text->size(), error);
  return error;
}

// Not in a child: a filter that kills for them has killed every rank before.
std::vector<Refusal> refused_system_calls() {
  std::vector<Refusal> refused;
  for (const SystemCall& call : system_calls)
    if (!call.works() && (errno == ENOSYS || errno == EPERM || errno == EACCES)) refused.push_back({call.name, errno});
  return refused;
}

std::vector<Engine> find_engines() {
  std::vector<Engine> engines;
  for (const Wanted& wanted : wanted_engines) {
    Engine engine{wanted.library, wanted.what};
    const auto answer = in_child([&] { return load(wanted.library); }, patience_s);
    const std::string text = answer.ok() ? answer.value() : "-" + answer.status().message();
    engine.is_known = answer.ok();
    engine.is_found = text.starts_with('+');
    engine.detail = legible(std::string_view(text).substr(text.empty() ? 0 : 1));
    engines.push_back(std::move(engine));
  }
  return engines;
}

Result<UcxFindings> examine_ucx(const Settings& settings) {
  constexpr char failed = '-';  // in front of why
  auto answer = in_child([&] {
    auto findings = look_for_ucx(settings);
    if (!findings.ok()) return failed + findings.status().message();
    std::string lines = findings->version;
    for (const std::string& device : findings->devices) lines += "\n" + device;
    return lines;
  }, patience_s);
  if (!answer.ok()) return answer.status();
  if (answer->starts_with(failed)) return Status(ErrorCode::init, legible(std::string_view(*answer).substr(1)));
  UcxFindings findings;
  std::istringstream lines(*answer);
  std::getline(lines, findings.version);
  for (std::string line; std::getline(lines, line);) findings.devices.push_back(legible(line));
  return findings;
}

}  // namespace unisono::doctor
