// See machines.hpp. A namespace lives as long as somebody has it open: the process that made it has ended when the constructor returns.
#include "tests/support/machines.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace unisono::testing {
namespace {

constexpr int first_high_descriptor = 100;  // out of the way of tests that look at the lowest ones
constexpr const char* names[] = {"one", "two", "three", "four", "five", "six", "seven", "eight"};

bool succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

[[noreturn]] void cannot(const std::string& what) { throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno))); }

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

Descriptor space_of(pid_t process, const char* kind) {
  const Descriptor low(open(fmt::format("/proc/{}/ns/{}", process, kind).c_str(), O_RDONLY | O_CLOEXEC));
  Descriptor high(fcntl(low.number(), F_DUPFD_CLOEXEC, first_high_descriptor));
  if (!high) cannot("a namespace");
  return high;
}

// Stays until it is killed. It gives no sign when it ends, so that whoever waits for any child does not find it.
pid_t start_maker(const std::string& name, int ready) {
  const auto child = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
  if (child != 0) return child;
  char byte = unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0 && sethostname(name.data(), name.size()) == 0;
  static_cast<void>(!write(ready, &byte, 1));
  while (true) pause();
}

std::string in(const Descriptor& network) { return fmt::format("nsenter --net=/proc/{}/fd/{}", getpid(), network.number()); }

// A line for `ip -batch` in that namespace.
void run_ip(const Descriptor& network, const std::string& lines) { run(fmt::format("printf '{}' | {} ip -batch -", lines, in(network))); }

// /sys as this thread's machine has it: there UCX looks for interfaces. Of a mode that is not root's own it stays as it is.
void show_devices() {
  if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
  static_cast<void>(mount("sysfs", "/sys", "sysfs", 0, nullptr));
}

}  // namespace

std::string cannot_make_machines() {
  if (geteuid() != 0) return "making network namespaces needs root";
  if (!succeeds("command -v ip") || !succeeds("command -v nsenter")) return "making network namespaces needs ip (iproute2) and nsenter (util-linux)";
  if (!succeeds("unshare --net --uts ip link add left type veth peer name right")) return "this kernel makes no network namespaces with veth here";
  return "";
}

TestMachines::TestMachines(int count, Families families) {
  make(count);
  join(families);
}

void TestMachines::make(int count) {
  const bool has_bridge = count > 2;
  for (int machine = 0; machine < count + has_bridge; ++machine) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) cannot("a pipe");
    const std::string name = machine < static_cast<int>(std::size(names)) ? names[machine] : fmt::format("machine{}", machine + 1);
    const pid_t maker = start_maker(name, ready[1]);
    char made = 0;
    const bool heard = read(ready[0], &made, 1) == 1 && made;
    if (heard) (machine < count ? spaces_.emplace_back() : bridge_) = Spaces{space_of(maker, "net"), space_of(maker, "uts")};
    for (int end : ready) close(end);
    kill(maker, SIGKILL);
    waitpid(maker, nullptr, __WALL);
    if (!heard) throw std::runtime_error("no namespaces could be made");
  }
}

void TestMachines::join(Families families) {
  auto place = [](const Descriptor& network) { return fmt::format("/proc/{}/fd/{}", getpid(), network.number()); };
  if (count() == 2) run_ip(spaces_[0].network, fmt::format("link add wire type veth peer name wire netns {}\\n", place(spaces_[1].network)));
  if (count() > 2) {
    std::string lines = "link add hub type bridge\\nlink set hub up\\n";
    for (int machine = 0; machine < count(); ++machine) {
      const std::string there = place(spaces_[static_cast<size_t>(machine)].network);
      lines += fmt::format("link add port{0} type veth peer name wire netns {1}\\nlink set port{0} master hub up\\n", machine, there);
    }
    run_ip(bridge_.network, lines);
  }
  for (int machine = 0; machine < count(); ++machine) set_up(machine, families);
}

void TestMachines::set_up(int machine, Families families) const {
  std::string lines = "link set lo up\\n";
  if (families == Families::both) lines += fmt::format("addr add {}/24 dev wire\\n", address(machine));
  lines += fmt::format("addr add {}/64 dev wire nodad\\nlink set wire up\\n", address6(machine));
  run_ip(spaces_[static_cast<size_t>(machine)].network, lines);
}

void TestMachines::enter(int machine) const {
  const Spaces& spaces = spaces_[static_cast<size_t>(machine)];
  if (setns(spaces.network.number(), CLONE_NEWNET) != 0 || setns(spaces.names.number(), CLONE_NEWUTS) != 0) cannot(fmt::format("machine {} cannot be entered", machine));
  show_devices();
}

void TestMachines::run_in(int machine, const std::string& command) const {
  run(fmt::format("{} sh -c '{}'", in(spaces_[static_cast<size_t>(machine)].network), command));
}

void TestMachines::cut_off(int machine, bool is_off) const {
  constexpr int disabled = 0, forwarding = 3;
  run(fmt::format("{} bridge link set dev port{} state {}", in(bridge_.network), machine, is_off ? disabled : forwarding));
}

void TwoMachines::cut_wire() const { run_in(0, "ip link set wire down"); }

std::string listeners_at_every_address() {
  std::string lines;
  for (const char* table : {"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}) {
    std::ifstream sockets(table);
    for (std::string line; std::getline(sockets, line);) {
      const bool listens = line.find(" 0A ") != std::string::npos;
      if (listens && (line.find(": 00000000:") != std::string::npos || line.find(": 00000000000000000000000000000000:") != std::string::npos)) lines += line + "\n";
    }
  }
  return lines;
}

}  // namespace unisono::testing
