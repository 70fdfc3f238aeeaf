// `unisono run --hosts` where a script stands in for ssh and runs what it is given on this machine, in another folder and with next to nothing in its environment. tests/clusters has a real sshd on two machines.
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
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

  const FileTree folder_{{{"ssh", "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nhost=$2\nshift 2\n"
                                "case $host in\nabsent) echo \"no way to $host\" >&2; exit 255;;\nbanner) printf 'Welcome\\nto the cluster';;\nesac\n"
                                "cd /\nexec env -i PATH=/usr/bin:/bin sh -c \"$*\"\n"}}};
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

TEST_F(RunSsh, what_another_launcher_left_in_the_environment_counts_for_nothing) {
  RunSession session(line("echo $RANK $WORLD_SIZE $PMI_RANK.$OMPI_COMM_WORLD_RANK"), {.environment = {"RANK=5", "WORLD_SIZE=9", "MASTER_ADDR=1.2.3.4", "PMI_RANK=3", "OMPI_COMM_WORLD_RANK=4"}});
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(sorted_lines(session.output), (std::set<std::string>{"[0] 0 3 .", "[1] 1 3 .", "[2] 2 3 ."}));
}

TEST_F(RunSsh, folder_and_environment_travel_and_settings_go_before_them) {
  const std::string here = std::filesystem::current_path();
  RunSession session(line("echo $PWD $FIRST $SECOND", {"--no-prefix", "--env", "SECOND=of env"}), {.environment = {"FIRST=two  words", "SECOND=of ours"}});
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(sorted_lines(session.output), (std::set<std::string>{here + " two words of env"}));
}

TEST_F(RunSsh, the_program_is_looked_for_in_the_path_of_who_started_it) {
  const FileTree tools{{{"mytool", "#!/bin/sh\necho mine\n"}}};
  ASSERT_EQ(::chmod((tools.root() + "mytool").c_str(), 0755), 0);
  RunSession session({"--ssh", script_, "--hosts", "one:1", "--", "mytool"}, {.environment = {"PATH=" + tools.root() + ":/usr/bin:/bin"}});
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(session.output, "[0] mine\n");
}

TEST_F(RunSsh, what_a_shell_says_on_the_way_goes_to_standard_error) {
  RunSession session(shell({"--ssh", script_, "--hosts", "one:1,banner:1"}, "echo $RANK"));
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(sorted_lines(session.output), (std::set<std::string>{"[0] 0", "[1] 1"}));
  EXPECT_EQ(session.error, "banner: Welcome\nbanner: to the cluster\n");
}

TEST_F(RunSsh, lines_that_look_like_the_launchers_own_are_passed_on) {
  RunSession session(line("printf '\\001unisono/1 failed 1 2\\n'", {"--no-prefix"}));
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(sorted_lines(session.output), (std::set<std::string>{"\1unisono/1 failed 1 2"}));
}

TEST_F(RunSsh, a_program_that_ends_with_the_status_of_ssh_is_no_lost_host) {
  RunSession session(line("[ $RANK = 2 ] && exit 255; exit 0", {"--keep-going"}));
  EXPECT_EQ(session.wait(), 255);
  EXPECT_TRUE(std::regex_match(session.error, std::regex("unisono run: rank 2 .* exited with status 255 .*\n"))) << session.error;
}

TEST_F(RunSsh, seventy_hosts_are_reached_and_too_few_descriptors_are_told) {
  std::string hosts = "h0";
  for (int host = 1; host < 70; ++host) hosts += ",h" + std::to_string(host);
  RunSession all(shell({"--ssh", script_, "--hosts", hosts}, "echo $RANK"));
  EXPECT_EQ(all.wait(), 0) << all.error;
  EXPECT_EQ(sorted_lines(all.output).size(), 70u);
  rlimit before{}, small{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  small = {.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  RunSession refused(shell({"--ssh", script_, "--hosts", hosts}, "echo $RANK"));
  EXPECT_EQ(refused.wait(), 1);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(refused.error.find("70 hosts need 312 open files, the limit is 64"), std::string::npos) << refused.error;
}

TEST_F(RunSsh, a_signal_that_comes_early_ends_nothing_that_it_should_not) {
  const FileTree slow{{{"ssh", "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nhost=$2\nshift 2\necho begun >&2\n[ $host != slow ] || read line <" + folder_.root() + "go\nexec sh -c \"$*\"\n"}}};
  ASSERT_EQ(::chmod((slow.root() + "ssh").c_str(), 0755), 0);
  ASSERT_EQ(::mkfifo((folder_.root() + "go").c_str(), 0600), 0);
  RunSession session(shell({"--ssh", slow.root() + "ssh", "--hosts", "one:1,slow:1"}, "echo $RANK"));
  session.await_error_only("begun\nbegun\n");
  session.signal(SIGUSR1);
  session.signal(SIGCONT);
  std::ofstream(folder_.root() + "go") << "go\n";
  EXPECT_EQ(session.wait(), 0) << session.error;
  EXPECT_EQ(sorted_lines(session.output), (std::set<std::string>{"[0] 0", "[1] 1"}));
}

TEST_F(RunSsh, what_nobody_reads_holds_up_no_end) {
  RunSession session(line("exec yes"));
  session.await_full_output();
  session.signal(SIGTERM);
  EXPECT_TRUE(Watched(session.pid()).ends(Deadline::in_seconds(20)));  // with a reader that is there, and reads nothing
  EXPECT_EQ(session.wait(), 128 + SIGTERM);
}

TEST_F(RunSsh, no_job_is_started_anew_for_a_reader_that_has_gone) {
  for (const std::vector<std::string>& where : {std::vector<std::string>{"--ssh", script_, "--hosts", "one:1,two:1"}, std::vector<std::string>{"-n", "2"}}) {
    std::vector<std::string> options = where;
    options.insert(options.end(), {"--restarts", "2"});
    RunSession session(shell(options, "exec yes"));
    session.await_output("y", 10);
    session.stop_reading_output();
    EXPECT_NE(session.wait(), 0);
    EXPECT_EQ(session.error.find("anew"), std::string::npos) << session.error;
  }
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

TEST_F(RunSsh, when_the_launcher_dies_so_does_what_ranks_have_started) {
  for (const std::vector<std::string>& where : {std::vector<std::string>{"--ssh", script_, "--hosts", "one:1,two:1"}, std::vector<std::string>{"-n", "2"}}) {
    std::vector<std::string> options = where;
    options.push_back("--no-prefix");
    RunSession session(shell(options, "sleep 1000 & echo $!; wait; true"));
    session.await_output("\n", 2);
    std::vector<std::unique_ptr<Watched>> started;
    for (const std::string& pid : lines_of(session.output)) started.push_back(std::make_unique<Watched>(std::stoi(pid)));
    session.signal(SIGKILL);
    for (const auto& one : started) EXPECT_TRUE(one->was_there() && one->ends(Deadline::in_seconds(10)));
  }
}

TEST_F(RunSsh, what_a_rank_leaves_running_in_peace_is_let_be) {
  RunSession session(shell({"-n", "2", "--no-prefix"}, "[ $RANK = 1 ] && exit 0; sleep 1000 >/dev/null 2>&1 </dev/null & echo $!"));
  EXPECT_EQ(session.wait(), 0) << session.error;
  const Watched left(std::stoi(session.output));
  EXPECT_TRUE(left.was_there());
  EXPECT_FALSE(left.ends(Deadline::in_seconds(0.2)));
  left.end();
}

TEST_F(RunSsh, on_one_machine_a_job_is_started_anew_too) {
  RunSession session(shell({"-n", "2", "--restarts", "1"}, "[ $RANK = 1 ] && exit 4; exec sleep 1000"));
  EXPECT_EQ(session.wait(), 4);
  EXPECT_NE(session.error.find("starting the job anew, 1 of 1"), std::string::npos) << session.error;
}

}  // namespace
}  // namespace unisono::testing
