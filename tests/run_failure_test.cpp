// `unisono run` when ranks fail, when signals arrive and when the launcher itself dies.
#include <regex>

#include "tests/run_session.hpp"

namespace unisono::testing {
namespace {

// Ranks that say "ready" and then do nothing but run their traps; `leave` ends one. A shell whose foreground child is
// a sleep may miss a signal that comes just before the sleep starts; one that is in `wait` does not.
std::vector<std::string> waiting(std::vector<std::string> options, const std::string& traps) {
  return shell(std::move(options),
               "leave() { kill $sleep 2>/dev/null; exit $1; }; trap '' USR1 USR2; sleep 1000 & sleep=$!; " + traps +
                   "; echo ready; while :; do wait; done");
}

void expect_matches(const std::string& text, const std::string& pattern) {
  EXPECT_TRUE(std::regex_search(text, std::regex(pattern))) << text << "\ndoes not match\n" << pattern;
}

TEST(RunFailure, an_exit_status_is_reported_and_returned_and_the_rest_ended) {
  RunSession session(shell({"-n", "3"}, "test $RANK = 1 && { echo oh no; exit 3; }; sleep 1000"));
  EXPECT_EQ(session.wait(), 3);
  expect_matches(session.error,
                 "unisono run: rank 1 \\(pid [0-9]+\\) exited with status 3 after [0-9]+\\.[0-9] s; its last lines:\n"
                 "    oh no\n$");
}

TEST(RunFailure, a_death_by_signal_is_reported_with_its_name) {
  RunSession session(shell({"-n", "3"}, "test $RANK = 2 && { echo last words >&2; kill -9 $$; }; sleep 1000"));
  EXPECT_EQ(session.wait(), 128 + SIGKILL);
  expect_matches(session.error,
                 "unisono run: rank 2 \\(pid [0-9]+\\) was killed by signal 9 \\(SIGKILL\\) after [0-9]+\\.[0-9] s; "
                 "its last lines:\n    last words\n$");
}

TEST(RunFailure, a_rank_that_wrote_nothing_is_said_to) {
  RunSession session(shell({"-n", "1"}, "exit 9"));
  EXPECT_EQ(session.wait(), 9);
  expect_matches(session.error, "exited with status 9 after [0-9]+\\.[0-9] s; it wrote nothing\n$");
}

TEST(RunFailure, the_last_ten_lines_are_repeated_an_unfinished_one_among_them) {
  RunSession session(shell({"-n", "1"}, "seq 100 129; printf unfinished; exit 1"));
  EXPECT_EQ(session.wait(), 1);
  std::string expected;
  for (int line = 121; line <= 129; ++line) expected += "    " + std::to_string(line) + "\n";
  expect_matches(session.error, "its last lines:\n" + expected + "    unfinished\n$");
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "[0] unfinished\n", session.output);
}

TEST(RunFailure, those_that_fail_later_get_one_line) {
  RunSession session(waiting({"-n", "3"}, "trap 'test $RANK = 1 && leave 3' USR1; trap 'leave 7' TERM"));
  session.await_output("ready", 3);
  session.signal(SIGUSR1);
  EXPECT_EQ(session.wait(), 3);
  expect_matches(session.error,
                 "^unisono run: rank 1 .*\n    ready\nunisono run: then ranks 0 and 2 exited with status 7\n$");
}

TEST(RunFailure, a_rank_that_ignores_sigterm_is_killed_after_the_grace_period) {
  RunSession session(waiting({"-n", "2", "--grace", "0.2"}, "trap 'test $RANK = 1 && leave 4' USR1; trap '' TERM"));
  session.await_output("ready", 2);
  session.signal(SIGUSR1);
  EXPECT_EQ(session.wait(), 4);
  expect_matches(session.error, "unisono run: then rank 0 had to be killed, 0.2 s after SIGTERM\n$");
}

TEST(RunFailure, what_the_ranks_started_ends_with_them) {
  RunSession session(waiting({"-n", "2", "--no-prefix"}, "trap 'test $RANK = 1 && exit 5' USR1; echo $sleep"));
  session.await_output("ready", 2);
  std::vector<Watched> children;
  for (const std::string& line : lines_of(session.output))
    if (line != "ready") children.emplace_back(std::stoi(line));
  EXPECT_EQ(children.size(), 2u);
  for (const Watched& child : children) EXPECT_TRUE(child.was_there());
  session.signal(SIGUSR1);
  EXPECT_EQ(session.wait(), 5);
  for (const Watched& child : children) EXPECT_TRUE(child.ends());
}

TEST(RunFailure, what_a_rank_started_has_the_grace_period_too) {
  RunSession session(waiting({"-n", "2"},
                             "trap 'test $RANK = 1 && leave 5' USR1;"
                             "(trap '' USR1; sleep 1000 & trap 'echo tidied; exit' TERM; echo child; wait) & :"));
  session.await_output("ready", 2);
  session.await_output("child", 2);
  session.signal(SIGUSR1);
  EXPECT_EQ(session.wait(), 5);
  EXPECT_EQ(RunSession::count(session.output, "tidied"), 2) << session.output;
}

TEST(RunFailure, keep_going_leaves_the_others_running_and_returns_the_first_failure) {
  RunSession session(
      waiting({"-n", "3", "--keep-going"}, "test $RANK = 2 && leave 3; trap 'echo late; leave $RANK' USR1"));
  session.await_output("ready", 2);
  session.await_error_only("rank 2");
  session.signal(SIGUSR1);
  EXPECT_EQ(session.wait(), 3);
  EXPECT_EQ(RunSession::count(session.output, "late"), 2);
  expect_matches(session.error, "unisono run: then rank 1 exited with status 1\n$");
}

TEST(RunSignals, an_interrupt_reaches_every_rank) {
  RunSession session(waiting({"-n", "3"}, "trap 'echo interrupted; leave 0' INT"));
  session.await_output("ready", 3);
  session.signal(SIGINT);
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(RunSession::count(session.output, "interrupted"), 3);
}

TEST(RunSignals, ranks_that_a_passed_on_signal_ends_are_no_surprise) {
  for (int number : {SIGINT, SIGTERM, SIGHUP}) {
    RunSession session(shell({"-n", "3"}, "echo ready; exec sleep 1000"));
    session.await_output("ready", 3);
    session.signal(number);
    EXPECT_EQ(session.wait(), 128 + number);
    EXPECT_EQ(session.error.find("last lines"), std::string::npos) << session.error;
    EXPECT_EQ(lines_of(session.error).size(), 1u) << session.error;
  }
}

TEST(RunSignals, a_rank_that_tidies_up_after_an_interrupt_is_not_hurried_by_the_death_of_another) {
  RunSession session(waiting({"-n", "2"},
                             "test $RANK = 1 && trap 'echo tidying' INT; trap 'echo hurried' TERM;"
                             "trap 'echo tidied; leave 0' USR1"));
  session.await_output("ready", 2);
  session.signal(SIGINT);
  session.await_output("tidying");
  session.await_error_only("unisono run: rank 0");
  session.signal(SIGUSR1);
  EXPECT_EQ(session.wait(), 128 + SIGINT);
  EXPECT_EQ(RunSession::count(session.output, "tidied"), 1);
  EXPECT_EQ(RunSession::count(session.output, "hurried"), 0);
}

TEST(RunSignals, user_signals_and_quit_are_passed_on) {
  RunSession session(
      waiting({"-n", "2"}, "trap 'echo one' USR1; trap 'echo two' USR2; trap 'echo quit; leave 0' QUIT; trap '' INT"));
  session.await_output("ready", 2);
  session.signal(SIGUSR1);
  session.await_output("one", 2);
  session.signal(SIGUSR2);
  session.await_output("two", 2);
  session.signal(SIGQUIT);
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(RunSession::count(session.output, "quit"), 2);
}

TEST(RunSignals, a_second_interrupt_kills) {
  RunSession session(waiting({"-n", "2"}, "trap 'echo ignored' INT"));
  session.await_output("ready", 2);
  session.signal(SIGINT);
  session.await_output("ignored", 2);
  session.signal(SIGINT);
  EXPECT_EQ(session.wait(), 128 + SIGINT);
}

// As under nohup, or behind & in a script: the second interrupt would kill.
TEST(RunSignals, signals_that_were_ignored_from_the_start_concern_neither_the_launcher_nor_the_ranks) {
  RunSession session(waiting({"-n", "2"}, "kill -INT $$; kill -HUP $$; trap 'echo one' USR1; trap 'leave 0' USR2"),
                     {.ignored = {SIGINT, SIGHUP}});
  session.await_output("ready", 2);
  for (int turn = 1; turn <= 2; ++turn) {
    for (int number : {SIGINT, SIGHUP, SIGUSR1}) session.signal(number);
    session.await_output("one", 2 * turn);  // signals with smaller numbers were looked at before
  }
  session.signal(SIGUSR2);
  EXPECT_EQ(session.wait(), 0) << session.error;
}

TEST(RunSignals, a_launcher_that_ignores_interrupts_ends_by_sigterm) {
  RunSession session(shell({"-n", "2"}, "echo ready; exec sleep 1000"), {.ignored = {SIGINT, SIGHUP, SIGPIPE}});
  session.await_output("ready", 2);
  session.signal(SIGTERM);
  EXPECT_EQ(session.wait(), 128 + SIGTERM);
}

TEST(RunSignals, ctrl_c_in_a_terminal_reaches_every_rank_once) {
  RunSession session(waiting({"-n", "2"}, "trap 'echo interrupted' INT; trap 'leave 0' USR1"), {.terminal = true});
  session.await_output("ready", 2);
  session.type("\003");
  session.await_output("interrupted", 2);
  session.signal(SIGUSR1);
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(RunSession::count(session.output, "interrupted"), 2) << session.output;
}

TEST(RunSignals, what_is_typed_in_a_terminal_goes_to_rank_0) {
  RunSession session(shell({"-n", "2"}, "if read line; then echo rank $RANK got $line; else echo nothing; fi"),
                     {.terminal = true});
  session.await_output("[1] nothing");
  session.type("hello\n");
  EXPECT_EQ(session.wait(), 0);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "[0] rank 0 got hello", session.output);
}

TEST(RunSignals, stopping_and_continuing_takes_the_ranks_along) {
  RunSession session(waiting({"-n", "2"}, "trap 'echo continued; leave 0' CONT"));
  session.await_output("ready", 2);
  session.signal(SIGTSTP);
  siginfo_t stopped{};
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(session.pid()), &stopped, WSTOPPED), 0);
  EXPECT_EQ(stopped.si_code, CLD_STOPPED);
  session.signal(SIGCONT);
  EXPECT_EQ(session.wait(), 0);
  EXPECT_EQ(RunSession::count(session.output, "continued"), 2) << session.output;
}

TEST(RunSignals, ranks_die_with_the_launcher) {
  RunSession session(shell({"-n", "3", "--no-prefix"}, "echo $$; exec sleep 1000"));
  session.await_output("\n", 3);
  std::vector<Watched> ranks;
  for (const std::string& pid : lines_of(session.output)) ranks.emplace_back(std::stoi(pid));
  for (const Watched& rank : ranks) EXPECT_TRUE(rank.was_there());
  session.signal(SIGKILL);
  EXPECT_EQ(session.wait(), 128 + SIGKILL);
  const Deadline deadline = Deadline::in_seconds(5);
  for (const Watched& rank : ranks) {
    EXPECT_TRUE(rank.ends(deadline));
    rank.end();
  }
}

}  // namespace
}  // namespace unisono::testing
