// `unisono run`: what the ranks find, and what becomes of what they write. How it takes failures and signals is in
// run_failure_test.cpp. Ranks are small shell programs.
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "tests/run_session.hpp"

namespace unisono::testing {
namespace {

std::set<std::string> unordered(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  return {lines.begin(), lines.end()};
}

TEST(Run, each_rank_finds_its_place_in_its_environment) {
  RunSession session(shell({"-n", "3"}, "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, $MASTER_ADDR"));
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(unordered(session.output),
            (std::set<std::string>{"[0] 0 of 3, 0 of 3, 127.0.0.1", "[1] 1 of 3, 1 of 3, 127.0.0.1",
                                   "[2] 2 of 3, 2 of 3, 127.0.0.1"}));
  EXPECT_EQ(session.error, "");
}

TEST(Run, pretended_hosts_say_how_many_ranks_there_are) {
  RunSession session(shell({"--pretend-hosts", "2,1"}, "echo $RANK of $WORLD_SIZE on $UNISONO_PRETEND_HOSTS"));
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(unordered(session.output), (std::set<std::string>{"[0] 0 of 3 on 2,1", "[1] 1 of 3 on 2,1", "[2] 2 of 3 on 2,1"}));
}

TEST(Run, pretended_hosts_that_do_not_add_up_are_refused) {
  RunSession session(shell({"-n", "4", "--pretend-hosts", "2,1"}, "echo started"));
  EXPECT_EQ(session.wait(), 2);
  EXPECT_EQ(session.output, "");
  EXPECT_EQ(session.error, "unisono run: --pretend-hosts: \"2,1\" makes 3 ranks, and there are 4\n");
}

TEST(Run, the_job_is_the_same_on_all_ranks_and_another_in_every_launch) {
  std::set<std::string> jobs;
  for (int launch = 0; launch < 2; ++launch) {
    RunSession session(shell({"-n", "3", "--no-prefix"}, "echo $UNISONO_JOB $MASTER_PORT"));
    EXPECT_EQ(session.wait(), 0);
    EXPECT_EQ(unordered(session.output).size(), 1u) << session.output;
    jobs.insert(session.output);
    std::istringstream words(session.output);
    std::string job;
    int port = 0;
    words >> job >> port;
    EXPECT_FALSE(job.empty());
    EXPECT_GT(port, 1023);
    EXPECT_LT(port, 65536);
  }
  EXPECT_EQ(jobs.size(), 2u);
}

TEST(Run, ranks_do_not_see_the_launcher_that_started_us) {
  RunSession session(
      shell({"-n", "1"}, "echo $OMPI_COMM_WORLD_RANK$PMI_RANK$SLURM_PROCID$TORCHELASTIC_RUN_ID$MS_ROLE."),
      {.environment = {"OMPI_COMM_WORLD_RANK=7", "PMI_RANK=7", "SLURM_PROCID=7", "TORCHELASTIC_RUN_ID=7", "MS_ROLE=7",
                       "RANK=7", "WORLD_SIZE=9"}});
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(session.output, "[0] .\n");
}

TEST(Run, variables_may_be_added_for_all_ranks) {
  RunSession session(shell({"-n", "2", "--env", "A=1 2", "--env", "MASTER_PORT=99", "--env", "EMPTY="},
                           "echo $A $MASTER_PORT ${EMPTY-unset} $FROM_OUTSIDE"),
                     {.environment = {"FROM_OUTSIDE=kept"}});
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(unordered(session.output), (std::set<std::string>{"[0] 1 2 99 kept", "[1] 1 2 99 kept"}));
}

TEST(Run, what_follows_the_program_is_left_to_it) {
  for (bool with_dashes : {true, false}) {
    std::vector<std::string> words = {"-n", "1"};
    if (with_dashes) words.push_back("--");
    for (const char* word : {"printf", "<%s>", "-n", "5", "--", "--help", "[1,2]", "{}", "", "a b"})
      words.push_back(word);
    RunSession session(words);
    EXPECT_EQ(session.wait(), 0);
    EXPECT_EQ(session.output, "[0] <-n><5><--><--help><[1,2]><{}><><a b>\n");
  }
}

TEST(Run, standard_output_and_error_stay_apart) {
  RunSession session(shell({"-n", "2"}, "echo out; echo err >&2"));
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(unordered(session.output), (std::set<std::string>{"[0] out", "[1] out"}));
  EXPECT_EQ(unordered(session.error), (std::set<std::string>{"[0] err", "[1] err"}));
}

TEST(Run, without_a_prefix_lines_are_as_they_were_written) {
  RunSession session(shell({"-n", "1", "--no-prefix"}, "echo; echo ' x'"));
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(session.output, "\n x\n");
}

TEST(Run, an_unfinished_line_gets_its_end) {
  RunSession session(shell({"-n", "1"}, "printf one; printf two; printf three >&2"));
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(session.output, "[0] onetwo\n");
  EXPECT_EQ(session.error, "[0] three\n");
}

TEST(Run, lines_of_several_ranks_and_streams_never_mix) {
  RunSession session(shell({"-n", "4"},
                           "i=0; while [ $i -lt 500 ]; do i=$((i+1));"
                           "printf 'first half, '; printf 'second half\\n';"
                           "printf 'first half, ' >&2; printf 'second half\\n' >&2; done"),
                     {.joined_outputs = true});
  EXPECT_EQ(session.wait(), 0);
  std::map<std::string, int> times;
  for (const std::string& line : lines_of(session.output)) ++times[line];
  EXPECT_EQ(times.size(), 4u);
  for (const auto& [line, count] : times) {
    EXPECT_EQ(line.substr(3), " first half, second half");
    EXPECT_EQ(count, 1000);
  }
}

TEST(Run, a_long_line_stays_whole) {
  RunSession session(shell({"-n", "2"}, "head -c 500000 /dev/zero | tr '\\0' x; echo"));
  EXPECT_EQ(session.wait(), 0);
  for (const std::string& line : lines_of(session.output)) EXPECT_EQ(line.substr(3), " " + std::string(500000, 'x'));
  EXPECT_EQ(lines_of(session.output).size(), 2u);
}

TEST(Run, of_a_line_without_end_nothing_is_lost) {
  RunSession session(shell({"-n", "1"}, "head -c 5000000 /dev/zero | tr '\\0' x"));
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(RunSession::count(session.output, "x"), 5000000);
}

TEST(Run, binary_output_arrives_as_it_was_written) {
  RunSession session(shell({"-n", "1", "--no-prefix"}, "printf '\\000\\001\\r\\377\\t\\033\\n\\000\\n'"));
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(session.output, std::string("\000\001\r\377\t\033\n\000\n", 9));
}

TEST(Run, ten_megabytes_from_every_rank_arrive_whole) {
  RunSession session(shell({"-n", "4"}, "yes 0123456789012345678901234567890123456789012345678 | head -c 10000000"));
  EXPECT_EQ(session.wait(), 0);
  std::map<char, int> lines;
  for (const std::string& line : lines_of(session.output)) {
    EXPECT_EQ(line.size(), 53u);
    ++lines[line[1]];
  }
  EXPECT_EQ(lines, (std::map<char, int>{{'0', 200000}, {'1', 200000}, {'2', 200000}, {'3', 200000}}));
}

TEST(Run, an_output_that_nobody_reads_holds_up_neither_the_other_nor_signals) {
  RunSession session(
      shell({"-n", "2"},
            "if [ $RANK = 0 ]; then trap '' USR1; yes | head -c 4000000; else "
            "trap 'echo still here >&2; exit 0' USR1; echo ready >&2; while :; do sleep 0.01; done; fi"));
  session.await_error_only("[1] ready");
  session.await_full_output();
  session.signal(SIGUSR1);
  session.await_error_only("[1] still here");
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(RunSession::count(session.output, "[0] y\n"), 2000000);
}

TEST(Run, a_reader_that_has_gone_ends_the_ranks) {
  RunSession session(shell({"-n", "2"}, "exec yes"));
  session.await_output("[0] y");
  session.stop_reading_output();
  EXPECT_EQ(session.wait(), 128 + SIGPIPE);
}

TEST(Run, standard_input_goes_to_rank_0) {
  RunSession session({"-n", "3", "--", "cat"}, {.input = "one\ntwo\n"});
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(session.output, "[0] one\n[0] two\n");
}

TEST(Run, what_a_rank_leaves_running_does_not_hold_up_the_launcher) {
  RunSession session(shell({"-n", "1", "--no-prefix"}, "sleep 1000 & echo $!"));
  EXPECT_EQ(session.wait(), 0);
  Watched left(std::stoi(session.output));
  EXPECT_TRUE(left.was_there());
  left.end();
}

TEST(Run, a_program_that_cannot_be_started_is_named_with_the_reason) {
  struct Case {
    std::string program, reason;
    int status;
  };
  for (const Case& wrong : std::initializer_list<Case>{
           {"no-such-program", "cannot start no-such-program: it is not in PATH", 127},
           {"./no-such-program", "cannot start ./no-such-program: there is no such file", 127},
           {"/etc/passwd", "cannot start /etc/passwd: it may not be executed; try: chmod +x /etc/passwd", 126},
           {"/etc", "cannot start /etc: it is a directory", 126}}) {
    RunSession session({"-n", "3", "--", wrong.program});
    EXPECT_EQ(session.wait(), wrong.status);
    EXPECT_EQ(session.error, "unisono run: " + wrong.reason + "\n");
    EXPECT_EQ(session.output, "");
  }
}

TEST(Run, a_command_line_that_makes_no_sense_is_refused) {
  struct Case {
    std::vector<std::string> words;
    std::string reason;
  };
  for (const Case& wrong : std::initializer_list<Case>{
           {{"--", "true"}, "say how many ranks to start: unisono run -n 4 -- ./program"},
           {{"-n", "0", "--", "true"}, "-n 0: there must be at least one rank"},
           {{"-n", "-2", "--", "true"}, "-n -2: there must be at least one rank"},
           {{"-n", "2"}, "say which program to run"},
           {{"-n", "2", "--"}, "say which program to run"},
           {{"-n", "2", "--nonsense", "true"}, "there is no option --nonsense"},
           {{"-n", "2", "--env", "A", "--", "true"}, "--env A: write it as NAME=VALUE"},
           {{"-n", "2", "--grace", "-1", "--", "true"}, "--grace -1: seconds cannot be negative"}}) {
    RunSession session(wrong.words);
    EXPECT_EQ(session.wait(), 2);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "unisono run: " + wrong.reason, session.error);
  }
}

TEST(Run, the_help_has_an_example) {
  RunSession session({"--help"});
  EXPECT_EQ(session.wait(), 0);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "unisono run -n 4 -- ./program", session.output);
}

}  // namespace
}  // namespace unisono::testing
