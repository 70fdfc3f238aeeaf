// `unisono secret` as a user runs it, and how `unisono run` hands a secret on. Neither what they print nor what the kernel shows of
// them has the secret in it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/support/file_tree.hpp"
#include "tests/support/secrets.hpp"
#include "unisono/settings.hpp"

namespace unisono::testing {
namespace {

struct Outcome {
  int status = -1;
  std::string output;  // standard output and error together
  bool says(std::string_view part) const { return output.find(part) != std::string::npos; }
};

// The command with a home of its own; `line` may set variables before UNISONO.
class SecretCommand : public ::testing::Test {
 protected:
  Outcome run(const std::string& line) const {
    Outcome outcome;
    const std::string whole = fmt::format("export HOME={} UNISONO={}; unset XDG_CONFIG_HOME UNISONO_SECRET UNISONO_SECRET_FILE "
                                          "UNISONO_SECRET_FD; {{ {}; }} 2>&1 < /dev/null",
                                          home_.root(), process_environment().at("UNISONO_COMMAND"), line);
    std::FILE* pipe = popen(whole.c_str(), "r");
    if (!pipe) return outcome;
    char buffer[4096];
    while (size_t count = std::fread(buffer, 1, sizeof(buffer), pipe)) outcome.output.append(buffer, count);
    const int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    EXPECT_FALSE(outcome.says(canary.substr(0, 8))) << "it shows the secret: " << outcome.output;
    return outcome;
  }
  std::string own() const { return home_.root() + ".config/unisono/secret"; }

  FileTree home_{{}};
};

TEST_F(SecretCommand, new_makes_a_file_and_check_finds_it) {
  const Outcome none = run("$UNISONO secret check");
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(none.says("there is no job secret") && none.says("make one with: unisono secret new")) << none.output;
  const Outcome made = run("$UNISONO secret new");
  EXPECT_EQ(made.status, 0) << made.output;
  EXPECT_TRUE(made.says("made " + own())) << made.output;
  const Outcome again = run("$UNISONO secret new");
  EXPECT_EQ(again.status, 0) << again.output;
  EXPECT_TRUE(again.says("is there already and stays as it is")) << again.output;
  const Outcome check = run("$UNISONO secret check");
  EXPECT_EQ(check.status, 0) << check.output;
  EXPECT_TRUE(check.says("comes from " + own() + "; it can be read")) << check.output;
}

TEST_F(SecretCommand, new_takes_a_path_and_says_how_ranks_find_it) {
  const Outcome made = run("cd $HOME && $UNISONO secret new --file shared/secret");
  EXPECT_EQ(made.status, 0) << made.output;
  const std::string path = std::filesystem::path(home_.root()) / "shared/secret";
  EXPECT_TRUE(made.says("export UNISONO_SECRET_FILE=" + path)) << made.output;
  EXPECT_EQ(run("UNISONO_SECRET_FILE=" + path + " $UNISONO secret check").status, 0);
  const Outcome cannot = run("$UNISONO secret new --file /proc/none/secret");
  EXPECT_EQ(cannot.status, 1);
  EXPECT_TRUE(cannot.says("unisono secret new: InitError: /proc/none/secret: cannot make")) << cannot.output;
}

TEST_F(SecretCommand, check_names_the_source_and_what_is_wrong_with_it) {
  put_secret(home_.root() + "open", canary, 0644);
  const Outcome open = run("UNISONO_SECRET_FILE=$HOME/open $UNISONO secret check");
  EXPECT_EQ(open.status, 1);
  EXPECT_TRUE(open.says("chmod 600") && open.says("(UNISONO_SECRET_FILE)")) << open.output;
  EXPECT_TRUE(run("UNISONO_SECRET=" + canary + " $UNISONO secret check").says("comes from UNISONO_SECRET;"));
  EXPECT_TRUE(run("UNISONO_SECRET_FD=7 $UNISONO secret check 7< $HOME/open").says("comes from descriptor 7 (UNISONO_SECRET_FD);"));
  EXPECT_EQ(run("UNISONO_SECRET=" + canary + "0 $UNISONO secret check").status, 1);
}

TEST_F(SecretCommand, has_help_and_wants_a_verb) {
  EXPECT_NE(run("$UNISONO secret").status, 0);
  const Outcome help = run("$UNISONO secret check --help; $UNISONO secret new --help");
  for (const char* part : {"UNISONO_SECRET_FD", "Exit status", "--file"}) EXPECT_TRUE(help.says(part)) << part << help.output;
  EXPECT_TRUE(run("$UNISONO --help").says("secret"));
}

TEST_F(SecretCommand, settings_list_the_variables_and_not_the_secret) {
  const Outcome settings = run("UNISONO_SECRET=" + canary + " UNISONO_SECRET_FILE=" + canary + " UNISONO_SECRET_FD=" + canary + " $UNISONO settings");
  EXPECT_EQ(settings.status, 0) << settings.output;
  for (const char* variable : {"UNISONO_SECRET_FD ", "UNISONO_SECRET_FILE ", "UNISONO_SECRET "}) EXPECT_TRUE(settings.says(variable)) << settings.output;
}

TEST_F(SecretCommand, run_hands_the_secret_to_every_rank_by_a_descriptor) {
  const Outcome by_variable = run("UNISONO_SECRET=" + canary + " $UNISONO run -n 3 $UNISONO secret check");
  EXPECT_EQ(by_variable.status, 0) << by_variable.output;
  for (const char* rank : {"[0] the job", "[1] the job", "[2] the job"}) EXPECT_TRUE(by_variable.says(rank)) << by_variable.output;
  EXPECT_TRUE(by_variable.says("(UNISONO_SECRET_FD); it can be read")) << by_variable.output;
  put_secret(home_.root() + "file", canary);
  const Outcome by_pipe = run("cat $HOME/file | UNISONO_SECRET_FD=7 $UNISONO run -n 3 $UNISONO secret check 7<&0");
  EXPECT_EQ(by_pipe.status, 0) << by_pipe.output;
  const Outcome by_descriptor = run("UNISONO_SECRET_FD=7 $UNISONO run -n 3 $UNISONO secret check 7< $HOME/file");
  EXPECT_EQ(by_descriptor.status, 0) << by_descriptor.output;
  const Outcome by_file = run("UNISONO_SECRET=" + digits('3') + " UNISONO_SECRET_FILE=$HOME/file $UNISONO run -n 2 $UNISONO secret check");
  EXPECT_TRUE(by_file.says("file (UNISONO_SECRET_FILE); it can be read")) << by_file.output;
  const Outcome bad = run("UNISONO_SECRET=" + canary + "0 $UNISONO run -n 2 true");
  EXPECT_EQ(bad.status, 1);
  EXPECT_TRUE(bad.says("unisono run: UNISONO_SECRET has 65 characters")) << bad.output;
}

// run() looks for the canary in all of this.
TEST_F(SecretCommand, run_shows_the_secret_in_no_environment_and_on_no_command_line) {
  const Outcome shown = run("UNISONO_SECRET=" + canary + " $UNISONO run -n 2 sh -c 'cat /proc/$PPID/environ /proc/$PPID/cmdline /proc/self/environ; env; echo done'");
  EXPECT_EQ(shown.status, 0) << shown.output;
  EXPECT_TRUE(shown.says("[1] done") || shown.says("\n[1]")) << shown.output;
  EXPECT_TRUE(shown.says("UNISONO_SECRET_FD=")) << shown.output;
}

}  // namespace
}  // namespace unisono::testing
