// Connections of a job: who has secret and job is let in, whoever has not is told what kind of refusal it was, and plain bytes behind the
// end of TLS are all there.
#include "trust/tls.hpp"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "base/descriptor.hpp"

namespace unisono {
namespace {

constexpr int most_turns = 1000;

std::shared_ptr<const Trust> trust_of(char secret, std::string_view job = "job") {
  std::array<std::byte, 32> bytes;
  bytes.fill(static_cast<std::byte>(secret));
  auto trust = Trust::of(bytes, job);
  EXPECT_TRUE(trust.ok()) << trust.status().text();
  return *trust;
}

struct Wire {
  Wire() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    one = Descriptor(ends[0]);
    other = Descriptor(ends[1]);
  }
  Descriptor one, other;
};

// Both ends of one connection, and how far they came.
struct Pair {
  Pair(std::shared_ptr<const Trust> connector, TlsEnds ends, std::shared_ptr<const Trust> acceptor, int me)
      : connects(std::move(connector), wire.one.number(), Tls::Role::connects, ends),
        accepts(std::move(acceptor), wire.other.number(), Tls::Role::accepts, {.to = me}) {}

  bool shake_hands() {
    bool one = false, other = false;
    for (int turn = 0; turn < most_turns && !(one && other); ++turn) {
      one = one || connects.shake_hands();
      other = other || accepts.shake_hands();
      if (!connects.state().ok() && !accepts.state().ok()) return false;
      if (!accepts.state().ok()) wire.other.reset();  // as its owner would
      if (!connects.state().ok()) wire.one.reset();
    }
    return one && other;
  }

  Wire wire;
  Tls connects, accepts;
};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string read_text(Tls& tls) {
  std::string text(64, 0);
  text.resize(static_cast<size_t>(tls.read(std::as_writable_bytes(std::span(text)))));
  return text;
}

// Both ways at once, in pieces of any length, while each end changes its key many times.
TEST(Tls, changes_keys_that_have_sealed_much) {
  constexpr int64_t renews_after_bytes = 100'000, total_bytes = 3'000'000;
  std::array<std::byte, 32> secret = {};
  const auto trust = *Trust::of(secret, "job", renews_after_bytes);
  Pair pair(trust, {.from = 1, .to = 2}, trust, 2);
  ASSERT_TRUE(pair.shake_hands());
  struct End {
    Tls& tls;
    int64_t out = 0, in = 0;
  } ends[] = {{pair.connects}, {pair.accepts}};
  auto byte_at = [](int64_t place) { return static_cast<std::byte>(place * 7 + place / 251); };
  std::vector<std::byte> piece(40'000), got(40'000);
  for (int turn = 0; turn < 100'000 && (ends[0].in < total_bytes || ends[1].in < total_bytes); ++turn) {
    for (End& end : ends) {
      const int64_t length = std::min<int64_t>(total_bytes - end.out, 40'000);
      for (int64_t index = 0; index < length; ++index) piece[static_cast<size_t>(index)] = byte_at(end.out + index);
      end.out += end.tls.write(std::span(piece).first(static_cast<size_t>(length)));
      int64_t came = 0;
      do {  // now and then all there is, so that there is room to say that the key changes
        came = end.tls.read(std::span(got).first(static_cast<size_t>(1 + turn % 40'000)));
        for (int64_t index = 0; index < came; ++index) ASSERT_EQ(got[static_cast<size_t>(index)], byte_at(end.in + index));
        end.in += came;
      } while (turn % 8 == 7 && came > 0);
    }
  }
  for (const End& end : ends) {
    EXPECT_EQ(end.in, total_bytes) << end.tls.state().text();
    EXPECT_GE(end.tls.renewals(), 20);
  }
}

TEST(Tls, joins_who_have_secret_and_job_in_common) {
  Pair pair(trust_of('a'), {.from = 1, .to = 2}, trust_of('a'), 2);
  ASSERT_TRUE(pair.shake_hands()) << pair.connects.state().text() << pair.accepts.state().text();
  EXPECT_EQ(pair.accepts.ends(), (TlsEnds{1, 2}));
  EXPECT_EQ(pair.connects.write(bytes_of("to")), 2);
  EXPECT_EQ(read_text(pair.accepts), "to");
  EXPECT_EQ(pair.accepts.write(bytes_of("and back")), 8);
  EXPECT_EQ(read_text(pair.connects), "and back");
}

// What each side says when the handshake fails; both must be refused with AuthError.
void expect_refused(Pair& pair, std::string_view connector_hears, std::string_view acceptor_says) {
  EXPECT_FALSE(pair.shake_hands());
  EXPECT_EQ(pair.connects.state().code(), ErrorCode::auth);
  EXPECT_EQ(pair.accepts.state().code(), ErrorCode::auth);
  EXPECT_NE(pair.connects.state().message().find(connector_hears), std::string::npos) << pair.connects.state().text();
  EXPECT_NE(pair.accepts.state().message().find(acceptor_says), std::string::npos) << pair.accepts.state().text();
}

TEST(Tls, refuses_another_secret_and_says_so_to_both) {
  const auto mine = trust_of('b');
  Pair pair(mine, {.from = 1, .to = 2}, trust_of('a'), 2);
  expect_refused(pair, "the secret does not match", "its secret does not match");
  EXPECT_NE(pair.connects.state().message().find(mine->id()), std::string::npos) << pair.connects.state().text();
}

TEST(Tls, refuses_another_job_and_logs_both_ids) {
  const auto mine = trust_of('a', "mine"), theirs = trust_of('a', "theirs");
  Pair pair(mine, {.from = 1, .to = 2}, theirs, 2);
  expect_refused(pair, "another job", "its job's id is " + mine->job_id() + ", and this job's is " + theirs->job_id());
}

TEST(Tls, refuses_a_connection_that_was_passed_on_to_another_rank) {
  Pair pair(trust_of('a'), {.from = 1, .to = 3}, trust_of('a'), 2);
  expect_refused(pair, "another rank", "it looks for rank 3, and this is rank 2");
}

TEST(Tls, refuses_a_connection_that_was_sent_back) {
  Pair pair(trust_of('a'), {.from = 2, .to = 2}, trust_of('a'), 2);
  expect_refused(pair, "another job", "it calls itself rank 2, which is this one");
}

// All that the connector sent the first time, once more: the acceptor draws fresh numbers each time.
TEST(Tls, refuses_a_handshake_that_was_recorded) {
  const auto trust = trust_of('a');
  Wire to_accept;
  Wire to_connect;
  Tls connects(trust, to_connect.one.number(), Tls::Role::connects, {1, 2});
  Tls accepts(trust, to_accept.other.number(), Tls::Role::accepts, {.to = 2});
  std::string recorded;
  auto pass_on = [](const Descriptor& from, const Descriptor& to, std::string* record) {
    char bytes[4096];
    for (ssize_t count; (count = recv(from.number(), bytes, sizeof(bytes), 0)) > 0;) {
      if (record) record->append(bytes, static_cast<size_t>(count));
      EXPECT_EQ(send(to.number(), bytes, static_cast<size_t>(count), MSG_NOSIGNAL), count);
    }
  };
  bool done = false;
  for (int turn = 0; turn < most_turns && !done; ++turn) {
    connects.shake_hands();
    pass_on(to_connect.other, to_accept.one, &recorded);
    done = accepts.shake_hands();
    pass_on(to_accept.one, to_connect.other, nullptr);
  }
  ASSERT_TRUE(done) << accepts.state().text();
  Wire again;
  Tls fooled(trust, again.other.number(), Tls::Role::accepts, {.to = 2});
  ASSERT_EQ(send(again.one.number(), recorded.data(), recorded.size(), MSG_NOSIGNAL), static_cast<ssize_t>(recorded.size()));
  for (int turn = 0; turn < most_turns && fooled.state().ok(); ++turn) ASSERT_FALSE(fooled.shake_hands());
  EXPECT_FALSE(fooled.state().ok());
}

TEST(Tls, ends_a_stranger_at_its_first_record) {
  for (const char* said : {"GET / HTTP/1.1\r\nHost: here\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\xff\xff\xff\xff\xff\xff"}) {
    Wire wire;
    Tls accepts(trust_of('a'), wire.other.number(), Tls::Role::accepts, {.to = 0});
    EXPECT_GT(send(wire.one.number(), said, std::strlen(said), MSG_NOSIGNAL), 0);
    EXPECT_FALSE(accepts.shake_hands());
    EXPECT_FALSE(accepts.state().ok()) << said;
  }
}

// One that has a certificate, and would do without the key.
class FakeServer {
 public:
  explicit FakeServer(int socket) : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free), ssl_(nullptr, SSL_free) {
    std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_sign(certificate.get(), key.get(), EVP_sha256());
    EXPECT_EQ(SSL_CTX_use_certificate(context_.get(), certificate.get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context_.get(), key.get()), 1);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket);
    SSL_set_accept_state(ssl_.get());
  }
  bool shake_hands() { return SSL_do_handshake(ssl_.get()) == 1; }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
};

TEST(Tls, refuses_a_server_without_the_key) {
  Wire wire;
  Tls connects(trust_of('a'), wire.one.number(), Tls::Role::connects, {1, 0});
  FakeServer server(wire.other.number());
  for (int turn = 0; turn < most_turns && connects.state().ok(); ++turn) {
    ASSERT_FALSE(connects.shake_hands());
    ASSERT_FALSE(server.shake_hands());
  }
  EXPECT_EQ(connects.state().code(), ErrorCode::auth) << connects.state().text();
  EXPECT_NE(connects.state().message().find("did not prove"), std::string::npos) << connects.state().text();
}

// One that has the key, and would do with less than we do: an older version, another suite, another group.
class Haggler {
 public:
  Haggler(int socket, Tls::Role role, const std::shared_ptr<const Trust>& trust, TlsEnds ends)
      : trust_(trust), identity_(Identity{trust->job_id(), ends}.text()), context_(SSL_CTX_new(TLS_method()), SSL_CTX_free), ssl_(nullptr, SSL_free), socket_(socket), role_(role) {
    SSL_CTX_set_psk_client_callback(context_.get(), [](SSL* ssl, const char*, char* identity, unsigned most, unsigned char* key, unsigned bytes) {
      const std::string& text = of(ssl).identity_;
      if (text.size() >= most) return 0u;
      std::strcpy(identity, text.c_str());
      return give_key(ssl, key, bytes);
    });
    SSL_CTX_set_psk_server_callback(context_.get(), [](SSL* ssl, const char*, unsigned char* key, unsigned bytes) { return give_key(ssl, key, bytes); });
    SSL_CTX_set_psk_use_session_callback(context_.get(), show_new);
  }
  SSL_CTX* context() { return context_.get(); }
  void begin() {
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket_);
    SSL_set_app_data(ssl_.get(), this);
    role_ == Tls::Role::connects ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  }
  bool shake_hands() { return SSL_do_handshake(ssl_.get()) == 1; }
  int suite = TLS1_3_CK_AES_128_GCM_SHA256;

 private:
  static Haggler& of(SSL* ssl) { return *static_cast<Haggler*>(SSL_get_app_data(ssl)); }
  static unsigned give_key(SSL* ssl, unsigned char* key, unsigned bytes) {
    const auto ours = of(ssl).trust_->key();
    if (bytes < ours.size()) return 0;
    std::copy(ours.begin(), ours.end(), key);
    return static_cast<unsigned>(ours.size());
  }
  static int show_new(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* bytes, SSL_SESSION** session) {
    Haggler& me = of(ssl);
    const unsigned char wanted[] = {static_cast<unsigned char>(me.suite >> 8), static_cast<unsigned char>(me.suite)};
    *session = SSL_SESSION_new();
    SSL_SESSION_set1_master_key(*session, me.trust_->key().data(), me.trust_->key().size());
    SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, wanted));
    SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
    *identity = reinterpret_cast<const unsigned char*>(me.identity_.data());
    *bytes = me.identity_.size();
    return 1;
  }

  std::shared_ptr<const Trust> trust_;
  std::string identity_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  int socket_;
  Tls::Role role_;
};

TEST(Tls, takes_no_less_than_its_version_suite_and_group) {
  const struct {
    const char* name;
    bool succeeds;
    std::function<void(Haggler&)> change;
  } rows[] = {
      {"what we do", true, [](Haggler&) {}},
      {"TLS 1.2", false, [](Haggler& other) { SSL_CTX_set_max_proto_version(other.context(), TLS1_2_VERSION); }},
      {"another suite alone", false, [](Haggler& other) {
         SSL_CTX_set_ciphersuites(other.context(), "TLS_AES_256_GCM_SHA384");
         other.suite = TLS1_3_CK_AES_256_GCM_SHA384;
       }},
      {"ChaCha20", false, [](Haggler& other) {
         SSL_CTX_set_ciphersuites(other.context(), "TLS_CHACHA20_POLY1305_SHA256");
         other.suite = TLS1_3_CK_CHACHA20_POLY1305_SHA256;
       }},
      {"another group", false, [](Haggler& other) { SSL_CTX_set1_groups_list(other.context(), "P-256"); }},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    Wire wire;
    const auto trust = trust_of('a');
    Tls accepts(trust, wire.other.number(), Tls::Role::accepts, {.to = 2});
    Haggler other(wire.one.number(), Tls::Role::connects, trust, {1, 2});
    row.change(other);
    other.begin();
    bool done = false;
    for (int turn = 0; turn < most_turns && !done && accepts.state().ok(); ++turn) {
      other.shake_hands();
      done = accepts.shake_hands();
    }
    EXPECT_EQ(done, row.succeeds) << accepts.state().text();
    EXPECT_EQ(accepts.state().ok(), row.succeeds);
  }
}

TEST(Tls, connects_to_no_server_of_an_older_version) {
  Wire wire;
  const auto trust = trust_of('a');
  Tls connects(trust, wire.one.number(), Tls::Role::connects, {1, 2});
  Haggler other(wire.other.number(), Tls::Role::accepts, trust, {1, 2});
  SSL_CTX_set_max_proto_version(other.context(), TLS1_2_VERSION);
  other.begin();
  for (int turn = 0; turn < most_turns && connects.state().ok(); ++turn) {
    ASSERT_FALSE(connects.shake_hands());
    ASSERT_FALSE(other.shake_hands());
  }
  EXPECT_EQ(connects.state().code(), ErrorCode::auth) << connects.state().text();
}

// The last record of TLS and the first plain bytes lie in the socket together when the other end comes to read.
TEST(Tls, leaves_every_plain_byte_to_who_reads_next) {
  Pair pair(trust_of('a'), {1, 2}, trust_of('a'), 2);
  ASSERT_TRUE(pair.shake_hands());
  EXPECT_FALSE(pair.accepts.leave());
  ASSERT_TRUE(pair.connects.leave());
  ASSERT_EQ(send(pair.wire.one.number(), "plain", 5, MSG_NOSIGNAL), 5);
  ASSERT_TRUE(pair.accepts.leave()) << pair.accepts.state().text();
  char text[16] = {};
  EXPECT_EQ(recv(pair.wire.other.number(), text, sizeof(text), 0), 5);
  EXPECT_STREQ(text, "plain");
}

TEST(Tls, does_not_take_more_for_the_end) {
  Pair pair(trust_of('a'), {1, 2}, trust_of('a'), 2);
  ASSERT_TRUE(pair.shake_hands());
  EXPECT_EQ(pair.connects.write(bytes_of("still here")), 10);
  EXPECT_FALSE(pair.accepts.leave());
  EXPECT_EQ(pair.accepts.state().code(), ErrorCode::protocol);
}

TEST(Tls, says_that_a_connection_has_ended) {
  Pair pair(trust_of('a'), {1, 2}, trust_of('a'), 2);
  ASSERT_TRUE(pair.shake_hands());
  pair.wire.one.reset();
  EXPECT_EQ(read_text(pair.accepts), "");
  EXPECT_EQ(pair.accepts.state().code(), ErrorCode::peer_lost) << pair.accepts.state().text();
}

TEST(Trust, shows_ids_that_depend_on_what_they_stand_for) {
  const auto one = trust_of('a', "x"), same = trust_of('a', "x"), other_job = trust_of('a', "y"), other_secret = trust_of('b', "x");
  EXPECT_EQ(one->id(), same->id());
  EXPECT_NE(one->id(), other_job->id());
  EXPECT_NE(one->id(), other_secret->id());
  EXPECT_EQ(one->job_id(), other_secret->job_id());
  EXPECT_NE(one->job_id(), other_job->job_id());
}

}  // namespace
}  // namespace unisono
