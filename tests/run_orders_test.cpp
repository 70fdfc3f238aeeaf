// What travels between the launchers of a job on several hosts, and how the hosts are named: functions of bytes and of text.
#include "tools/run/orders.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tools/run/host_list.hpp"

namespace unisono::tools {
namespace {

Sheet some_sheet() {
  return {.job = "17-ab", .host = "ada@two", .folder = "/home/ada", .secret = std::string(64, 'a'), .address = "10.0.0.1", .port = 21000, .first_rank = 2, .ranks = 2, .size = 4,
          .keep_going = true, .prefix = false, .grace_s = 1.5, .environment = {{"EMPTY", ""}, {"TWO", "lines\nof = text"}}, .settings = {"A=b c"}, .command = {"./program", "", "a b", "--x=y"}};
}

TEST(Sheet, is_read_as_it_was_written) {
  const Sheet sheet = some_sheet();
  auto read = Sheet::parse(sheet.text());
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->text(), sheet.text());
  EXPECT_EQ(read->environment, sheet.environment);
  EXPECT_EQ(read->command, sheet.command);
  EXPECT_EQ(read->settings, sheet.settings);
  EXPECT_EQ(read->first_rank, 2);
  EXPECT_TRUE(read->keep_going);
  EXPECT_FALSE(read->prefix);
  EXPECT_EQ(read->grace_s, 1.5);
}

TEST(Sheet, of_another_form_is_refused_with_a_word_on_versions) {
  const std::string good = some_sheet().text();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text : {std::string(), good.substr(0, good.size() - 1), good + "more", with("first=2", "first=3"), with("ranks=2", "ranks=0"), with("size=4", "size=x"),
                                  with("port=21000", "port=70000"), with("first=2", "first=-1"), with("job=", "tomorrow="), with("EMPTY=", "=")}) {
    auto read = Sheet::parse(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.status().message().find("versions"), std::string::npos);
  }
}

TEST(OrderReader, takes_orders_in_pieces_of_any_size) {
  const std::vector<Order> orders = {{OrderKind::sheet, some_sheet().text()}, {OrderKind::input, std::string(1000, '\0')}, {OrderKind::signal, "\x0f"}, {OrderKind::end_of_input, ""}, {OrderKind::end, ""}};
  std::string bytes;
  for (const Order& order : orders) bytes += bytes_of(order);
  for (const size_t piece : {size_t{1}, size_t{3}, size_t{700}, bytes.size()}) {
    OrderReader reader;
    std::vector<Order> read;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::string_view(bytes).substr(at, piece));
      while (auto order = reader.next()) read.push_back(*order);
    }
    ASSERT_EQ(read.size(), orders.size());
    for (size_t index = 0; index < orders.size(); ++index) {
      EXPECT_EQ(read[index].kind, orders[index].kind);
      EXPECT_EQ(read[index].text, orders[index].text);
    }
  }
}

TEST(OrderReader, gives_up_at_what_is_no_order) {
  for (const std::string& bytes : {std::string("X\0\0\0\0", 5), std::string("I\xff\xff\xff\xff", 5)}) {
    OrderReader reader;
    reader.add(bytes + bytes_of({OrderKind::end, ""}));
    EXPECT_FALSE(reader.next());
    EXPECT_TRUE(reader.is_lost());
    EXPECT_FALSE(reader.next());
  }
}

TEST(OrderReader, and_sheets_survive_any_bytes) {
  std::mt19937 random(1);
  const std::string good = bytes_of({OrderKind::sheet, some_sheet().text()});
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good.substr(0, random() % good.size());
    for (int change = 0; change < 3 && !bytes.empty(); ++change) bytes[random() % bytes.size()] = static_cast<char>(random());
    OrderReader reader;
    reader.add(bytes);
    static_cast<void>(reader.next());
    static_cast<void>(Sheet::parse(bytes).ok());
    static_cast<void>(Answer::parse(bytes));
  }
}

TEST(Answer, is_a_line_among_those_of_ranks) {
  for (const Answer& answer : {Answer{.version = "0.1.0", .address = "fd00::1", .port = 21000}, Answer{.kind = Answer::Kind::taken, .taken_bytes = 1 << 20},
                               Answer{.kind = Answer::Kind::failed, .rank = 3, .status = 137}}) {
    const auto read = Answer::parse(answer.line());
    ASSERT_TRUE(read) << answer.line();
    EXPECT_EQ(read->line(), answer.line());
  }
  for (const std::string& line : {std::string(), std::string("[0] ready 1 2 3"), std::string("\1unisono/1 ready"), std::string("\1unisono/1 taken x"), std::string("\1unisono/1 failed 1 2 3"), std::string("\1unisono/1 taken -1"), std::string("\1unisono/1 failed -1 0"),
                                  std::string("\1unisono/2 taken 1")})
    EXPECT_FALSE(Answer::parse(line)) << line;
}

std::string shown(const Result<std::vector<HostShare>>& hosts) {
  if (!hosts.ok()) return hosts.status().message();
  std::string text;
  for (const HostShare& host : hosts.value()) text += host.name + " " + std::to_string(host.ranks) + ";";
  return text;
}

TEST(HostList, hosts_are_named_as_for_ssh) {
  EXPECT_EQ(shown(parse_hosts("one:4,two:2")), "one 4;two 2;");
  EXPECT_EQ(shown(parse_hosts("one")), "one 1;");
  EXPECT_EQ(shown(parse_hosts("ada@10.0.0.1:3,[fd00::1]:2,fd00::2,ada@[fd00::3]:4")), "ada@10.0.0.1 3;fd00::1 2;fd00::2 1;ada@fd00::3 4;");
}

TEST(HostList, what_is_wrong_is_shown) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{{"", "names no host"}, {"one,", "names no host"}, {"-oProxyCommand=x", "names no host"}, {"one two", "names no host"},
                                                                                   {"one:0", "at least one"}, {"one:-1", "at least one"}, {"one:x", "at least one"}, {"one:99999999999", "at least one"},
                                                                                   {"one:1,one:2", "there twice"}, {"one:1,ada@ONE:2", "there twice"}, {":4", "names no host"}, {"$(id):1", "names no host"}, {"a:1000000,b:1000000", "more than"}})
    EXPECT_NE(shown(parse_hosts(text)).find(words), std::string::npos) << text << ": " << shown(parse_hosts(text));
}

TEST(HostList, a_file_has_a_host_a_line) {
  EXPECT_EQ(shown(parse_hostfile("# all\none slots=4\n\n  two:2 # x\nthree 3\nfour\n", "hosts")), "one 4;two 2;three 3;four 1;");
  EXPECT_NE(shown(parse_hostfile("one slots=4 max-slots=8\n", "hosts")).find("hosts, line 1"), std::string::npos);
  EXPECT_NE(shown(parse_hostfile("one\ntwo slots=0\n", "hosts")).find("hosts, line 2"), std::string::npos);
  EXPECT_NE(shown(parse_hostfile("# nobody\n", "hosts")).find("names no host"), std::string::npos);
  EXPECT_NE(shown(read_hostfile("/nonexistent")).find("No such file"), std::string::npos);
}

}  // namespace
}  // namespace unisono::tools
