// `unisono doctor` as a user runs it: alone, as somebody without rights, with few descriptors, where the kernel refuses things, as ranks of a job. What it makes of facts:
// doctor_test.cpp; several machines: machines_doctor_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/proc_text.hpp"
#include "rendezvous/join.hpp"
#include "tests/support/children.hpp"
#include "tests/support/file_tree.hpp"
#include "tests/support/json_document.hpp"
#include "tests/support/refuse_system_call.hpp"
#include "tests/support/secrets.hpp"
#include "unisono/settings.hpp"

namespace unisono::testing {
namespace {

struct Outcome {
  int status = -1;
  std::string output;  // standard output alone
  bool says(std::string_view part) const { return output.find(part) != std::string::npos; }
};

// A line of shell in which DOCTOR and UNISONO stand for the command, with a home of its own and no launcher's variables.
class DoctorCommand : public ::testing::Test {
 protected:
  Outcome run(const std::string& line) const {
    Outcome outcome;
    const std::string command = process_environment().at("UNISONO_COMMAND");
    const std::string whole = fmt::format("export HOME={} UNISONO={} DOCTOR=\"{} doctor\"; unset XDG_CONFIG_HOME UNISONO_SECRET UNISONO_SECRET_FILE UNISONO_SECRET_FD "
                                          "RANK WORLD_SIZE MASTER_ADDR MASTER_PORT UNISONO_STORE; {{ {}; }} < /dev/null",
                                          home_.root(), command, command, line);
    std::FILE* pipe = popen(whole.c_str(), "r");
    if (!pipe) return outcome;
    char buffer[4096];
    while (size_t count = std::fread(buffer, 1, sizeof(buffer), pipe)) outcome.output.append(buffer, count);
    const int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    EXPECT_FALSE(outcome.says(canary.substr(0, 8))) << "it shows the secret: " << outcome.output;
    return outcome;
  }
  // The status says whether there is a problem.
  JsonDocument examine(const std::string& line) const {
    const Outcome outcome = run(line);
    const JsonDocument document(outcome.output);
    EXPECT_EQ(outcome.status, document.ask("document[\"verdict\"]") == "problem" ? 1 : 0) << outcome.output;
    return document;
  }

  FileTree home_{{}};
};

std::string check(const std::string& name, const std::string& key, const std::string& list = "hosts\"][0][\"checks") {
  return fmt::format("named(document[\"{}\"])[\"{}\"][\"{}\"]", list, name, key);
}

TEST_F(DoctorCommand, has_a_row_for_every_check) {
  const Outcome text = run("$DOCTOR");
  for (const char* part : {"version", "kernel", "instruction_set", "settings", "launcher", "secret", "descriptors", "memory", "shared_memory", "address_space", "locked_memory",
                           "processes", "cores", "peer_reads", "system_calls", "interrupts", "meeting_point", "interfaces", "mtu", "tcp_memory", "backlog", "ports", "engines", "fabric"}) {
    EXPECT_TRUE(text.says(fmt::format(" {} ", part))) << part << " is not in\n" << text.output;
  }
  EXPECT_TRUE(text.says("a world of 1") && text.says("unisono secret new") && text.says("UCX where the row `fabric` says so")) << text.output;
}

TEST_F(DoctorCommand, prints_one_json_document) {
  const JsonDocument document = examine("$DOCTOR --json");
  EXPECT_EQ(document.ask("list(document)"), "['unisono', 'kind', 'verdict', 'problems', 'warnings', 'notes', 'job', 'hosts', 'pairs']");
  EXPECT_EQ(document.ask("document[\"kind\"], len(document[\"hosts\"]), document[\"pairs\"]"), "('machine', 1, [])");
  EXPECT_EQ(document.ask("set(map(tuple, document[\"hosts\"][0][\"checks\"]))"), "{('name', 'verdict', 'found', 'advice')}");
}

TEST_F(DoctorCommand, has_help_and_refuses_what_it_does_not_know) {
  const Outcome help = run("$DOCTOR --help; $UNISONO --help");
  for (const char* part : {"--json", "--alone", "Exit status", "doctor  "}) EXPECT_TRUE(help.says(part)) << part << help.output;
  EXPECT_GT(run("$DOCTOR --quickly 2>&1").status, 100);
  EXPECT_GT(run("$DOCTOR --job --alone 2>&1").status, 100);
}

TEST_F(DoctorCommand, finds_the_secret_and_does_not_show_it) {
  put_secret(home_.root() + "good", canary);
  const JsonDocument good = examine("UNISONO_SECRET_FILE=$HOME/good $DOCTOR --json");
  EXPECT_EQ(good.ask(check("secret", "verdict")), "ok");
  EXPECT_NE(good.ask(check("secret", "found")).find("good (UNISONO_SECRET_FILE), mode 0600"), std::string::npos);
  EXPECT_EQ(examine("UNISONO_SECRET=" + canary + " $DOCTOR --json").ask(check("secret", "found")), "UNISONO_SECRET, can be read");
  put_secret(home_.root() + "open", canary, 0644);
  const JsonDocument open = examine("UNISONO_SECRET_FILE=$HOME/open $DOCTOR --json");
  EXPECT_EQ(open.ask(check("secret", "verdict")), "problem");
  EXPECT_NE(open.ask(check("secret", "found")).find("chmod 600"), std::string::npos);
}

TEST_F(DoctorCommand, knows_few_descriptors_from_many) {
  const JsonDocument few = examine("ulimit -n 64; $DOCTOR --json");
  EXPECT_NE(few.ask(check("descriptors", "found")).find("limit 64 (hard 64)"), std::string::npos) << few.text();
  EXPECT_NE(few.ask(check("descriptors", "verdict")), "ok");
  EXPECT_NE(few.ask(check("descriptors", "advice")).find("ulimit -n 4096"), std::string::npos);
}

TEST_F(DoctorCommand, works_for_somebody_without_rights) {
  if (geteuid() != 0) GTEST_SKIP() << "becoming another user needs root";
  const JsonDocument document = examine("chmod 755 $HOME; setpriv --reuid 65534 --regid 65534 --clear-groups $DOCTOR --json");
  EXPECT_EQ(document.ask("len(document[\"hosts\"][0][\"checks\"])"), examine("$DOCTOR --json").ask("len(document[\"hosts\"][0][\"checks\"])"));
  EXPECT_EQ(document.ask(check("shared_memory", "verdict")), "ok");
}

TEST_F(DoctorCommand, names_settings_that_are_wrong) {
  const JsonDocument document = examine("UNISONO_TIMEOUT=soon UNISONO_SOCKET_IFNAME==nowhere7 RANK=7 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=1 $DOCTOR --json");
  EXPECT_NE(document.ask(check("settings", "found")).find("UNISONO_TIMEOUT"), std::string::npos);
  EXPECT_NE(document.ask(check("launcher", "found")).find("RANK"), std::string::npos);
  const JsonDocument interfaces = examine("UNISONO_SOCKET_IFNAME==nowhere7 $DOCTOR --json");
  EXPECT_EQ(interfaces.ask(check("interfaces", "verdict")), "problem");
  EXPECT_NE(interfaces.ask(check("interfaces", "found")).find("leaves no address"), std::string::npos);
}

// What the kernel refuses is seen by trying, not by what a file says.
TEST_F(DoctorCommand, sees_what_the_kernel_refuses) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  Children refused(1, [&](int) {
    ASSERT_EQ(refuse_system_call(SYS_process_vm_readv, EPERM), 0);
    ASSERT_EQ(refuse_system_call(SYS_membarrier, ENOSYS), 0);
    const JsonDocument document = examine("$DOCTOR --json");
    EXPECT_EQ(document.ask(check("peer_reads", "verdict")), "warning");
    EXPECT_NE(document.ask(check("peer_reads", "found")).find("Operation not permitted"), std::string::npos);
    EXPECT_EQ(document.ask(check("system_calls", "verdict")), "warning");
    EXPECT_NE(document.ask(check("system_calls", "found")).find("a seccomp filter is on; refused: membarrier"), std::string::npos);
  });
  expect_all_succeeded(refused.wait());
}

TEST_F(DoctorCommand, sees_that_interrupts_are_ignored) {
  EXPECT_EQ(examine("trap \"\" INT; $DOCTOR --json").ask(check("interrupts", "verdict")), "note");
  EXPECT_EQ(examine("env --default-signal=INT $DOCTOR --json").ask(check("interrupts", "verdict")), "ok");
}

TEST_F(DoctorCommand, speaks_once_for_all_ranks_of_a_job) {
  const JsonDocument document = examine("$UNISONO run --no-prefix -n 3 $DOCTOR --json");
  EXPECT_EQ(document.ask("document[\"kind\"], document[\"hosts\"][0][\"ranks\"], document[\"pairs\"]"), "('job', [0, 1, 2], [])");
  EXPECT_NE(document.ask(check("joining", "found", "job")).find("3 ranks on 1 host joined"), std::string::npos);
  EXPECT_NE(document.ask(check("neighbours", "found")).find("3 ranks; round trip between ranks 0 and 1"), std::string::npos);
  EXPECT_NE(document.ask(check("launcher", "found")).find("unisono run: rank 0 of 3, 3 on this machine"), std::string::npos);
  const Outcome text = run("$UNISONO run --no-prefix -n 2 $DOCTOR");
  EXPECT_TRUE(text.says("the job\n") && text.says("(ranks 0-1)\n") && text.says("neighbours") && text.says("other checks")) << text.output;
  EXPECT_FALSE(text.says("shared_memory")) << "what is well is not told: " << text.output;
}

// Pretended hosts speak through TCP on the loopback interface: the pair is measured as two machines are.
TEST_F(DoctorCommand, measures_between_hosts) {
  const JsonDocument document = examine("$UNISONO run --no-prefix --pretend-hosts 2,1 $DOCTOR --json");
  EXPECT_EQ(document.ask("[host[\"ranks\"] for host in document[\"hosts\"]]"), "[[0, 1], [2]]");
  EXPECT_EQ(document.ask("len({host[\"host\"] for host in document[\"hosts\"]})"), "2") << "hosts of one name are told apart";
  EXPECT_EQ(document.ask("len(document[\"pairs\"]), [document[\"pairs\"][0][end][\"rank\"] for end in (\"first\", \"second\")]"), "(1, [0, 2])");
  EXPECT_EQ(document.ask("all(document[\"pairs\"][0][end][\"sent_mbit_per_s\"] > 10 for end in (\"first\", \"second\"))"), "True") << document.text();
  EXPECT_EQ(document.ask("0 < document[\"pairs\"][0][\"round_trip_least_us\"] <= document[\"pairs\"][0][\"round_trip_median_us\"]"), "True") << document.text();
  EXPECT_EQ(document.ask("sum(document[\"pairs\"][0][end][\"connected\"] for end in (\"first\", \"second\"))"), "1") << "one end opened the connection" << document.text();
  EXPECT_EQ(document.ask("[document[\"pairs\"][0][end][\"interface\"] for end in (\"first\", \"second\")]"), "['lo', 'lo']");
}

TEST_F(DoctorCommand, tells_why_ranks_could_not_join) {
  const JsonDocument document = examine("RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29999 UNISONO_JOB='" + unique_job() + "' $DOCTOR --json --timeout 0.3");
  EXPECT_EQ(document.ask(check("joining", "verdict", "job")), "problem");
  EXPECT_NE(document.ask(check("joining", "found", "job")).find("missing: 1"), std::string::npos) << document.text();
  EXPECT_EQ(document.ask("len(document[\"hosts\"])"), "1") << "what this machine has to say is there all the same";
  const Outcome other = run("RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29999 UNISONO_JOB='" + unique_job() + "' $DOCTOR --json --timeout 0.3 2>&1");
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(other.says("unisono doctor: rank 1 of 2 on ") && !other.says("{")) << other.output;
}

TEST_F(DoctorCommand, looks_at_one_machine_where_that_is_asked_for) {
  const JsonDocument document = examine("RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29999 $DOCTOR --json --alone --timeout 0.3");
  EXPECT_EQ(document.ask("document[\"kind\"]"), "machine");
  EXPECT_NE(document.ask(check("launcher", "found")).find("env://: rank 0 of 2"), std::string::npos);
}

// While it waits for the others at the meeting place.
TEST_F(DoctorCommand, ends_at_once_when_interrupted) {
  if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  const std::string job = unique_job();
  Children waiting(1, [&](int) {
    signal(SIGINT, SIG_DFL);
    for (const auto& [name, value] : std::map<std::string, std::string>{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29999"},
                                                                        {"UNISONO_JOB", job}})
      setenv(name.c_str(), value.c_str(), 1);
    execl(process_environment().at("UNISONO_COMMAND").c_str(), "unisono", "doctor", nullptr);
  });
  EXPECT_TRUE(await([&] { return proc_text("/proc/net/unix").find(meeting_place("env:// 127.0.0.1:29999 " + job)) != std::string::npos; }));
  const int64_t begin = now_ns();
  waiting.signal(0, SIGINT);
  const std::vector<Ending> endings = waiting.wait();
  EXPECT_TRUE(endings[0].killed_by(SIGINT)) << endings[0].output;
  EXPECT_LT(now_ns() - begin, 2'000'000'000);
}

}  // namespace
}  // namespace unisono::testing
