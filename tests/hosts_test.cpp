// Layouts of hosts: what is read, how hosts are numbered, and what is refused.
#include "base/hosts.hpp"

#include <gtest/gtest.h>

namespace unisono {
namespace {

Hosts hosts(std::string_view text, int ranks) {
  const Result<Hosts> parsed = Hosts::parse("--hosts", text, ranks);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return parsed.ok() ? parsed.value() : Hosts();
}

TEST(HostsTest, CountsAreRanksInARow) {
  const Hosts layout = hosts("2,1,3", 6);
  EXPECT_EQ(layout.count(), 3);
  EXPECT_EQ(layout.of(1), 0);
  EXPECT_EQ(layout.of(2), 1);
  EXPECT_EQ(layout.of(5), 2);
  EXPECT_EQ(std::vector<int>(layout.ranks_on(2).begin(), layout.ranks_on(2).end()), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(layout.index_on_host(4), 1);
  EXPECT_EQ(layout.text(), "2,1,3");
  EXPECT_EQ(hosts("2x2", 4), hosts("2,2", 4));
}

TEST(HostsTest, HostsAreNumberedByTheirLowestRank) {
  const Hosts layout = hosts("7/3/7/3", 4);
  EXPECT_EQ(layout.text(), "0/1/0/1");
  EXPECT_EQ(layout, hosts("0/1/0/1", 4));
  EXPECT_TRUE(layout.share(0, 2));
  EXPECT_FALSE(layout.share(0, 1));
  EXPECT_NE(layout, hosts("2,2", 4));
}

TEST(HostsTest, AGroupMayCoverAHostInPart) {
  const Hosts layout = hosts("2,2,2", 6);
  const int some[] = {1, 2, 3};
  EXPECT_EQ(layout.among(some).text(), "1,2");
  const int mates[] = {4, 5};
  EXPECT_TRUE(layout.among(mates).one());
  EXPECT_EQ(layout.among(mates), Hosts());
}

TEST(HostsTest, OneHostIsNoLayout) {
  EXPECT_TRUE(hosts("4", 4).one());
  EXPECT_TRUE(hosts("5/5/5", 3).one());
  EXPECT_EQ(hosts("4", 4).count(), 1);
}

TEST(HostsTest, WhatDoesNotAddUpIsRefusedWithBothValues) {
  EXPECT_EQ(Hosts::parse("UNISONO_PRETEND_HOSTS", "2,3", 4).status().message(),
            "UNISONO_PRETEND_HOSTS: \"2,3\" makes 5 ranks, and there are 4");
  for (std::string_view text : {"", ",", "2,", "2,0", "0x3", "x", "2x", "-1,3", "2;2", "1/", "a", "9999999999", "65536x65536"})
    EXPECT_NE(Hosts::parse("--hosts", text, 4).status().message().find("is not a layout of hosts"), std::string::npos) << text;
}

TEST(Hosts, say_how_many_ranks_a_layout_makes) {
  for (const auto& [text, ranks] : {std::pair("2x4", 8), {"3,1,2", 6}, {"0/1/0/1", 4}, {"5", 5}}) EXPECT_EQ(Hosts::ranks_in("--hosts", text).value(), ranks);
  EXPECT_NE(Hosts::ranks_in("--hosts", "2y4").status().message().find("--hosts: \"2y4\" is not a layout of hosts"), std::string::npos);
}

}  // namespace
}  // namespace unisono
