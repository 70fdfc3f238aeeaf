// Which addresses a rank listens at and tells others of, from interfaces that are made up here.
#include "transport/interfaces.hpp"

#include <gtest/gtest.h>

#include "transport/ports.hpp"

namespace unisono {
namespace {

Address host(const std::string& text) {
  const auto address = Address::parse_host(text);
  EXPECT_TRUE(address) << text;
  return address.value_or(Address());
}

const std::vector<Interface> office = {{"lo", host("127.0.0.1")},       {"lo", host("::1")},          {"docker0", host("172.17.0.1")},
                                       {"eth1", host("10.1.0.7")},      {"eth0", host("10.0.0.7")},   {"eth0", host("fd00::7")},
                                       {"eth2", host("10.2.0.7"), false}, {"ib0", host("192.168.9.7")}};

std::string chosen(const std::string& pattern, const std::string& of_kernel = "10.0.0.7") {
  auto parsed = InterfacePattern::parse(pattern);
  EXPECT_TRUE(parsed.ok()) << parsed.status().text();
  auto addresses = choose_addresses(office, *parsed, host(of_kernel));
  if (!addresses.ok()) return addresses.status().text();
  std::string text;
  for (const Address& address : *addresses) text += (text.empty() ? "" : " ") + address.host();
  return text;
}

TEST(Addresses, begin_with_the_kernels_choice_and_leave_out_loopback_and_what_is_down) {
  EXPECT_EQ(chosen(""), "10.0.0.7 fd00::7 172.17.0.1 10.1.0.7 192.168.9.7");
  EXPECT_EQ(chosen("", "fd00::7"), "fd00::7 10.0.0.7 172.17.0.1 10.1.0.7 192.168.9.7");
}

// Of a name that stands for the loopback interface on its own machine others know an address; they are to find this rank there.
TEST(Addresses, are_those_that_others_reach_also_where_the_meeting_point_is_loopback) {
  EXPECT_EQ(chosen("", "127.0.0.1"), "172.17.0.1 10.1.0.7 10.0.0.7 192.168.9.7 fd00::7");
  EXPECT_EQ(chosen("=eth1", "::1"), "10.1.0.7");
  const std::vector<Interface> only_lo = {{"lo", host("127.0.0.1")}};
  EXPECT_EQ(choose_addresses(only_lo, {}, host("127.0.0.1"))->front().host(), "127.0.0.1");
}

TEST(Addresses, follow_the_pattern) {
  EXPECT_EQ(chosen("eth"), "10.0.0.7 fd00::7 10.1.0.7");
  EXPECT_EQ(chosen("=eth1"), "10.1.0.7");
  EXPECT_EQ(chosen("^docker"), "10.0.0.7 fd00::7 10.1.0.7 192.168.9.7");
  EXPECT_EQ(chosen("eth,ib,^=eth1"), "10.0.0.7 fd00::7 192.168.9.7");
  EXPECT_EQ(chosen("ib,docker"), "172.17.0.1 192.168.9.7");
}

TEST(Addresses, list_what_there_is_where_the_pattern_leaves_none) {
  for (const char* pattern : {"wlan", "=eth", "eth2", "lo"}) {
    const std::string text = chosen(pattern);
    for (const char* part : {"InitError", "UNISONO_SOCKET_IFNAME", pattern, "eth0 10.0.0.7", "eth0 fd00::7", "docker0 172.17.0.1", "eth2 10.2.0.7 (down)"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(Addresses, are_link_local_only_where_ranks_meet_so) {
  const std::vector<Interface> here = {{"eth0", host("fe80::7")}, {"eth0", host("10.0.0.7")}};
  EXPECT_EQ(choose_addresses(here, {}, host("10.0.0.7"))->size(), 1u);
  EXPECT_EQ(choose_addresses(here, {}, host("fe80::7"))->front().host(), "fe80::7");
}

TEST(Addresses, are_at_most_eight) {
  std::vector<Interface> many;
  for (int index = 0; index < 100; ++index) many.push_back({"eth" + std::to_string(index), host("10.0.0." + std::to_string(index))});
  auto addresses = choose_addresses(many, {}, host("10.0.0.77"));
  EXPECT_EQ(addresses->size(), most_addresses);
  EXPECT_EQ(addresses->front().host(), "10.0.0.77");
}

TEST(InterfacePattern, that_can_be_read_in_two_ways_or_in_none_is_refused) {
  for (const char* pattern : {"^docker,lo", "eth,,ib", ",", "^", "=", "eth 0", "^^docker"}) {
    auto parsed = InterfacePattern::parse(pattern);
    ASSERT_FALSE(parsed.ok()) << pattern;
    EXPECT_EQ(parsed.status().code(), ErrorCode::init);
    EXPECT_NE(parsed.status().message().find(pattern), std::string::npos) << parsed.status().text();
  }
}

TEST(Advertised, addresses_have_ports_or_none) {
  auto addresses = parse_advertised("203.0.113.7,203.0.113.8:20000,2001:db8::7,[2001:db8::8],[2001:db8::9]:20001");
  ASSERT_TRUE(addresses.ok()) << addresses.status().text();
  EXPECT_EQ(text_of(*addresses), "203.0.113.7:0,203.0.113.8:20000,[2001:db8::7]:0,[2001:db8::8]:0,[2001:db8::9]:20001");
  EXPECT_TRUE(parse_advertised("")->empty());
}

TEST(Advertised, addresses_that_make_no_sense_are_refused_with_the_reason) {
  for (const auto& [text, reason] : std::map<std::string, std::string>{{"gateway.example", "names are not looked up"},
                                                                       {"10.0.0.1:70000", "is not an address"},
                                                                       {"10.0.0.1,,10.0.0.2", "is not an address"},
                                                                       {"10.0.0", "is not an address"},
                                                                       {"0.0.0.0", "every address"},
                                                                       {"[::]:20000", "every address"},
                                                                       {"1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,1.1.1.9", "at most 8"}}) {
    auto addresses = parse_advertised(text);
    ASSERT_FALSE(addresses.ok()) << text;
    EXPECT_NE(addresses.status().message().find(reason), std::string::npos) << addresses.status().text();
    EXPECT_NE(addresses.status().message().find("UNISONO_ADVERTISE"), std::string::npos) << addresses.status().text();
  }
}

TEST(Addresses, of_a_rank_travel_as_text_and_nothing_else_is_read) {
  const std::string text = "10.0.0.1:40000,[fd00::1]:40001";
  EXPECT_EQ(text_of(*addresses_in(text)), text);
  EXPECT_TRUE(addresses_in("")->empty());
  const std::string nine = "1.1.1.1:1,1.1.1.1:2,1.1.1.1:3,1.1.1.1:4,1.1.1.1:5,1.1.1.1:6,1.1.1.1:7,1.1.1.1:8,1.1.1.1:9";
  for (const std::string& wrong : {std::string("10.0.0.1"), text + ",", "," + text, text + " ", std::string("[10.0.0.1]:4"), std::string("fd00::1:4"), nine})
    EXPECT_FALSE(addresses_in(wrong)) << wrong;
}

TEST(PortRange, is_two_ports_the_lower_first) {
  auto range = PortRange::parse("20000-20003");
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->count(), 4);
  EXPECT_EQ(range->at(5), 20001);
  EXPECT_TRUE(PortRange::parse("")->is_any());
  for (const char* text : {"20000", "20001-20000", "0-10", "1-65536", "a-b", "1-2-3", "-", " 1-2"}) {
    const auto wrong = PortRange::parse(text);
    ASSERT_FALSE(wrong.ok()) << text;
    EXPECT_NE(wrong.status().message().find(text), std::string::npos) << wrong.status().text();
  }
}

TEST(PortHolder, is_read_from_the_kernels_tables) {
  constexpr const char* four = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
                               "   0: 0100007F:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 44 1 0 100 0 0 10 0\n"
                               "   1: 00000000:4E21 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 45 1 0 100 0 0 10 0\n";
  constexpr const char* six = "  sl  local_address                         remote_address                        st\n"
                              "   0: 000000FD000000000000000001000000:4E20 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  7 0 4\n";
  EXPECT_EQ(holder_in(four, *Address::parse("127.0.0.1:20000")), 1000);
  EXPECT_EQ(holder_in(four, *Address::parse("10.0.0.1:20001")), 33) << "who listens everywhere listens here";
  EXPECT_EQ(holder_in(four, *Address::parse("10.0.0.1:20000")), std::nullopt);
  EXPECT_EQ(holder_in(six, *Address::parse("[fd00::1]:20000")), 7);
  constexpr const char* both = "   0: 00000000000000000000000000000000:4E20 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  8 0 4\n"
                               "   1: 0000000000000000FFFF00000100000A:4E21 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  9 0 4\n";
  EXPECT_EQ(holder_in(both, *Address::parse("10.0.0.1:20000")), 8) << "who listens at :: for both families";
  EXPECT_EQ(holder_in(both, *Address::parse("10.0.0.1:20001")), 9) << "at the mapped form of this one";
}

}  // namespace
}  // namespace unisono
