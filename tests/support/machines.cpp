// See machines.hpp.
#include "tests/support/machines.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace unisono::testing {
namespace {

bool succeeds(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

void run(const std::string& command) { EXPECT_EQ(std::system(command.c_str()), 0) << command; }

// Lives in namespaces of its own until nobody holds the other end of `alive`.
pid_t start_holder(int alive, const char* name) {
  int ready[2];
  EXPECT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const bool made = unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0 && sethostname(name, strlen(name)) == 0;
    char byte = 0;
    if (made) static_cast<void>(!write(ready[1], &byte, 1));
    close(ready[1]);
    static_cast<void>(!read(alive, &byte, 1));
    _exit(0);
  }
  close(ready[1]);
  char byte;
  EXPECT_EQ(read(ready[0], &byte, 1), 1) << "no namespaces";
  close(ready[0]);
  return holder;
}

}  // namespace

std::string cannot_make_machines() {
  if (geteuid() != 0) return "making network namespaces needs root";
  if (!succeeds("command -v ip") || !succeeds("command -v nsenter")) return "making network namespaces needs ip (iproute2) and nsenter (util-linux)";
  if (!succeeds("unshare --net --uts ip link add left type veth peer name right")) return "this kernel makes no network namespaces with veth here";
  return "";
}

TwoMachines::TwoMachines() {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const char* names[] = {"one", "two"};
  alive_ = Descriptor(ends[1]);
  for (int machine : {0, 1}) {
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    holders_[machine] = start_holder(ends[0], names[machine]);
  }
  close(ends[0]);
  run(fmt::format("ip link add wire netns {} type veth peer name wire netns {}", holders_[0], holders_[1]));
  for (int machine : {0, 1})
    run(fmt::format("nsenter -t {} -n sh -c 'ip link set lo up && ip addr add {}/24 dev wire && ip addr add {}/64 dev wire nodad && ip link set wire up'",
                    holders_[machine], address(machine), address6(machine)));
}

TwoMachines::~TwoMachines() {
  alive_.reset();
  for (pid_t holder : holders_) {
    if (holder <= 0) continue;
    kill(holder, SIGKILL);  // it may hold a copy of the pipe's end that keeps the other alive
    waitpid(holder, nullptr, 0);
  }
}

void TwoMachines::enter(int machine) const {
  for (const char* kind : {"net", "uts"}) {
    const Descriptor space(open(fmt::format("/proc/{}/ns/{}", holders_[machine], kind).c_str(), O_RDONLY | O_CLOEXEC));
    if (!space || setns(space.number(), 0) != 0) throw std::runtime_error(fmt::format("machine {} cannot be entered: {}", machine, strerror(errno)));
  }
}

void TwoMachines::run_in(int machine, const std::string& command) const { run(fmt::format("nsenter -t {} -n sh -c '{}'", holders_[machine], command)); }

void TwoMachines::cut_wire() const { run(fmt::format("nsenter -t {} -n ip link set wire down", holders_[0])); }

}  // namespace unisono::testing
