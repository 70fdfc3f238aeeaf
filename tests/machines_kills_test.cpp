// Ranks on two machines that are killed at any of their calls to the kernel for a socket, or for which such calls fail. This program has functions of
// these names of its own, which count and then do what the kernel does.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <filesystem>

#include "tests/support/eventually.hpp"
#include "tests/support/losses.hpp"
#include "tests/support/machine_job.hpp"
#include "tests/support/scale.hpp"
#include "transport/address.hpp"

namespace {

std::atomic<bool> counts_down{false};
std::atomic<int64_t> calls_left{0};  // until the process is killed
std::atomic<int64_t> calls_made{0};
std::atomic<bool> no_descriptors{false};
std::atomic<int64_t> accepts{0};

void count_call() {
  ++calls_made;
  if (counts_down && --calls_left <= 0) kill(getpid(), SIGKILL);  // whichever thread comes first, and any that comes before the signal
}

}  // namespace

extern "C" {
ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  count_call();
  return syscall(SYS_sendmsg, socket, message, flags);
}
ssize_t send(int socket, const void* buffer, size_t bytes, int flags) {  // of what is short, and of what TLS has sealed
  count_call();
  return syscall(SYS_sendto, socket, buffer, bytes, flags, nullptr, 0);
}
ssize_t recv(int socket, void* buffer, size_t bytes, int flags) {
  count_call();
  return syscall(SYS_recvfrom, socket, buffer, bytes, flags, nullptr, nullptr);
}
int accept4(int socket, sockaddr* address, socklen_t* length, int flags) {
  ++accepts;
  if (no_descriptors) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(syscall(SYS_accept4, socket, address, length, flags));
}
}

namespace unisono::testing {
namespace {

class MachineKills : public OnMachines {};

struct KillAt {
  MachineJob job;
  int victim;
  int64_t call;  // the how-manieth of the collective
};

// False: the victim's collective had fewer calls than that.
bool survivors_are_told(const TestMachines& machines, const KillAt& scene) {
  const int ranks = scene.job.ranks();
  Outcomes outcomes(ranks);
  SharedArray<Signs> signs(1);
  Children children(ranks, [&](int rank) {
    become_rank(machines, scene.job, rank);
    distributed::init_process_group({});
    expect_sum(rank, ranks, 10);
    distributed::barrier({});
    ++signs[0].ready;
    if (rank == scene.victim) { EXPECT_TRUE(await([&] { return signs[0].ready == ranks; })); }  // who were still in the barrier might hear of the death there
    calls_left = scene.call;
    counts_down = rank == scene.victim;
    outcomes.note(rank, [&] {
      for (int round = 0; round < 4; ++round) expect_sum(rank, ranks, 100'000);  // who has got its own result hears of it in the next
    });
    counts_down = false;
    distributed::destroy_process_group();
  }, 60);
  // When it was killed nobody has written down: its end is seen here.
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(children.pid(scene.victim)), &info, WEXITED | WNOWAIT);
  const int64_t ended_ns = now_ns();
  const std::vector<Ending> endings = children.wait();
  if (!endings[static_cast<size_t>(scene.victim)].killed_by(SIGKILL)) {
    expect_all_succeeded(endings);
    return false;
  }
  bool had_given_all = true;  // that the others needed: they are done, and rightly
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == scene.victim) continue;
    EXPECT_TRUE(endings[static_cast<size_t>(rank)].succeeded()) << endings[static_cast<size_t>(rank)].output;  // no wrong sum, no signal
    had_given_all &= outcomes.of(rank).code == ErrorCode::ok;
  }
  if (had_given_all) return false;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == scene.victim || outcomes.of(rank).code == ErrorCode::ok) continue;  // in the last round some may have all that they need, and others not
    expect_lost(outcomes.of(rank), {scene.victim});
    EXPECT_LT(seconds_between(ended_ns, outcomes.of(rank).ended_ns), 1) << outcomes.of(rank).text();
  }
  return true;
}

void kill_at_many_calls(const MachineJob& job, int victim) {
  const TestMachines machines(2);
  const int64_t step = full_run() ? 1 : 7;
  int64_t call = 1;
  for (; !::testing::Test::HasFailure(); call += step) {
    SCOPED_TRACE(fmt::format("call {} of rank {}", call, victim));
    if (!survivors_are_told(machines, {job, victim, call}) || (!full_run() && call > 8 * step)) break;
  }
  EXPECT_GT(call, 2 * step) << "the collective was over too soon";
}

TEST_F(MachineKills, at_any_call_are_told_with_one_rank_each) { kill_at_many_calls({.machine_of_rank = {0, 1}}, 1); }
TEST_F(MachineKills, of_rank_0_at_any_call_are_told) { kill_at_many_calls({.machine_of_rank = {0, 1}}, 0); }
TEST_F(MachineKills, at_any_call_are_told_with_two_ranks_each) { kill_at_many_calls({.machine_of_rank = {0, 0, 1, 1}}, 2); }

double processor_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Nobody can be let in for a while, though somebody knocks: that takes no processor, and afterwards everything works.
TEST_F(MachineKills, accepting_without_descriptors_does_not_spin_and_goes_on_later) {
  const TwoMachines machines;
  run_job(machines, {.machine_of_rank = {0, 1}}, [](int rank) {
    expect_sum(rank, 2, 10);
    if (rank == 1) no_descriptors = true;
    distributed::barrier({});
    WorkPtr letter;
    std::vector<float> data(10, 5);
    if (rank == 0) letter = distributed::isend(view(data), 1);  // opens a connection of its own
    if (rank == 1) {
      EXPECT_TRUE(await([] { return accepts > 0; }));
      const double before_s = processor_seconds();
      EXPECT_FALSE(await([] { return false; }, 2));
      EXPECT_LT(processor_seconds() - before_s, 0.2) << "of two seconds";
      no_descriptors = false;
      const int64_t until_now = accepts;
      EXPECT_TRUE(await([&] { return accepts >= until_now + 2; }, 2)) << "nobody looks again by itself";  // one that found it, and one more
      distributed::recv(view(data), 0);
    }
    if (letter) letter->wait();
    distributed::barrier({});
  });
}

// Whether somebody listens at that port of a machine.
bool somebody_listens(const std::string& host, int port) {
  const auto address = Address::parse(fmt::format("{}:{}", host, port));
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return address && connect(socket.number(), address->get(), address->bytes()) == 0;
}

// So few that joining cannot work, up to enough; four more than are open is what it takes to say so. Whoever lacks them says how many; the others are told. It is
// the first of its machine, and comes when rank 0 is there: it tells for a second, and who comes later hears nothing.
void join_with_few_descriptors(const std::string& sockets_per_peer) {
  SCOPED_TRACE(sockets_per_peer + " sockets for each peer");
  const TwoMachines machines;
  const MachineJob job{.machine_of_rank = {0, 1, 1}, .variables = {{"UNISONO_JOIN_TIMEOUT", "10"}, {"UNISONO_SOCKETS_PER_PEER", sockets_per_peer}}};
  int refused = 0, worked = 0;
  for (int limit = 10; limit <= 200; limit += full_run() ? 5 : limit < 70 ? 10 : 50) {
    SCOPED_TRACE(fmt::format("{} descriptors", limit));
    Outcomes outcomes(3);
    SharedArray<std::atomic<bool>> begun(1);
    Children children(3, [&](int rank) {
      become_rank(machines, job, rank);
      if (rank == 1) {
        ASSERT_TRUE(eventually([] { return somebody_listens(TestMachines::address(0), 29500); }));
        const auto open_now = static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {})) - 1;  // without the folder's own
        const auto most = static_cast<rlim_t>(std::max(limit, open_now + 4));
        const rlimit few = {most, most};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        begun[0] = true;
      }
      if (rank == 2) { ASSERT_TRUE(eventually([&] { return begun[0].load(); })); }
      outcomes.note(rank, [&] {
        distributed::init_process_group({});
        expect_sum(rank, 3, 1000);
        std::vector<float> data(100'000, 5);  // letters have connections of their own
        if (rank == 0) distributed::send(view(data), 1);
        if (rank == 1) distributed::recv(view(data), 0);
        distributed::barrier({});
        distributed::destroy_process_group();
      });
    }, 60);
    expect_all_succeeded(children.wait());
    const Outcome& lacking = outcomes.of(1);
    (lacking.code == ErrorCode::ok ? worked : refused) += 1;
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(outcomes.of(rank).code == ErrorCode::ok, lacking.code == ErrorCode::ok) << rank << ": " << outcomes.of(rank).text();
    if (lacking.code == ErrorCode::ok) continue;
    EXPECT_EQ(lacking.code, ErrorCode::resource) << lacking.text();
    EXPECT_NE(lacking.text().find("raise it with `ulimit -n "), std::string::npos) << lacking.text();  // so joining says it, and not the first call
    EXPECT_LT(lacking.took_s(), 1) << lacking.text();
    for (int rank : {0, 2}) {
      EXPECT_NE(outcomes.of(rank).text().find("cannot join"), std::string::npos) << outcomes.of(rank).text();
      EXPECT_LT(outcomes.of(rank).took_s(), 4) << outcomes.of(rank).text();
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(worked, 0);
}

TEST_F(MachineKills, joining_with_few_descriptors_works_or_says_how_many_it_takes) { join_with_few_descriptors("1"); }

// More than what joining itself takes, which is known when it is known who is elsewhere.
TEST_F(MachineKills, joining_counts_the_connections_that_there_will_be) { join_with_few_descriptors("16"); }

}  // namespace
}  // namespace unisono::testing
