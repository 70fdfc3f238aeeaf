// What the two sides of a TCPStore say, as bytes: what is written is read, and lengths that cannot be are refused before anything is allocated.
#include "rendezvous/store_frames.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "base/clock.hpp"

namespace unisono {
namespace {

using distributed::StoreAnswer;
using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

std::string body_of(const std::string& frame) { return frame.substr(frame_head_bytes); }

std::string bytes_of(auto... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof(numbers)), ...);
  return bytes;
}

template <typename T>
void expect_refused(const Result<T>& result, std::string_view words) {
  EXPECT_EQ(result.status().code(), ErrorCode::protocol);
  EXPECT_NE(result.status().message().find(words), std::string::npos) << result.status().text();
}

std::string frame_of(uint32_t bytes, uint32_t kind) { return bytes_of(bytes, kind); }

TEST(StoreFrames, are_read_as_they_were_written) {
  const StoreHello hello{.rank = 7, .is_new_user = true};
  EXPECT_EQ(*read_hello(body_of(hello_frame(hello))), hello);
  const StoreWelcome welcome{.epoch = ~uint64_t{0}};
  EXPECT_EQ(*read_welcome(body_of(welcome_frame(welcome))), welcome);
  const StoreAwait await{never_ns, {"a", "", std::string("b\0c", 3)}};
  EXPECT_EQ(*read_await(body_of(*await_frame(await))), await);
  const std::vector<StoreRequest> requests = {{.kind = Kind::compare_set, .key = "k", .value = "v", .expected = std::string(300, 'e')},
                                              {.kind = Kind::add, .key = "", .amount = -5}};
  const auto read = *read_perform(body_of(*perform_frame(requests)));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].kind, Kind::compare_set);
  EXPECT_EQ(read[0].expected, requests[0].expected);
  EXPECT_EQ(read[1].amount, -5);
  const auto answers = *read_answers(body_of(*answers_frame({{true, "x", 1}, {false, "", -1}})), 2);
  EXPECT_TRUE(answers[0].found && answers[0].value == "x" && !answers[1].found && answers[1].number == -1);
  EXPECT_EQ(*read_values(body_of(*values_frame({"1", ""})), 2), (std::vector<std::string>{"1", ""}));
  EXPECT_EQ(*read_missing(body_of(missing_frame({0, 4})), 5), (std::vector<uint32_t>{0, 4}));
  const Status refusal(ErrorCode::resource, "full");
  EXPECT_EQ(read_refused(body_of(refused_frame(refusal))), refusal);
}

TEST(StoreFrames, come_in_whatever_pieces) {
  const std::string stream = *values_frame({"one"}) + missing_frame({}) + refused_frame({ErrorCode::state, "no"});
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    StoreFrameReader reader(most_frame_bytes);
    std::vector<StoreFrameKind> kinds;
    for (size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(std::as_bytes(std::span(stream)).subspan(at, std::min(piece, stream.size() - at)));
      for (auto frame = reader.next(); frame.ok() && *frame; frame = reader.next()) kinds.push_back((*frame)->kind);
    }
    EXPECT_EQ(kinds, (std::vector{StoreFrameKind::values, StoreFrameKind::missing, StoreFrameKind::refused}));
  }
}

TEST(StoreFrames, longer_than_allowed_are_refused_by_their_head) {
  auto next = [](size_t most, const std::string& bytes) {
    StoreFrameReader reader(most);
    reader.feed(std::as_bytes(std::span(bytes)));
    return reader.next();
  };
  EXPECT_TRUE(next(most_hello_bytes, frame_of(most_hello_bytes, 1)).ok());
  for (const uint32_t length : {static_cast<uint32_t>(most_hello_bytes) + 1, uint32_t{1} << 31, ~uint32_t{0}})
    expect_refused(next(most_hello_bytes, frame_of(length, 1)), "allowed here");
  expect_refused(next(most_frame_bytes, frame_of(most_frame_bytes + 1, 3)), "allowed here");
  for (const uint32_t kind : {uint32_t{0}, uint32_t{9}, ~uint32_t{0}}) expect_refused(next(most_frame_bytes, frame_of(0, kind)), "kind");
}

// Each length, as large as it goes, and where two of them together go round.
TEST(StoreFrames, lengths_inside_a_frame_are_not_believed) {
  for (const uint32_t huge : {uint32_t{1} << 31, ~uint32_t{0}, ~uint32_t{0} - 3, uint32_t{1} << 24}) {
    expect_refused(read_perform(bytes_of(huge) + std::string(100, 'x')), "more requests");
    expect_refused(read_await(bytes_of(int64_t{1}, huge) + std::string(100, 'x')), "keys");
    expect_refused(read_values(bytes_of(huge), huge), "another number");
    expect_refused(read_missing(bytes_of(huge), huge), "another number");
    expect_refused(read_answers(bytes_of(huge), huge), "another number");
    for (int field = 0; field < 3; ++field) {
      uint32_t lengths[3] = {1, 1, 1};
      lengths[field] = huge;
      expect_refused(read_perform(bytes_of(1u, 2u, lengths[0], lengths[1], lengths[2], int64_t{0}) + "abc"), "a request");
    }
    expect_refused(read_await(bytes_of(int64_t{1}, 1u, huge) + "abc"), "a key");
    expect_refused(read_values(bytes_of(1u, huge) + "abc", 1), "a value");
    expect_refused(read_answers(bytes_of(1u, 1u, huge, int64_t{0}) + "abc", 1), "an answer");
    EXPECT_EQ(read_refused(bytes_of(1u, huge) + "abc").message(), "a refusal that is none");
    expect_refused(read_welcome(bytes_of(1u, uint64_t{0}, huge) + "abc"), "a welcome");
    expect_refused(read_hello("uni-tcp\n" + bytes_of(1u, 0, 0u, huge) + "abc"), "a hello");
  }
}

// Lengths that are allowed, and more than there is.
TEST(StoreFrames, are_no_shorter_than_they_say) {
  for (const uint32_t length : {4u, 4096u}) {
    expect_refused(read_perform(bytes_of(1u, 2u, length, 0u, 0u, int64_t{0}) + "abc"), "a request");
    expect_refused(read_perform(bytes_of(1u, 2u, 0u, length, 0u, int64_t{0}) + "abc"), "a request");
    expect_refused(read_await(bytes_of(int64_t{1}, 1u, length) + "abc"), "a key");
    expect_refused(read_values(bytes_of(1u, length) + "abc", 1), "a value");
    expect_refused(read_answers(bytes_of(1u, 1u, length, int64_t{0}) + "abc", 1), "an answer");
    EXPECT_EQ(read_refused(bytes_of(1u, length) + "abc").message(), "a refusal that is none");
  }
}

TEST(StoreFrames, are_no_longer_than_they_say) {
  expect_refused(read_perform(body_of(*perform_frame({{.key = "k"}})) + "x"), "more than");
  expect_refused(read_await(body_of(*await_frame({0, {"k"}})) + "x"), "more than");
  expect_refused(read_values(body_of(*values_frame({"v"})) + "x", 1), "more than");
  expect_refused(read_answers(body_of(*answers_frame({{}})) + "x", 1), "more than");
  expect_refused(read_hello(body_of(hello_frame({})) + "x"), "too long");
  expect_refused(read_perform(body_of(*perform_frame({{.kind = static_cast<Kind>(8)}}))), "of no kind");
  expect_refused(read_await(bytes_of(int64_t{-1}, 0u)), "cannot be");
  expect_refused(read_missing(body_of(missing_frame({5})), 5), "nobody waits for");
  EXPECT_EQ(read_refused(bytes_of(0u, 0u)).code(), ErrorCode::protocol);  // a refusal that says all is well
  EXPECT_EQ(read_refused(bytes_of(99u, 0u)).code(), ErrorCode::protocol);
}

TEST(StoreFrames, of_another_protocol_may_say_more) {
  const auto hello = read_hello(body_of(hello_frame({.protocol = 2, .library = "9.9"})) + "whatever comes later");
  ASSERT_TRUE(hello.ok());
  EXPECT_EQ(hello.value().library, "9.9");
}

TEST(StoreFrames, that_would_be_too_large_are_the_callers_error) {
  EXPECT_EQ(perform_frame({{.key = std::string(most_key_bytes + 1, 'k')}}).status().code(), ErrorCode::argument);
  EXPECT_EQ(perform_frame({{.value = std::string(most_value_bytes + 1, 'v')}}).status().code(), ErrorCode::argument);
  EXPECT_EQ(perform_frame(std::vector<StoreRequest>(most_requests + 1)).status().code(), ErrorCode::argument);
  EXPECT_EQ(perform_frame(std::vector<StoreRequest>(5, {.value = std::string(most_value_bytes, 'v')})).status().code(), ErrorCode::argument);
  EXPECT_EQ(await_frame({0, std::vector<std::string>(most_requests + 1)}).status().code(), ErrorCode::argument);
  EXPECT_EQ(await_frame({0, {std::string(most_key_bytes + 1, 'k')}}).status().code(), ErrorCode::argument);
  EXPECT_EQ(values_frame(std::vector<std::string>(5, std::string(most_value_bytes, 'v'))).status().code(), ErrorCode::resource);
  EXPECT_EQ(read_refused(body_of(refused_frame({ErrorCode::state, std::string(1_MiB, 'x')}))).message().size(), 64_KiB);
}

}  // namespace
}  // namespace unisono
