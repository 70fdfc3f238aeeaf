// Without a secret, a store on the loopback interface is for one user: the kernel says whose the other end of a connection is.
#include "trust/peer_user.hpp"

#include <grp.h>
#include <unistd.h>

#include "tests/support/children.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/raw_store_client.hpp"

namespace unisono::testing {
namespace {

constexpr uid_t nobody = 65534;

void become_nobody() {
  ASSERT_EQ(setgroups(0, nullptr), 0);
  ASSERT_EQ(setgid(nobody), 0);
  ASSERT_EQ(setuid(nobody), 0);
}

TEST(PeerUser, is_ours_at_both_ends) {
  for (const int family : {AF_INET, AF_INET6}) {
    sockaddr_in6 address = {};
    socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    address.sin6_family = static_cast<sa_family_t>(family);
    if (family == AF_INET6) address.sin6_addr = in6addr_loopback;
    if (family == AF_INET) reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const Descriptor listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)), one(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(listener.number(), reinterpret_cast<sockaddr*>(&address), bytes) != 0) continue;  // a machine without IPv6
    ASSERT_EQ(listen(listener.number(), 1), 0);
    ASSERT_EQ(getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    ASSERT_EQ(connect(one.number(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    const Descriptor other = accepted_by(listener);
    EXPECT_EQ(user_at_other_end(one.number()), geteuid());
    EXPECT_EQ(user_at_other_end(other.number()), geteuid());
    EXPECT_TRUE(is_of_this_user(one.number()) && is_of_this_user(other.number()));
  }
  EXPECT_FALSE(user_at_other_end(STDIN_FILENO));
}

// Of a socket that was closed the kernel says that it is root's: whoever sends and closes at once would pass for root.
TEST(PeerUser, is_not_known_of_an_end_that_was_closed) {
  for (const bool other_closes_too : {false, true}) {
    const Descriptor listener = listening();
    Descriptor one = connected_to(Address::of_socket(listener.number()).port());
    const Descriptor other = accepted_by(listener);
    ASSERT_TRUE(is_of_this_user(other.number()));
    one.reset();
    if (other_closes_too) { ASSERT_EQ(shutdown(other.number(), SHUT_WR), 0); }  // then what is left of the first waits out its time
    EXPECT_TRUE(await([&] { return !user_at_other_end(other.number()); }));
    EXPECT_FALSE(is_of_this_user(other.number()));
  }
}

// The store is nobody's, and so may root use it, and this machine's other users not; nor does a user believe the store of another.
TEST(PeerUser, of_another_user_is_refused_by_a_store_without_a_secret) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be several users";
  if (under_thread_sanitizer()) GTEST_SKIP() << "starts processes";
  constexpr uid_t daemon = 1;
  SharedArray<std::atomic<int>> ports(1), over(1);
  Outcomes outcomes(3);
  Children children(3, [&](int number) {
    for (const char* variable : {"UNISONO_SECRET", "UNISONO_SECRET_FILE", "UNISONO_SECRET_FD", "XDG_CONFIG_HOME"}) unsetenv(variable);
    setenv("HOME", "/nonexistent", 1);
    if (number == 0) {
      become_nobody();
      const TCPStore store("127.0.0.1", 0, {.is_master = true});
      ports[0] = store.port();
      EXPECT_TRUE(await([&] { return over[0] == 2; }));
      return;
    }
    ASSERT_EQ(setgid(number == 1 ? nobody : daemon), 0);
    ASSERT_EQ(setuid(number == 1 ? nobody : daemon), 0);
    EXPECT_TRUE(await([&] { return ports[0] != 0; }));
    outcomes.note(number, [&] { TCPStore("127.0.0.1", ports[0], {.timeout_s = 3}).set("a", "1"); });
    over[0] += 1;
  });
  expect_all_succeeded(children.wait());
  EXPECT_EQ(outcomes.of(1).code, ErrorCode::ok) << outcomes.of(1).text();
  EXPECT_EQ(outcomes.of(2).code, ErrorCode::auth) << outcomes.of(2).text();
  EXPECT_NE(outcomes.of(2).text().find("another user of this machine"), std::string::npos) << outcomes.of(2).text();
}

}  // namespace
}  // namespace unisono::testing
