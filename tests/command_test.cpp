// The sub-commands as a user runs them; `unisono run` has run_test.cpp to itself. Also ranks that a real mpirun started.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "unisono/settings.hpp"

namespace unisono {
namespace {

struct Outcome {
  int status = -1;
  std::string output;  // standard output and error together
  bool says(std::string_view part) const { return output.find(part) != std::string::npos; }
};

Outcome run(const std::string& line) {
  Outcome outcome;
  std::FILE* pipe = popen((line + " 2>&1 < /dev/null").c_str(), "r");
  if (!pipe) return outcome;
  char buffer[4096];
  while (size_t count = std::fread(buffer, 1, sizeof(buffer), pipe)) outcome.output.append(buffer, count);
  int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

std::string command() { return "'" + process_environment().at("UNISONO_COMMAND") + "'"; }  // for a shell
Outcome unisono(const std::string& arguments) { return run(command() + " " + arguments); }

TEST(Command, without_arguments_asks_for_one_and_lists_what_there_is) {
  Outcome outcome = unisono("");
  EXPECT_NE(outcome.status, 0);
  EXPECT_TRUE(outcome.says("subcommand is required")) << outcome.output;
  Outcome help = unisono("--help");
  EXPECT_EQ(help.status, 0);
  for (const char* name : {"run", "tour", "bench", "explain", "settings", "doctor"}) EXPECT_TRUE(help.says(name)) << name;
}

TEST(Tour, shows_what_each_dialect_does_on_every_rank) {
  Outcome outcome = unisono("tour -n 3");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  for (const char* part : {"  0     [0 1 2]          [30 33 36]                         [30 33 36]",    // all_reduce
                           "  1     [10 11 12]       [10 11 12]                         [0 0 0]",       // reduce
                           "[0 1] [10 11] [20 21]              [0 1 10 11 20 21]",                    // all_gather
                           "  2     (not looked at)  [2]                                [2]", "times a memcpy"})
    EXPECT_TRUE(outcome.says(part)) << part << "\nis not in\n" << outcome.output;
  EXPECT_FALSE(outcome.says("WRONG"));
}

constexpr const char* collective_names[] = {"all_reduce", "all_gather", "reduce_scatter", "reduce", "scatter", "gather",
                                            "broadcast",  "all_to_all", "scan",           "exscan", "barrier"};

TEST(Bench, checks_every_collective_while_timing_it) {
  for (const char* dialect : {"distributed", "comm_func"})
    for (const char* extra : {"", " --fresh"}) {
      Outcome outcome = unisono(std::string("bench all -n 3 --sizes 64,40K,300K --repeats 2 --seconds 0.002 --dialect ") + dialect + extra);
      EXPECT_EQ(outcome.status, 0) << outcome.output;
      for (const char* name : collective_names)
        EXPECT_TRUE(outcome.says(std::string("\n") + name + " ")) << name << outcome.output;
    }
}

// What the table says, and the rows as JSON.
struct Measured {
  Outcome outcome;
  std::string rows;
  bool has(std::string_view part) const { return rows.find(part) != std::string::npos; }
  size_t count(std::string_view part) const {
    size_t found = 0;
    for (size_t at = rows.find(part); at != std::string::npos; at = rows.find(part, at + 1)) ++found;
    return found;
  }
  double last(const std::string& field) const {  // a number, of the last row
    const std::string key = "\"" + field + "\": ";
    const size_t at = rows.rfind(key);
    return at == std::string::npos ? -1 : std::stod(rows.substr(at + key.size()));
  }
};

Measured bench(const std::string& arguments) {
  const std::string path = ::testing::TempDir() + "/bench_" + std::to_string(getpid()) + ".json";
  Measured measured;
  measured.outcome = run(command() + " bench " + arguments + " --repeats 1 --seconds 0.01 --json " + path);
  EXPECT_EQ(measured.outcome.status, 0) << measured.outcome.output;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  measured.rows = text.str();
  std::remove(path.c_str());
  return measured;
}

// A row a size of every collective, and one of barrier; none with a wrong element.
void expect_all_collectives(const Measured& measured, size_t sizes) {
  for (const char* name : collective_names) {
    const size_t wanted = std::string_view(name) == "barrier" ? 1 : sizes;
    EXPECT_EQ(measured.count(std::string("\"collective\": \"") + name + "\""), wanted) << name << measured.rows;
  }
  EXPECT_EQ(measured.count("\"wrong\": 0,"), 10 * sizes + 1) << measured.rows;
  EXPECT_FALSE(measured.has("\"send\"")) << "is no collective";
}

TEST(Bench, writes_its_rows_as_json) {
  Measured measured = bench("all_reduce -n 2 --sizes 64,4K");
  EXPECT_TRUE(measured.has("\"collective\": \"all_reduce\", \"ranks\": 2, \"bytes\": 64, \"count\": 16")) << measured.rows;
  for (const char* part : {"\"bytes\": 4096", "\"fresh\": false", "\"shared\": false"})
    EXPECT_EQ(measured.count(part), part[1] == 'b' ? 1u : 2u) << part << measured.rows;
  EXPECT_EQ(measured.count("\"wrong\": 0,"), 2u) << measured.rows;
}

TEST(Bench, goes_through_tcp) {
  Measured measured = bench("all -n 2 --transport tcp --sizes 64,300K");
  expect_all_collectives(measured, 2);
  EXPECT_EQ(measured.count("\"hosts\": \"2x1\""), 21u) << measured.rows;
  EXPECT_EQ(bench("all_reduce -n 4 --pretend-hosts 2,2 --sizes 64").count("\"hosts\": \"2,2\""), 1u);
  Outcome both = unisono("bench all_reduce -n 4 --transport tcp --pretend-hosts 2,2");
  EXPECT_EQ(both.status, 105) << both.output;
  EXPECT_TRUE(both.says("leave out --transport tcp")) << both.output;
  EXPECT_TRUE(unisono("bench all_reduce -n 4 --pretend-hosts 2,3").says("--pretend-hosts")) ;
}

// The bus factors of nccl-tests: three quarters of the data leave each of four ranks, twice in all_reduce.
TEST(Bench, counts_what_crosses_the_bus) {
  using Factor = std::pair<const char*, double>;
  for (auto [name, factor] : {Factor{"gather", 0.75}, {"all_to_all", 0.75}, {"all_reduce", 1.5}, {"broadcast", 1}}) {
    Measured measured = bench(std::string(name) + " -n 4 --sizes 1M");
    EXPECT_NEAR(measured.last("busbw_gbs"), factor * measured.last("algbw_gbs"), 0.002) << measured.rows;
  }
}

TEST(Bench, takes_shared_tensors) {
  for (const char* dialect : {"distributed", "comm_func"}) {
    Measured measured = bench(std::string("all -n 3 --shared --sizes 64,300K --dialect ") + dialect);
    expect_all_collectives(measured, 2);
    EXPECT_EQ(measured.count("\"shared\": true"), 21u) << measured.rows;
    EXPECT_TRUE(measured.outcome.says(std::string_view(dialect) == "comm_func" ? "hot shared inputs;" : "hot shared buffers;"))
        << measured.outcome.output;
  }
}

// Far more than an arena has by default, and than any machine: that memory is lacking is found out in an arena that has the
// room. One that the user chose stays as it is.
TEST(Bench, raises_the_arena_to_what_shared_tensors_need) {
  const std::string line = " bench all_gather -n 1 --shared --sizes 4096G --repeats 1 --seconds 0.01";
  Outcome raised = run("env -u UNISONO_ARENA " + command() + line);
  EXPECT_NE(raised.status, 0);
  EXPECT_TRUE(raised.says("a shared tensor needs 4 TiB, and only")) << raised.output;
  Outcome chosen = run("UNISONO_ARENA=32M " + command() + line);
  EXPECT_NE(chosen.status, 0);
  EXPECT_TRUE(chosen.says("raise UNISONO_ARENA")) << chosen.output;
}

TEST(Bench, sends_to_and_fro_between_pairs) {
  for (const char* extra : {"", " --shared", " --fresh", " --dialect comm_func --shared"}) {
    Measured measured = bench(std::string("send -n 4 --sizes 4,8,64,300K") + extra);
    EXPECT_EQ(measured.count("\"collective\": \"send\""), 4u) << extra << measured.rows;
    EXPECT_EQ(measured.count("\"wrong\": 0,"), 4u) << extra << measured.rows;
    EXPECT_TRUE(measured.has("\"bytes\": 307200, \"count\": 76800")) << extra << measured.rows;
    EXPECT_NEAR(measured.last("busbw_gbs"), measured.last("algbw_gbs"), 1e-9) << extra << measured.rows;
  }
  for (const char* ranks : {"1", "3"}) {
    Outcome odd = unisono(std::string("bench send -n ") + ranks);
    EXPECT_NE(odd.status, 0);
    EXPECT_TRUE(odd.says(std::string("--ranks ") + ranks + ": send goes between ranks 0 and 1, 2 and 3, and so on; give an even"))
        << odd.output;
  }
  Outcome prepared = unisono("bench send --persistent");
  EXPECT_NE(prepared.status, 0);
  EXPECT_TRUE(prepared.says("--persistent: send cannot be prepared")) << prepared.output;
}

TEST(Bench, makes_prepared_calls) {
  Measured measured = bench("all -n 3 --persistent --sizes 64,300K");
  expect_all_collectives(measured, 2);
  EXPECT_EQ(measured.count("\"persistent\": true"), 21u) << measured.rows;
  EXPECT_TRUE(measured.outcome.says("prepared calls, ")) << measured.outcome.output;
  EXPECT_TRUE(bench("barrier -n 2").has("\"persistent\": false"));
  Outcome refused = unisono("bench all --persistent --dialect comm_func");
  EXPECT_NE(refused.status, 0);
  EXPECT_TRUE(refused.says("--persistent: the comm_func dialect has no prepared calls; use --dialect distributed")) << refused.output;
}

TEST(Bench, says_what_is_wrong_with_its_arguments) {
  Outcome sizes = unisono("bench all_reduce --sizes 12,zebra");
  EXPECT_NE(sizes.status, 0);
  EXPECT_TRUE(sizes.says("--sizes 12,zebra: write it as 64,4K,1M")) << sizes.output;
  Outcome collective = unisono("bench all_reuse");
  EXPECT_NE(collective.status, 0);
  EXPECT_TRUE(collective.says("all_reuse: there are all_reduce")) << collective.output;
  Outcome file = unisono("bench barrier -n 1 --repeats 1 --seconds 0.001 --json /nonexistent/rows.json");
  EXPECT_NE(file.status, 0);
  EXPECT_TRUE(file.says("cannot write /nonexistent/rows.json")) << file.output;
}

TEST(Settings, are_all_printed_with_a_sentence) {
  Outcome outcome = run("UNISONO_SPIN_US=7 " + command() + " settings");
  EXPECT_EQ(outcome.status, 0);
  for (const SettingText& setting : describe(Settings())) EXPECT_TRUE(outcome.says(setting.variable)) << setting.variable;
  EXPECT_TRUE(outcome.says("(default 50)")) << outcome.output;
  Outcome bad = run("UNISONO_TIMEOUT=soon " + command() + " settings");
  EXPECT_NE(bad.status, 0);
  EXPECT_TRUE(bad.says("UNISONO_TIMEOUT=\"soon\" is not a number of seconds")) << bad.output;
}

TEST(ExplainCommand, gives_the_choice_and_refuses_nonsense) {
  Outcome outcome = unisono("explain all_reduce --ranks 8 --bytes 1M --cores 8");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(outcome.says("choice:     two_shot")) << outcome.output;
  EXPECT_TRUE(outcome.says("rank 7 of 8"));
  Outcome hosts = unisono("explain all_reduce 1M --hosts 2x4 --cores 8");
  EXPECT_EQ(hosts.status, 0);
  EXPECT_TRUE(hosts.says("all_reduce of 1 MiB among 8 ranks on hosts 4,4")) << hosts.output;
  EXPECT_TRUE(hosts.says("choice:     hierarchy")) << hosts.output;
  EXPECT_TRUE(unisono("explain scan --hosts 0/1/0/1").says("among 4 ranks on hosts 0/1/0/1"));
  EXPECT_TRUE(unisono("explain barrier --hosts 3,1,2 --ranks 6").says("among 6 ranks on hosts 3,1,2"));
  Outcome too_few = unisono("explain all_reduce --hosts 2x4 --ranks 6");
  EXPECT_EQ(too_few.status, 1);
  EXPECT_TRUE(too_few.says("--hosts: \"2x4\" makes 8 ranks, and there are 6")) << too_few.output;
  EXPECT_TRUE(unisono("explain all_reduce --hosts two").says("--hosts: \"two\" is not a layout of hosts"));
  EXPECT_TRUE(unisono("explain all_reduce --hosts 64x64").says("among 4096 ranks"));
  EXPECT_TRUE(unisono("explain all_reduce --ranks 20000").says("among 20000 ranks"));
  EXPECT_TRUE(unisono("explain all_reduce --ranks 40000").says("at most 32767 ranks can be"));
  EXPECT_TRUE(unisono("explain all_reduce --dtype float8_e8m0fnu").says("can be moved, not reduced"));
  for (const char* bad : {"explain nothing", "explain all_reduce --bytes many", "explain broadcast --ranks 2 --root 2"})
    EXPECT_EQ(unisono(bad).status, 1) << bad;
}

// Whoever started them, the ranks find each other. Both MPIs are tried where they are installed.
TEST(Launchers, ranks_of_a_real_mpirun_meet) {
  int tried = 0;
  for (const char* launcher : {"mpirun.openmpi --allow-run-as-root --oversubscribe", "mpirun.mpich"}) {
    std::string name(launcher, std::string_view(launcher).find(' ') == std::string_view::npos ? std::string_view(launcher).size()
                                                                                            : std::string_view(launcher).find(' '));
    if (run("command -v " + name).status != 0) continue;
    ++tried;
    Outcome outcome = run(std::string(launcher) + " -np 2 " + command() + " bench all_reduce -n 2 --sizes 64 --repeats 1 --seconds 0.001 --as-rank");
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    EXPECT_TRUE(outcome.says("\nall_reduce")) << outcome.output;
  }
  if (tried == 0) GTEST_SKIP() << "no mpirun is installed here";
}

}  // namespace
}  // namespace unisono
