// Every setting: read from the environment, shown with its sentence, and refused by name and value when it makes no sense.
#include "unisono/settings.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <set>

namespace unisono {
namespace {

Settings read(const Environment& environment) {
  auto settings = settings_from(environment);
  EXPECT_TRUE(settings.ok()) << settings.status().text();
  return settings.ok() ? *settings : Settings{};
}

std::map<std::string, SettingText> described(const Settings& settings) {
  std::map<std::string, SettingText> texts;
  for (const SettingText& text : describe(settings)) texts[text.variable] = text;
  return texts;
}

TEST(Settings, are_the_defaults_when_nothing_is_set) {
  Settings settings = read({{"HOME", "/root"}, {"UNISONO_UNKNOWN", "1"}});
  EXPECT_EQ(settings.timeout_s, 1800);
  EXPECT_EQ(settings.join_timeout_s, 300);
  EXPECT_EQ(settings.warn_after_s, 10);
  EXPECT_EQ(settings.log, "warning");
  for (const SettingText& text : describe(settings)) EXPECT_EQ(text.value, text.default_value) << text.variable;
}

TEST(Settings, are_read_from_their_variables) {
  Settings settings = read({{"UNISONO_TIMEOUT", "2.5"}, {"UNISONO_JOIN_TIMEOUT", "7"}, {"UNISONO_WARN_AFTER", "0"},
                            {"UNISONO_PLAN", "all_reduce=ring"}, {"UNISONO_TILE", "64K"}, {"UNISONO_SPIN_US", "0"}, {"UNISONO_CORES", "3"},
                            {"UNISONO_ARENA", "2G"}, {"UNISONO_IDLE", "1e3"}, {"UNISONO_PEER_READS", "off"}, {"UNISONO_LOG", "debug"},
                            {"UNISONO_REPRODUCIBLE", "on"}, {"UNISONO_SOCKET_IFNAME", "eth,^docker"}, {"UNISONO_ADVERTISE", "10.0.0.1"},
                            {"UNISONO_PORT_RANGE", "20000-20063"},
                            {"UNISONO_FAULT", "announced:1"}, {"UNISONO_JOB", "a b"}});
  EXPECT_EQ(settings.timeout_s, 2.5);
  EXPECT_EQ(settings.join_timeout_s, 7);
  EXPECT_EQ(settings.warn_after_s, 0);
  EXPECT_EQ(settings.plan, "all_reduce=ring");
  EXPECT_EQ(settings.tile_bytes, 64 << 10);
  EXPECT_EQ(settings.spin_us, 0);
  EXPECT_EQ(settings.cores, 3);
  EXPECT_EQ(settings.arena_bytes, int64_t{2} << 30);
  EXPECT_EQ(settings.idle_s, 1000);
  EXPECT_EQ(settings.peer_reads, "off");
  EXPECT_TRUE(settings.reproducible);
  EXPECT_EQ(settings.log, "debug");
  EXPECT_EQ(settings.socket_ifname, "eth,^docker");
  EXPECT_EQ(settings.advertise, "10.0.0.1");
  EXPECT_EQ(settings.port_range, "20000-20063");
  EXPECT_EQ(settings.fault, "announced:1");
  EXPECT_EQ(settings.job, "a b");
}

TEST(Settings, that_make_no_sense_are_refused_with_variable_and_value) {
  const std::pair<std::string, std::string> wrong[] = {
      {"UNISONO_TIMEOUT", "soon"},   {"UNISONO_TIMEOUT", "-1"},    {"UNISONO_TIMEOUT", ""},      {"UNISONO_TIMEOUT", "3s"},
      {"UNISONO_TIMEOUT", "nan"}, {"UNISONO_TIMEOUT", "0"}, {"UNISONO_JOIN_TIMEOUT", "0"}, {"UNISONO_WARN_AFTER", "1,5"}, {"UNISONO_TILE", "64Q"},      {"UNISONO_TILE", "-4K"},
      {"UNISONO_CORES", "two"},      {"UNISONO_CORES", "1.5"},     {"UNISONO_CORES", "-1"},      {"UNISONO_SPIN_US", "9999999999999999999999"},
      {"UNISONO_ARENA", "1e40"},     {"UNISONO_PEER_READS", "yes"}, {"UNISONO_LOG", "WARNING"},   {"UNISONO_LOG", ""},
      {"UNISONO_REPRODUCIBLE", "yes"}, {"UNISONO_REPRODUCIBLE", ""}};
  for (const auto& [variable, value] : wrong) {
    auto settings = settings_from({{variable, value}});
    ASSERT_FALSE(settings.ok()) << variable << "=" << value;
    EXPECT_EQ(settings.status().code(), ErrorCode::init);
    EXPECT_NE(settings.status().text().find(variable + "=\"" + value + "\""), std::string::npos) << settings.status().text();
  }
}

TEST(Settings, are_described_each_once_with_a_sentence) {
  std::set<std::string> seen;
  for (const SettingText& text : describe(Settings{})) {
    EXPECT_TRUE(seen.insert(text.variable).second) << text.variable;
    EXPECT_EQ(text.variable.rfind("UNISONO_", 0), 0u) << text.variable;
    EXPECT_GT(text.sentence.size(), 10u) << text.variable;
  }
  EXPECT_GE(seen.size(), 13u);
}

// What is shown can be set again: writing every value back gives the same settings.
TEST(Settings, are_shown_in_the_form_in_which_they_are_read) {
  Settings settings = read({{"UNISONO_TIMEOUT", "2.5"}, {"UNISONO_TILE", "100"}, {"UNISONO_ARENA", "512M"}, {"UNISONO_LOG", "info"}, {"UNISONO_PLAN", "x"}});
  Environment environment;
  for (const SettingText& text : describe(settings)) environment[text.variable] = text.value;
  Settings again = read(environment);
  for (const auto& [variable, text] : described(settings)) EXPECT_EQ(described(again)[variable].value, text.value) << variable;
  EXPECT_EQ(described(settings)["UNISONO_ARENA"].value, "512M");
  EXPECT_EQ(described(settings)["UNISONO_TIMEOUT"].default_value, "1800");
}

TEST(Settings, come_from_the_environment_of_the_process) {
  ASSERT_EQ(setenv("UNISONO_TEST_ONLY", "a=b=c", 1), 0);
  Environment environment = process_environment();
  EXPECT_EQ(environment["UNISONO_TEST_ONLY"], "a=b=c");
  EXPECT_TRUE(environment.contains("PATH"));
  unsetenv("UNISONO_TEST_ONLY");
}

TEST(Settings, list_the_variables_of_the_secret_and_neither_keep_nor_show_it) {
  const std::string canary(64, 'c');
  for (const char* variable : {"UNISONO_SECRET", "UNISONO_SECRET_FILE", "UNISONO_SECRET_FD"}) {
    const Settings settings = read({{variable, canary}});
    EXPECT_TRUE(described(settings).contains(variable));
    for (const SettingText& text : describe(settings)) EXPECT_EQ(text.value, text.default_value) << text.variable;
  }
  for (const char* variable : {"UNISONO_SECRET", "UNISONO_SECRET_FD"}) {
    ASSERT_EQ(setenv(variable, canary.c_str(), 1), 0);
    EXPECT_FALSE(process_environment().contains(variable));
    unsetenv(variable);
  }
  ASSERT_EQ(setenv("UNISONO_SECRET_FILE", "/a/path", 1), 0);
  EXPECT_EQ(process_environment()["UNISONO_SECRET_FILE"], "/a/path");
  unsetenv("UNISONO_SECRET_FILE");
}

}  // namespace
}  // namespace unisono
