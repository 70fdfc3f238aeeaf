// The bytes of docs/wire_format.md, one by one: what is written today is read by other machines, and what cannot be is refused before it is used.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/legible.hpp"
#include "engine/frames.hpp"
#include "group/notice.hpp"
#include "rendezvous/reach.hpp"
#include "rendezvous/roster.hpp"
#include "rendezvous/running_world.hpp"
#include "transport/fabric_frames.hpp"
#include "transport/greeting.hpp"
#include "transport/striped_channel.hpp"
#include "trust/identity.hpp"

namespace unisono {
namespace {

std::string hexadecimal(std::string_view bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}
template <typename Value>
std::string hexadecimal_of(const Value& value) {
  return hexadecimal({reinterpret_cast<const char*>(&value), sizeof(value)});
}
std::span<const std::byte> span_of(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

TEST(WireFormat, of_a_greeting) {
  const Greeting greeting{.protocol = 1, .library = "0.1", .key = {.token = 0x0807060504030201, .group = 0x11, .use = 2, .from = 3, .to = 4, .sealed = 1, .number = 2, .of = 3}};
  const std::string words = greeting_words(greeting);
  EXPECT_EQ(hexadecimal(words), "756e69736f6e6f0a" "08030201" "58000000" "01000000" "302e31" + std::string(50, '0') +
                                    "0102030405060708" "1100000000000000" "02000000" "03000000" "04000000" "01000000" "02000000" "03000000");
  auto read = read_greeting(span_of(words));
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_EQ(read->library, "0.1");
  EXPECT_EQ(read->key, greeting.key);
}

TEST(WireFormat, of_a_verdict) {
  EXPECT_EQ(verdict_words(Status()), std::string(256, '\0'));
  EXPECT_EQ(verdict_words({ErrorCode::version, "no"}), std::string("\x0a\0\0\0no", 6) + std::string(250, '\0'));
  EXPECT_EQ(read_verdict(span_of(verdict_words({ErrorCode::version, "no\x1b[31m"}))).message(), "no?[31m");
  const Status cut = read_verdict(span_of(verdict_words({ErrorCode::init, std::string(1000, 'x')})));
  EXPECT_EQ(cut.code(), ErrorCode::init);
  EXPECT_EQ(cut.message(), std::string(251, 'x'));
  std::string wrong = verdict_words({ErrorCode::init, "no"});
  wrong[0] = 18;
  EXPECT_EQ(read_verdict(span_of(wrong)).code(), ErrorCode::protocol) << "a code that there is not";
  wrong = verdict_words({ErrorCode::init, std::string(251, 'x')});
  wrong[255] = 'x';
  EXPECT_EQ(read_verdict(span_of(wrong)).code(), ErrorCode::protocol) << "a text that does not end";
  wrong = verdict_words(Status());
  wrong[9] = 'x';
  EXPECT_EQ(read_verdict(span_of(wrong)).code(), ErrorCode::protocol) << "a welcome with a text";
  EXPECT_EQ(read_verdict(span_of(std::string(255, '\0'))).code(), ErrorCode::protocol) << "cut off";
}

TEST(WireFormat, of_an_identity) {
  EXPECT_EQ((Identity{"0123abcd", {-2, -1}}.text()), "unisono/1 0123abcd -2 -1");
  for (const char* text : {"unisono/1 0123abcd 0 1", "unisono/1 ffffffff 1048576 0"}) EXPECT_TRUE(Identity::parse(text)) << text;
  for (const char* text : {"", "unisono/1 ", "unisono/2 0123abcd 0 1", "unisono/1 0123abcd", "unisono/1 0123abcd ", "unisono/1 0123abcd 0", "unisono/1 0123abcd 0 ",
                           "unisono/1 0123abc 0 1", "unisono/1 0123ABCD 0 1", "unisono/1 \x1b[31m123 0 1", "unisono/1 0123abcd 00 1", "unisono/1 0123abcd 0 1 ",
                           "unisono/1 0123abcd -3 1", "unisono/1 0123abcd 0 -2", "unisono/1 0123abcd 99999999999 1", "unisono/1 0123abcd 0 +1"})
    EXPECT_FALSE(Identity::parse(text)) << text;
}

TEST(WireFormat, of_a_seat) {
  const std::string version = UNISONO_VERSION " ";
  EXPECT_EQ((Seat{4, 3, 4711, 0xabc, 0xdef, "two", 2, true, 3, 2, "10.0.0.1:29500"}.text()), version + "4 3 4711 abc def two 2 1 3 2 10.0.0.1:29500");
  for (const char* text : {"4 3 4711 abc def two 2 1 3 1 10.0.0.1:29500", "1 0 1 0 0 ? 0 0 1 0 "}) EXPECT_TRUE(Seat::parse(version + text)) << text;
  for (const char* text : {"", "0 3 4711 abc def two 2 0 1 0 x", "4 -3 4711 abc def two 2 0 1 0 x", "4 3 -4711 abc def two 2 0 1 0 x", "4 3 4711 abc", "4 3 4711 abc def  2 0 1 0 x",
                           "4 3 4711 0abc def two 2 0 1 0 x", "4 3 99999999999 abc def two 2 0 1 0 x", "4 3 4711 abc def t\x1bo 2 0 1 0 x", "4 3 4711 abc def two -2 0 1 0 x",
                           "4 3 4711 abc def two 2 0 1 0 10.0.0.1\x1b[2J", "4 3 4711 abc def two 2 2 1 0 x", "4 3 4711 abc def two 2 0 1 3 x", "4 3 4711 abc def two 2 0 0 0 x", "4 3 4711 abc def two 2 x"})
    EXPECT_FALSE(Seat::parse(version + text)) << text;
  EXPECT_FALSE(Seat::parse(version + "4 3 4711 abc def two 2 0 1 0 " + std::string(1100, '1'))) << "too long";
  EXPECT_EQ(reason_to_give_up("8 rank 3\n\x1b[2J did not come").message(), "rank 3 ?[2J did not come");
  EXPECT_EQ(reason_to_give_up("18 x").code(), ErrorCode::init);
}

TEST(WireFormat, of_a_seat_whose_rank_has_ended) {
  const std::string version = UNISONO_VERSION " ";
  const Seat seat{4, 3, 4711, 0xabc, 0xdef, "two", 2, true, 3, 1, ""};
  EXPECT_EQ(seat.ended_text(), version + "ended 4 3 4711 abc def two 2 1 3 1 ");
  ASSERT_TRUE(Seat::parse_ended(seat.ended_text()));
  EXPECT_EQ(Seat::parse_ended(seat.ended_text())->text(), seat.text());
  EXPECT_EQ(Seat::version_of(seat.ended_text()), UNISONO_VERSION);
  EXPECT_FALSE(Seat::parse(seat.ended_text())) << "nobody is there";
  for (const std::string& text : {seat.text(), std::string(), std::string(" ended"), version + "ended", version + "ended ended 4 3 4711 abc def two 2 1 3 1 ", version + "ended  4 3 4711 abc def two 2 1 3 1 ",
                                  version + "ended 4 3 4711 abc def two 2 1 3 1 " + std::string(1100, '1')})
    EXPECT_FALSE(Seat::parse_ended(text)) << text;
}

TEST(WireFormat, of_a_running_world) {
  const std::string name(32, 'a'), digest(32, '7'), seat = UNISONO_VERSION " 4 0 4711 abc 0 two 0 0 1 0 10.0.0.1:29500";
  const std::string text = fmt::format("2 {} {} {}", name, digest, seat);
  ASSERT_TRUE(RunningWorld::parse(text));
  EXPECT_EQ(RunningWorld::parse(text)->job, "store " + name);
  EXPECT_EQ(RunningWorld::parse(text)->text(), text);
  for (const std::string& other : {std::string(), fmt::format("0 {} {} {}", name, digest, seat), fmt::format("02 {} {} {}", name, digest, seat), fmt::format("2  {} {}", digest, seat),
                                   fmt::format("2 {}x {} {}", name, digest, seat), fmt::format("2 {} \x1b{} {}", name, digest.substr(1), seat), fmt::format("2 {} {} {}x y", name, digest, seat),
                                   fmt::format("2 {} {} ", name, digest), fmt::format("99999999999999999999 {} {} {}", name, digest, seat), text + std::string(1100, '1')})
    EXPECT_FALSE(RunningWorld::parse(other)) << other;
}

TEST(WireFormat, of_who_reaches_whom) {
  EXPECT_TRUE(check_reach({"++", "++"}, 2).ok());
  EXPECT_TRUE(check_reach({"+-\n1 no answer", "++"}, 2).ok()) << "one direction is enough";
  EXPECT_NE(check_reach({"+-\n1 no \x1b[2J answer", "-+\n0 refused"}, 2).message().find("no ?[2J answer; refused."), std::string::npos);
  for (const std::vector<std::string>& rows : {std::vector<std::string>{}, {"++"}, {"++", "++", "++"}, {"+", "++"}, {"+?", "++"}, {"++x", "++"}, {"++", std::string(8000, '+')}})
    EXPECT_EQ(check_reach(rows, 2).message(), "the store holds something else than which machines reach which");
  EXPECT_LT(check_reach({"+-\n1 " + std::string(6000, 'x'), "-+"}, 2).message().size(), 1000u);
}

TEST(WireFormat, of_frames) {
  EXPECT_EQ(hexadecimal_of(Frame{.kind = Frame::Kind::data, .dtype = DType::float32, .tag = -1, .bytes = 8, .sequence = 5}),
            "040b0000" "ffffffff" "0800000000000000" "0500000000000000" "0000000000000000");
  EXPECT_EQ(hexadecimal_of(LinkFrame{.word = 1, .signature = 2, .tile = 3, .bytes = 4}), "0100000000000000" "0200000000000000" "03000000" "04000000");
  for (const Frame& frame : {Frame{.bytes = eager_bytes}, Frame{.kind = Frame::Kind::offer, .bytes = INT64_MAX, .address = 5},
                             Frame{.kind = Frame::Kind::data, .bytes = most_data_in_a_frame}, Frame{.kind = Frame::Kind::credit, .bytes = credit_bytes}})
    EXPECT_TRUE(can_be(frame)) << static_cast<int>(frame.kind);
  for (const Frame& frame : {Frame{.bytes = eager_bytes + 1}, Frame{.bytes = -1}, Frame{.bytes = INT64_MIN}, Frame{.unused = 1}, Frame{.address = 1},
                             Frame{.kind = static_cast<Frame::Kind>(7)}, Frame{.dtype = static_cast<DType>(20)}, Frame{.dtype = DType::float64, .bytes = 7},
                             Frame{.kind = Frame::Kind::offer, .bytes = -1}, Frame{.kind = Frame::Kind::data, .bytes = most_data_in_a_frame + 1},
                             Frame{.kind = Frame::Kind::credit, .bytes = credit_bytes + 1}})
    EXPECT_FALSE(can_be(frame)) << static_cast<int>(frame.kind) << " " << frame.bytes;
  EXPECT_TRUE(can_be(LinkFrame{.tile = 4, .bytes = most_in_a_link_frame}, 4, 5));
  EXPECT_FALSE(can_be(LinkFrame{.tile = 4, .bytes = most_in_a_link_frame + 1}, 4, 5));
  EXPECT_FALSE(can_be(LinkFrame{.tile = 5}, 4, 5));
  EXPECT_FALSE(can_be(LinkFrame{.tile = 3}, 4, 5));
  EXPECT_FALSE(can_be(LinkFrame{.tile = UINT32_MAX}, 4, 5));
}

// Which of them can be where is in fabric_stream_test.
TEST(WireFormat, of_a_frame_beside_a_fabric) {
  EXPECT_EQ(hexadecimal_of(FabricFrame{.kind = FabricFrame::Kind::hello, .bytes = 0x40, .number = 0x0807060504030201}), "01000000" "40000000" "0102030405060708");
  EXPECT_EQ(hexadecimal_of(FabricFrame{.kind = FabricFrame::Kind::ended, .bytes = 0, .number = 3}), "05000000" "00000000" "0300000000000000");
}

TEST(WireFormat, of_a_stripe) {
  EXPECT_EQ(hexadecimal_of(StripeHead{.at = 0x0807060504030201, .bytes = 0x40000}), "0102030405060708" "00000400" "00000000");
  for (const StripeHead& head : {StripeHead{.at = 0, .bytes = 1}, StripeHead{.at = 1, .bytes = 262'144}, StripeHead{.at = UINT64_MAX - 1, .bytes = 1}})
    EXPECT_TRUE(check_stripe(head).ok()) << head.at << " " << head.bytes;
  for (const StripeHead& head : {StripeHead{.at = 0, .bytes = 0}, StripeHead{.at = 0, .bytes = 262'145}, StripeHead{.at = 0, .bytes = UINT32_MAX}, StripeHead{.at = UINT64_MAX, .bytes = 1},
                                 StripeHead{.at = UINT64_MAX - 262'143, .bytes = 262'144}, StripeHead{.at = 0, .bytes = 1, .unused = 1}})
    EXPECT_EQ(check_stripe(head).code(), ErrorCode::protocol) << head.at << " " << head.bytes;
}

// Of a world of four.
Status checked(NoticeHead head, size_t body_bytes, const std::function<void(Notice&)>& change = [](Notice&) {}) {
  Notice notice;
  head.bytes = static_cast<uint32_t>(body_bytes);
  notice.head = head;
  notice.body.resize(body_bytes);
  if (head.kind == NoticeHead::Kind::announced && body_bytes >= sizeof(ToldCall)) {
    const ToldCall call;
    std::memcpy(notice.body.data(), &call, sizeof(call));
  }
  change(notice);
  return check_notice(notice, 4);
}

TEST(WireFormat, of_a_notice) {
  using Kind = NoticeHead::Kind;
  EXPECT_EQ(hexadecimal_of(NoticeHead{.kind = Kind::fault, .asks = 0, .code = 5, .rank = -1, .group = 7, .finished = 8, .bytes = 9}),
            "0200" "0500" "ffffffff" "0700000000000000" "08000000" "09000000");
  EXPECT_TRUE(checked({.kind = Kind::entry}, 48 + 16).ok());
  EXPECT_TRUE(checked({.kind = Kind::announced, .asks = 1}, 264).ok());
  EXPECT_TRUE(checked({.kind = Kind::fault, .code = 17, .rank = 3}, 4096).ok());
  EXPECT_TRUE(checked({.kind = Kind::left}, 0).ok());
  EXPECT_TRUE(checked({.kind = Kind::ended, .rank = 0}, 0).ok());
  EXPECT_TRUE(checked({.kind = Kind::lost, .rank = 3}, 5).ok());
  EXPECT_TRUE(checked({.kind = Kind::goodbye}, 5).ok());
  const struct {
    const char* name;
    Status status;
  } wrong[] = {
      {"a kind that there is not", checked({.kind = static_cast<Kind>(7)}, 0)},
      {"a fault of no code", checked({.kind = Kind::fault}, 0)},
      {"a fault of a code that there is not", checked({.kind = Kind::fault, .code = 18}, 0)},
      {"a fault of somebody beyond the world", checked({.kind = Kind::fault, .code = 1, .rank = 4}, 0)},
      {"a fault that is too long", checked({.kind = Kind::fault, .code = 1}, 4097)},
      {"a fault that asks", checked({.kind = Kind::fault, .asks = 1, .code = 1}, 0)},
      {"asking twice", checked({.kind = Kind::announced, .asks = 2}, 264)},
      {"an announcement that is cut off", checked({.kind = Kind::announced}, 263)},
      {"half a member", checked({.kind = Kind::entry}, 48 + 3)},
      {"more members than there are", checked({.kind = Kind::entry}, 48 + 20)},
      {"an entry that is cut off", checked({.kind = Kind::entry}, 47)},
      {"leaving with a text", checked({.kind = Kind::left}, 1)},
      {"the end of nobody", checked({.kind = Kind::ended}, 0)},
      {"the loss of nobody", checked({.kind = Kind::lost}, 0)},
      {"a goodbye with a code", checked({.kind = Kind::goodbye, .code = 1}, 0)},
      {"a place that is not on the board", checked({.kind = Kind::entry}, 48, [](Notice& notice) { notice.body[1] = std::byte{0x20}; })},
      {"a member that there is not", checked({.kind = Kind::entry}, 52, [](Notice& notice) { notice.body[48] = std::byte{4}; })},
      {"a dtype that there is not", checked({.kind = Kind::announced}, 264, [](Notice& notice) { notice.body[10] = std::byte{200}; })},
      {"a text that does not end", checked({.kind = Kind::announced}, 264, [](Notice& notice) { notice.body[263] = std::byte{'x'}; })},
      {"another length than it says", checked({.kind = Kind::goodbye}, 5, [](Notice& notice) { notice.head.bytes = 4; })},
  };
  for (const auto& [name, status] : wrong) {
    EXPECT_EQ(status.code(), ErrorCode::protocol) << name;
    EXPECT_FALSE(status.message().empty()) << name;
  }
  EXPECT_EQ(check_head({.kind = Kind::entry, .bytes = UINT32_MAX}).code(), ErrorCode::protocol) << "before anything is taken for it";
}

TEST(Legible, keeps_words_and_nothing_that_a_terminal_obeys) {
  for (const char* text : {"", "rank 3 (pid 4711)", "größer als π", "… 中文", "~"}) EXPECT_EQ(legible(text), text);
  EXPECT_EQ(legible("a\nb\tc\rd"), "a b c d");
  EXPECT_EQ(legible("\x1b[31m\x7f\b"), "?[31m??");
  EXPECT_EQ(legible("\xc2\x9b" "31m"), "??31m") << "a control character in two bytes";
  EXPECT_EQ(legible("\xe2\x80\xae" "x"), "???x") << "turns text round";
  EXPECT_EQ(legible("\xff\xc0\xaf\xe2\x82"), "?????") << "no UTF-8";
  EXPECT_EQ(legible("abü", 3), "ab") << "not cut within a character";
  EXPECT_EQ(legible(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(text_in(std::span<const char>("abc", 3)), "") << "no zero ends it";
}

}  // namespace
}  // namespace unisono
