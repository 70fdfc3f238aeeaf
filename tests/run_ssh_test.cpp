// `unisono run --hosts` where a script stands in for ssh and runs what it is given on this machine. tests/clusters has a real sshd on two machines.
#include <sys/stat.h>

#include <memory>
#include <regex>
#include <set>

#include "tests/run_session.hpp"
#include "tests/support/file_tree.hpp"

namespace unisono::testing {
namespace {

class RunSsh : public ::testing::Test {
 protected:
  RunSsh() { ::chmod(script_.c_str(), 0755); }
  std::vector<std::string> line(const std::string& program, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"--ssh", script_, "--hosts", "one:2,two:1"});
    return shell(options, program);
  }

  const FileTree folder_{{{"ssh", "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\n[ \"$2\" != absent ] || { echo \"no way to $2\" >&2; exit 255; }\nshift 2\nexec sh -c \"$*\"\n"}}};
  const std::string script_ = folder_.root() + "ssh";
};

std::set<std::string> sorted_lines(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  return {lines.begin(), lines.end()};
}

TEST_F(RunSsh, ranks_find_their_places) {
  RunSession session(line("echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE"));
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(sorted_lines(session.output), (std::set<std::string>{"[0] 0 of 3, 0 of 2", "[1] 1 of 3, 1 of 2", "[2] 2 of 3, 0 of 1"}));
  EXPECT_EQ(session.error, "");
}

TEST_F(RunSsh, job_and_meeting_point_are_the_same_and_there_is_a_secret) {
  RunSession session(line("echo $UNISONO_JOB $MASTER_ADDR $MASTER_PORT ${UNISONO_SECRET_FD:+secret}", {"--no-prefix"}));
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(sorted_lines(session.output).size(), 1u) << session.output;
  EXPECT_TRUE(session.output.ends_with("secret\n")) << session.output;
}

TEST_F(RunSsh, input_goes_to_rank_0_to_its_end) {
  RunSession session(line("cat; echo over"), {.input = "one\ntwo\n"});
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(sorted_lines(session.output), (std::set<std::string>{"[0] one", "[0] two", "[0] over", "[1] over", "[2] over"}));
}

TEST_F(RunSsh, who_fails_is_named_with_its_host) {
  RunSession session(line("[ $RANK = 2 ] && { echo oh no; exit 3; }; exec sleep 1000"));
  EXPECT_EQ(session.wait(), 3);
  EXPECT_TRUE(std::regex_match(session.error, std::regex("unisono run: rank 2 \\(pid [0-9]+ on host two\\) exited with status 3 after [0-9.]+ s; its last lines:\n    oh no\n"))) << session.error;
}

TEST_F(RunSsh, a_job_is_started_anew) {
  RunSession session(line("[ $RANK = 1 ] && exit 4; exec sleep 1000", {"--restarts", "1"}));
  EXPECT_EQ(session.wait(), 4);
  for (const char* part : {"rank 1 failed; starting the job anew, 1 of 1", "rank 1 failed, 2 times now; the job was started 2 times"})
    EXPECT_NE(session.error.find(part), std::string::npos) << session.error;
}

TEST_F(RunSsh, a_host_that_cannot_be_reached_ends_it_before_it_begins) {
  RunSession session(shell({"--ssh", script_, "--hosts", "one:2,absent:1"}, "echo started; exec sleep 1000"));
  EXPECT_EQ(session.wait(), 255);
  EXPECT_EQ(session.output, "");
  EXPECT_EQ(session.error, "no way to absent\nunisono run: host absent cannot be used: " + script_ + " exited with status 255\n");
}

TEST_F(RunSsh, without_ssh_it_says_so) {
  RunSession session(shell({"--ssh", "/nonexistent/ssh", "--hosts", "one:1"}, "echo started"));
  EXPECT_EQ(session.wait(), 127);
  EXPECT_NE(session.error.find("cannot start /nonexistent/ssh: there is no such file"), std::string::npos) << session.error;
}

TEST_F(RunSsh, signals_reach_ranks_on_all_hosts) {
  RunSession session(line("trap 'echo heard; kill $sleep; exit 0' USR1; sleep 1000 & sleep=$!; echo ready; while :; do wait; done"));
  session.await_output("ready", 3);
  session.signal(SIGUSR1);
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(RunSession::count(session.output, "heard"), 3) << session.output;
}

TEST_F(RunSsh, when_it_dies_so_do_the_ranks) {
  RunSession session(line("echo $$; exec sleep 1000", {"--no-prefix"}));
  session.await_output("\n", 3);
  std::vector<std::unique_ptr<Watched>> ranks;
  for (const std::string& pid : lines_of(session.output)) ranks.push_back(std::make_unique<Watched>(std::stoi(pid)));
  session.signal(SIGKILL);
  for (const auto& rank : ranks) EXPECT_TRUE(rank->was_there() && rank->ends());
}

TEST_F(RunSsh, on_one_machine_a_job_is_started_anew_too) {
  RunSession session(shell({"-n", "2", "--restarts", "1"}, "[ $RANK = 1 ] && exit 4; exec sleep 1000"));
  EXPECT_EQ(session.wait(), 4);
  EXPECT_NE(session.error.find("starting the job anew, 1 of 1"), std::string::npos) << session.error;
}

}  // namespace
}  // namespace unisono::testing
