// How things fail: every code has its name, its exception and what it leaves of the group.
#include "unisono/status.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/check.hpp"

namespace unisono {
namespace {

TEST(Status, is_ok_unless_it_says_why_not) {
  Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status, Status::success());
  EXPECT_EQ(status.code(), ErrorCode::ok);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.peer(), -1);
  throw_if_error(status);
}

TEST(Status, says_its_name_first) {
  EXPECT_EQ(Status(ErrorCode::mismatch, "count: 10 and 11").text(), "MismatchError: count: 10 and 11");
  EXPECT_EQ(Status(ErrorCode::timeout, "").text(), "TimeoutError");
}

TEST(Status, values_are_equal_when_they_say_the_same) {
  Status one(ErrorCode::peer_lost, "gone", 3);
  EXPECT_EQ(one, Status(ErrorCode::peer_lost, "gone", 3));
  EXPECT_FALSE(one == Status(ErrorCode::peer_lost, "gone", 2));
  EXPECT_FALSE(one == Status(ErrorCode::peer_lost, "left", 3));
  EXPECT_FALSE(one == Status(ErrorCode::timeout, "gone", 3));
  EXPECT_FALSE(one == Status());
  EXPECT_EQ(one.peer(), 3);
}

template <typename Type>
void expect_raises(ErrorCode code, const std::string& name, bool breaks) {
  EXPECT_EQ(error_name(code), name);
  EXPECT_EQ(breaks_group(code), breaks) << name;
  try {
    throw_if_error(Status(code, "why", 5));
    ADD_FAILURE() << name << " raises nothing";
  } catch (const Type& error) {
    EXPECT_EQ(error.what(), name + ": why");
    EXPECT_EQ(error.code(), code);
    EXPECT_EQ(error.peer(), 5);
  } catch (const std::exception& error) {
    ADD_FAILURE() << name << " raises another type: " << error.what();
  }
}

TEST(Status, every_code_raises_its_own_type) {
  expect_raises<ArgumentError>(ErrorCode::argument, "ArgumentError", false);
  expect_raises<ArgumentTypeError>(ErrorCode::argument_type, "ArgumentTypeError", false);
  expect_raises<PeerArgumentError>(ErrorCode::peer_argument, "PeerArgumentError", false);
  expect_raises<MismatchError>(ErrorCode::mismatch, "MismatchError", false);
  expect_raises<PeerLostError>(ErrorCode::peer_lost, "PeerLostError", true);
  expect_raises<TimeoutError>(ErrorCode::timeout, "TimeoutError", true);
  expect_raises<RevokedError>(ErrorCode::revoked, "RevokedError", true);
  expect_raises<InitError>(ErrorCode::init, "InitError", true);
  expect_raises<AuthError>(ErrorCode::auth, "AuthError", true);
  expect_raises<VersionError>(ErrorCode::version, "VersionError", true);
  expect_raises<ResourceError>(ErrorCode::resource, "ResourceError", true);
  expect_raises<MemoryError>(ErrorCode::memory, "MemoryError", true);
  expect_raises<ProtocolError>(ErrorCode::protocol, "ProtocolError", true);
  expect_raises<CorruptionError>(ErrorCode::corruption, "CorruptionError", true);
  expect_raises<StateError>(ErrorCode::state, "StateError", false);
  expect_raises<StoreLostError>(ErrorCode::store_lost, "StoreLostError", false);
  expect_raises<InternalError>(ErrorCode::internal, "InternalError", true);
}

TEST(Status, every_code_has_a_name_of_its_own) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(ErrorCode::internal); ++code)
    EXPECT_TRUE(names.insert(error_name(static_cast<ErrorCode>(code))).second) << code;
}

TEST(Status, a_lack_of_memory_is_a_lack_of_a_resource) {
  EXPECT_THROW(throw_if_error(Status(ErrorCode::memory, "full")), ResourceError);
  EXPECT_THROW(throw_if_error(Status(ErrorCode::memory, "full")), Error);
}

TEST(Result, holds_a_value_or_why_there_is_none) {
  Result<std::unique_ptr<int>> good = std::make_unique<int>(7);
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(good.status().ok());
  EXPECT_EQ(**good, 7);
  std::unique_ptr<int> moved = std::move(*good);
  EXPECT_EQ(*moved, 7);
  Result<std::unique_ptr<int>> bad = Status(ErrorCode::init, "no");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().text(), "InitError: no");
}

Status fail_at(int step, int& reached) {
  for (int index = 0; index < 3; ++index) {
    RETURN_IF_ERROR(index == step ? Status(ErrorCode::argument, "here") : Status::success());
    reached = index;
  }
  return Status::success();
}

TEST(ReturnIfError, passes_up_what_is_not_ok_and_goes_on_otherwise) {
  int reached = -1;
  EXPECT_EQ(fail_at(1, reached).message(), "here");
  EXPECT_EQ(reached, 0);
  EXPECT_TRUE(fail_at(9, reached).ok());
  EXPECT_EQ(reached, 2);
}

TEST(Check, reports_the_condition_and_the_place) {
  CHECK(1 + 1 == 2);
  try {
    CHECK(1 + 1 == 3);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("status_test.cpp:"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace unisono
