// Attacks on the connections between ranks, on real sockets: by somebody without the secret who sees and changes every byte, by members of another
// job or run, and by somebody who has the secret and speaks nonsense. Each is refused in words, and nobody else notices. The store's side of it:
// tcp_strangers_test.cpp; TLS alone: tls_test.cpp; bytes at random: torture_wire_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/legible.hpp"
#include "tests/support/children.hpp"
#include "tests/support/meddler.hpp"
#include "tests/support/trusted_rank.hpp"

namespace unisono::testing {
namespace {

SocketKey key_to(Rank& to, int from, int rank) { return {to.token(), group, 0, from, rank}; }

// What a stream hears in the end that goes to `there` by way of `via`.
Status outcome_by(Rank& from, int rank, const SocketKey& key, const Address& via) {
  SocketStream stream(from.sockets(), {key, {from.token(), group, 0, key.to, rank}, {{via}}});
  const std::byte byte{};
  const Deadline deadline = Deadline::in_seconds(patience_s);
  while (stream.state().ok() && !deadline.passed())
    if (stream.write({&byte, 1}, {}) > 0) return Status::success();
  return stream.state();
}

void expect_says(const std::string& text, std::initializer_list<std::string> words) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text << "\nshould say " << word;
  EXPECT_TRUE(is_legible(text.substr(0, text.find('\n')))) << text;
}

void expect_logs(Rank& rank, const std::string& words) {
  EXPECT_TRUE(await([&] { return rank.log().find(words) != std::string::npos; })) << rank.log() << "\nshould say " << words;
}

void expect_works(Rank& zero, Rank& one) {
  SocketStream there = stream_between(one, 1, zero, 0), back = stream_between(zero, 0, one, 1);
  expect_bytes_pass(there, back, 1000);
}

TEST(Attacks, of_another_secret_are_told_this_jobs_id) {
  Rank zero(0, 'a'), other(1, 'b');
  const Status status = outcome_by(other, 1, key_to(zero, 1, 0), zero.sockets().address());
  EXPECT_EQ(status.code(), ErrorCode::auth) << status.text();
  expect_says(status.message(), {"secret does not match", rank_trust('b')->id()});
  expect_logs(zero, "its secret does not match this job's");
  EXPECT_EQ(std::ranges::count(zero.log(), '\n'), 1) << zero.log();
}

TEST(Attacks, of_another_job_with_the_same_secret_are_logged_with_both_ids) {
  Rank zero(0, 'a'), other(1, 'a', false, 5, "another job");
  const Status status = outcome_by(other, 1, key_to(zero, 1, 0), zero.sockets().address());
  EXPECT_EQ(status.code(), ErrorCode::auth) << status.text();
  expect_says(status.message(), {"another job", rank_trust('a', "another job")->job_id()});
  expect_logs(zero, fmt::format("its job's id is {}, and this job's is {}", rank_trust('a', "another job")->job_id(), rank_trust('a')->job_id()));
}

// A member of a run that is over: the process that it knew had another token.
TEST(Attacks, of_an_old_run_are_told_that_it_is_over) {
  Rank zero(0), one(1);
  SocketKey stale = key_to(zero, 1, 0);
  stale.token ^= 1;
  const Status status = outcome_by(one, 1, stale, zero.sockets().address());
  EXPECT_EQ(status.code(), ErrorCode::init) << status.text();
  expect_says(status.message(), {"rank 1", "a run of this job that is over", "rank 0"});
  expect_logs(zero, "a run of this job that is over");
  expect_works(zero, one);
}

TEST(Attacks, by_replay_of_a_good_opening_are_refused) {
  Rank zero(0), one(1);
  std::string recorded;
  {
    Meddler ear(zero.sockets().address());
    SocketKey other_use = key_to(zero, 1, 0);
    other_use.use = 1;
    ASSERT_TRUE(outcome_by(one, 1, other_use, ear.address()).ok());
    EXPECT_TRUE(await([&] { return ear.passed_back() > int64_t{100}; }));
    recorded = ear.heard();
  }
  ASSERT_GT(recorded.size(), 300u);
  EXPECT_EQ(zero.log(), "");
  const Descriptor again = connected_to(zero.sockets().address());
  send_all(again, recorded);
  EXPECT_TRUE(await([&] { return !zero.log().empty(); })) << "it is refused";
  EXPECT_NE(zero.log().find("a recording"), std::string::npos) << zero.log();
  char answered[4096];
  size_t heard = 0;
  for (ssize_t count; (count = recv(again.number(), answered, sizeof(answered), 0)) > 0;) heard += static_cast<size_t>(count);
  EXPECT_LT(heard, 100u) << "an alert: who only repeats takes no place among those whose hands are being shaken";
  expect_works(zero, one);
}

// What rank 0 says to rank 1 comes back to rank 0's own listener.
TEST(Attacks, by_reflection_are_refused) {
  Rank zero(0), one(1);
  Meddler mirror(zero.sockets().address());
  const Status status = outcome_by(zero, 0, key_to(one, 0, 1), mirror.address());
  EXPECT_EQ(status.code(), ErrorCode::auth) << status.text();
  expect_says(status.message(), {"another rank of this one"});
  expect_logs(zero, "it looks for rank 1, and this is rank 0");
}

TEST(Attacks, by_redirection_to_another_rank_are_refused) {
  Rank zero(0), one(1), two(2);
  Meddler switchboard(two.sockets().address());
  const Status status = outcome_by(one, 1, key_to(zero, 1, 0), switchboard.address());
  EXPECT_EQ(status.code(), ErrorCode::auth) << status.text();
  expect_logs(two, "it looks for rank 0, and this is rank 2");
}

TEST(Attacks, by_somebody_who_only_answers_are_seen_through) {
  Rank one(1);
  for (const std::string& banner : {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("\x15\x03\x03\x00\x02\x02\x46", 7), std::string(200, '\x16')}) {
    const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Address any = Address::loopback(0);
    ASSERT_EQ(bind(listener.number(), any.get(), any.bytes()), 0);
    ASSERT_EQ(listen(listener.number(), 1), 0);
    std::thread fake([&] {
      const Descriptor visitor(accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC));
      send_all(visitor, banner);
      char rest[4096];
      while (recv(visitor.number(), rest, sizeof(rest), 0) > 0) continue;
    });
    const Status status = outcome_by(one, 1, {7, group, 0, 1, 0}, Address::of_socket(listener.number()));
    EXPECT_EQ(status.code(), ErrorCode::auth) << status.text();
    expect_says(status.message(), {"did not prove", rank_trust('a')->job_id()});
    fake.join();
  }
}

// Every byte that is said until a connection is open is sealed or part of the handshake: with any of them changed it does not open, or what was changed
// comes after it. That is also what a stripped `sealed` would be.
TEST(Attacks, that_change_a_byte_of_an_opening_are_found_out) {
  Rank zero(0), one(1);
  int64_t said = 0;
  {
    Meddler ear(zero.sockets().address());
    SocketKey sealed = key_to(zero, 1, 0);
    sealed.sealed = 1;
    ASSERT_TRUE(outcome_by(one, 1, sealed, ear.address()).ok());
    EXPECT_TRUE(await([&] { return ear.heard().size() > 400; }));
    said = static_cast<int64_t>(ear.heard().size()) - 30;  // the record of the byte of data
  }
  const int64_t step = small_run() ? 41 : 7;
  for (int64_t at = 3; at < said; at += step) {
    SCOPED_TRACE(at);
    Meddler flips(zero.sockets().address(), {.flips_at = at});
    SocketKey sealed = key_to(zero, 1, 0);
    sealed.sealed = 1;
    SocketStream stream(one.sockets(), {sealed, {one.token(), group, 0, 0, 1}, {{flips.address()}}});
    const std::byte byte{};
    const Deadline deadline = Deadline::in_seconds(0.5);  // a changed length makes the other side wait for more
    bool went = false;
    while (!went && stream.state().ok() && !deadline.passed()) went = stream.write({&byte, 1}, {}) > 0;
    EXPECT_FALSE(went) << "it is open";
  }
}

// A record in the middle of what stays in TLS.
TEST(Attacks, that_change_a_byte_of_a_control_frame_end_that_connection) {
  Rank zero(0, 'a', true), one(1, 'a', true);
  for (const int64_t at : {1000, 1001, 2500, 5000}) {
    SCOPED_TRACE(at);
    Meddler flips(zero.sockets().address(), {.flips_at = at});
    SocketStream there(one.sockets(), {key_to(zero, 1, 0), {one.token(), group, 0, 0, 1}, {{flips.address()}}});
    SocketStream back = stream_between(zero, 0, one, 1);
    const std::vector<std::byte> sent(8000, std::byte{'x'});
    std::vector<std::byte> got(sent.size());
    size_t out = 0, in = 0;
    const Deadline deadline = Deadline::in_seconds(2);
    while (back.state().ok() && in < got.size() && !deadline.passed()) {
      if (out < sent.size()) out += static_cast<size_t>(there.write(Channel::Sent(sent).subspan(out), {}));
      in += static_cast<size_t>(back.read(std::span(got).subspan(in)));
    }
    EXPECT_EQ(back.state().code(), ErrorCode::peer_lost) << "within two seconds";
    EXPECT_TRUE(std::ranges::all_of(got.begin(), got.begin() + static_cast<ptrdiff_t>(in), [](std::byte byte) { return byte == std::byte{'x'}; }));
  }
}

// The end of TLS and the first plain bytes come in one piece, in both directions.
TEST(Attacks, that_join_the_end_of_tls_with_what_follows_lose_nothing) {
  Rank zero(0), one(1);
  Meddler gathers(zero.sockets().address(), {.gathers = true});
  SocketStream there(one.sockets(), {key_to(zero, 1, 0), {one.token(), group, 0, 0, 1}, {{gathers.address()}}});
  SocketStream back = stream_between(zero, 0, one, 1);
  expect_bytes_pass(there, back, 3000);
  expect_bytes_pass(back, there, 3000);
}

// --- Somebody who has the secret, and says whatever it is told to

class Insider {
 public:
  Insider(Rank& to, int from, int rank) : socket_(connected_to(to.sockets().address())), tls_(rank_trust('a'), socket_.number(), Tls::Role::connects, {from, rank}) {
    while (!tls_.shake_hands() && tls_.state().ok()) continue;
    EXPECT_TRUE(tls_.state().ok()) << tls_.state().text();
  }
  Status says(const std::string& words) {
    for (auto rest = std::as_bytes(std::span(words)); !rest.empty() && tls_.state().ok();) rest = rest.subspan(static_cast<size_t>(tls_.write(rest)));
    std::string heard(verdict_bytes, 0);
    size_t count = 0;
    while (count < heard.size() && tls_.state().ok() && !tls_.has_ended()) count += static_cast<size_t>(tls_.read(std::as_writable_bytes(std::span(heard)).subspan(count)));
    return count == heard.size() ? read_verdict(std::as_bytes(std::span(heard))) : Status(ErrorCode::peer_lost, "no answer");
  }

 private:
  Descriptor socket_;
  Tls tls_;
};

std::string with(std::string words, size_t at, auto number) {
  std::memcpy(words.data() + at, &number, sizeof(number));
  return words;
}

TEST(Attacks, of_another_version_are_told_both_in_words) {
  Rank zero(0), one(1);
  const Status library = Insider(zero, 1, 0).says(greeting_words({.library = "9.8.7", .key = key_to(zero, 1, 0)}));
  EXPECT_EQ(library.code(), ErrorCode::version) << library.text();
  expect_says(library.message(), {"rank 1 speaks 9.8.7, rank 0 speaks " UNISONO_VERSION});
  expect_logs(zero, "rank 1 speaks 9.8.7");
  std::string longer = greeting_words({.protocol = 2, .library = "9.8.7", .key = key_to(zero, 1, 0)}) + std::string(100, 'x');
  const Status protocol = Insider(zero, 1, 0).says(with(longer, 12, static_cast<uint32_t>(longer.size())));
  EXPECT_EQ(protocol.code(), ErrorCode::version) << protocol.text();
  expect_says(protocol.message(), {"rank 1 speaks 9.8.7 (protocol 2), rank 0 speaks " UNISONO_VERSION});
  const Status big_endian = Insider(zero, 1, 0).says(with(greeting_words({.key = key_to(zero, 1, 0)}), 8, uint32_t{0x08030201}));
  EXPECT_EQ(big_endian.code(), ErrorCode::version) << big_endian.text();
  expect_says(big_endian.message(), {"big-endian"});
  expect_works(zero, one);
}

TEST(Attacks, with_numbers_that_cannot_be_in_a_greeting_lose_their_connection_alone) {
  Rank zero(0), one(1);
  const std::string good = greeting_words({.key = key_to(zero, 1, 0)});
  ASSERT_TRUE(Insider(zero, 1, 0).says(good).ok());
  const struct {
    const char* name;
    std::string said;
    const char* words;
  } rows[] = {
      {"another beginning", with(good, 0, 'U'), "begins otherwise"},
      {"a length of four GiB", with(good, 12, UINT32_MAX), "4294967295 bytes"},
      {"a length of two GiB", with(good, 12, uint32_t{1} << 31), "2147483648 bytes"},
      {"a length of nothing", with(good, 12, 0u), "0 bytes"},
      {"more than a greeting", with(good + std::string(20, 'x'), 12, 100u), "100 bytes, where 88 belong"},
      {"no version", with(good, 20, '\0'), "no version"},
      {"a version that a terminal obeys", with(good, 20, '\x1b'), "no version"},
      {"a version that does not end", with(with(with(with(good, 24, ~uint64_t{0} / 255 * 'x'), 32, ~uint64_t{0} / 255 * 'x'), 40, ~uint64_t{0} / 255 * 'x'), 20, uint32_t{0x78787878}),
       "no version"},
      {"a use that there is not", with(good, 64, INT32_MAX), "cannot be"},
      {"a use below all", with(good, 64, -1), "cannot be"},
      {"a rank below all", with(good, 68, INT32_MIN), "cannot be"},
      {"half sealed", with(good, 76, 3), "cannot be"},
      {"another rank than it has shown", with(good, 68, 5), "another rank than it has shown"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    const Status heard = Insider(zero, 1, 0).says(row.said);
    EXPECT_EQ(heard.code(), ErrorCode::protocol) << heard.text();
    expect_says(heard.message(), {row.words});
    expect_logs(zero, row.words);
  }
  expect_works(zero, one);
}

}  // namespace
}  // namespace unisono::testing
