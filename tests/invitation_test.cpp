// What rank 0 lets the others know where a resource manager passes it on; see rendezvous/invitation.hpp.
#include "rendezvous/invitation.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace unisono {
namespace {

Status read(std::string_view text) { return Invitation::parse(text).status(); }

TEST(Invitation, is_read_as_it_was_written) {
  Invitation invitation;
  invitation.at = {*Address::parse("10.0.0.1:4000"), *Address::parse("[fd00::1]:4000")};
  for (const char* credential : {"", "MUNGE:AwQFAAC+/abc=:"}) {
    invitation.credential = credential;
    auto read = Invitation::parse(invitation.text());
    ASSERT_TRUE(read.ok()) << read.status().text();
    EXPECT_EQ(read->at, invitation.at);
    EXPECT_EQ(read->credential, credential);
    EXPECT_TRUE(read->refusal.ok());
  }
}

TEST(Invitation, brings_a_refusal_with_its_code) {
  auto read = Invitation::parse(Invitation{.refusal = {ErrorCode::auth, "there is no secret"}}.text());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->refusal.code(), ErrorCode::auth);
  EXPECT_EQ(read->refusal.message(), "there is no secret");
}

TEST(Invitation, of_another_form_is_refused_with_a_word_on_versions) {
  const std::string good = Invitation{.at = {Address::loopback(4000)}}.text();
  ASSERT_TRUE(read(good).ok());
  for (const std::string& text : std::vector<std::string>{"", good.substr(0, 10), good.substr(0, good.size() - 2) + "x", good + ",", good + " more", "unisono/2" + good.substr(9), "unisono/1 meet ",
                                  "unisono/1 meet " + std::string(3000, '1'), "unisono/1 meet \t127.0.0.1:4000", good + " munge ", good + " munge M\tM",
                                  good + " munge " + std::string(3000, 'M'), good + " munge A munge B", "unisono/1 meet  munge M", std::string("\0\0", 2)}) {
    EXPECT_EQ(read(text).code(), ErrorCode::init) << text;
    EXPECT_NE(read(text).message().find("one version of Unisono"), std::string::npos) << read(text).message();
  }
}

}  // namespace
}  // namespace unisono
