// See tls.hpp.
#include "trust/tls.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "trust/peer_user.hpp"

namespace unisono {
namespace {

constexpr int64_t most_opening_bytes = 64 << 10;
constexpr unsigned char suite[] = {0x13, 0x01};  // TLS_AES_128_GCM_SHA256, in its two bytes

// The reason why OpenSSL gave up; 0: the connection ended.
int last_reason() { return ERR_GET_REASON(ERR_peek_error()); }

}  // namespace

// What OpenSSL asks of a connection while hands are shaken.
struct TlsCallbacks {
  static Tls& of(SSL* ssl) { return *static_cast<Tls*>(SSL_get_app_data(ssl)); }

  // A key grows old by the wall clock, which may be put forward between two lines of OpenSSL: then whoever proves the secret would be refused.
  static SSL_SESSION* session(SSL* ssl) {
    constexpr long never_over_s = 1L << 31;
    const std::span key = of(ssl).trust_->key();
    const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, suite);
    SSL_SESSION* session = SSL_SESSION_new();
    const bool made = session && cipher && SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
                      SSL_SESSION_set_cipher(session, cipher) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
                      SSL_SESSION_set_timeout(session, never_over_s) == 1;
    if (!made) SSL_SESSION_free(session);
    return made ? session : nullptr;
  }

  static int show(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* bytes, SSL_SESSION** session_out) {
    const std::string& text = of(ssl).identity_;
    *session_out = session(ssl);
    *identity = reinterpret_cast<const unsigned char*>(text.data());
    *bytes = text.size();
    return *session_out != nullptr;
  }

  // Without a session the handshake fails: there are no certificates to go on with.
  static int find(SSL* ssl, const unsigned char* identity, size_t bytes, SSL_SESSION** session_out) {
    *session_out = nullptr;
    Tls& tls = of(ssl);
    SSL_get_client_random(ssl, tls.hello_.data(), tls.hello_.size());
    tls.unknown_ = accept({reinterpret_cast<const char*>(identity), bytes}, tls);
    if (tls.unknown_.ok()) *session_out = session(ssl);
    return 1;
  }

  static Status accept(std::string_view text, Tls& tls) {
    const std::optional<Identity> identity = Identity::parse(text);
    if (!identity) return {ErrorCode::auth, "it does not speak for a job of ours"};
    const auto& [job_id, ends] = *identity;
    if (job_id != tls.trust_->job_id()) return {ErrorCode::auth, fmt::format("its job's id is {}, and this job's is {}", job_id, tls.trust_->job_id())};
    if (ends.to != tls.ends_.to) return {ErrorCode::auth, fmt::format("it looks for rank {}, and this is rank {}", ends.to, tls.ends_.to)};
    if (ends.from == tls.ends_.to) return {ErrorCode::auth, fmt::format("it calls itself rank {}, which is this one", ends.from)};
    if (tls.trust_->hellos().has(tls.hello_)) return {ErrorCode::auth, "it repeats what another connection has said before: a recording"};
    tls.ends_ = ends;
    return Status::success();
  }
};

// The socket as OpenSSL sees it: its own functions raise SIGPIPE, and take whatever comes.
struct TlsSocket {
  static Tls& of(BIO* bio) { return *static_cast<Tls*>(BIO_get_data(bio)); }

  static int moved(BIO* bio, ssize_t count, int retry) {
    BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)) BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    return static_cast<int>(count);
  }

  static int send_bytes(BIO* bio, const char* bytes, int count) {
    return moved(bio, send(of(bio).socket_, bytes, static_cast<size_t>(count), MSG_NOSIGNAL), BIO_FLAGS_WRITE);
  }

  static int receive_bytes(BIO* bio, char* target, int count) {
    Tls& tls = of(bio);
    const bool opening = !tls.ssl_ || SSL_is_init_finished(tls.ssl_.get()) == 0;
    if (opening && tls.received_bytes_ > most_opening_bytes) {
      tls.unknown_ = {ErrorCode::auth, "it sends more than it takes to shake hands"};
      return moved(bio, 0, BIO_FLAGS_READ);
    }
    const ssize_t received = recv(tls.socket_, target, static_cast<size_t>(count), 0);
    if (opening && received > 0) tls.received_bytes_ += received;
    return moved(bio, received, BIO_FLAGS_READ);
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO* make(Tls& tls) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "a socket without SIGPIPE");
      BIO_meth_set_write(made, send_bytes);
      BIO_meth_set_read(made, receive_bytes);
      BIO_meth_set_ctrl(made, control);
      return made;
    }();
    BIO* bio = BIO_new(method);
    if (!bio) throw std::bad_alloc();
    BIO_set_data(bio, &tls);
    BIO_set_init(bio, 1);
    return bio;
  }
};

ssl_ctx_st* make_tls_context() {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") != 1 || SSL_CTX_set1_groups_list(context.get(), "X25519") != 1)
    return nullptr;
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context.get(), 0);  // what follows TLS is not its to read
  SSL_CTX_set_psk_use_session_callback(context.get(), TlsCallbacks::show);
  SSL_CTX_set_psk_find_session_callback(context.get(), TlsCallbacks::find);
  return context.release();
}

void Tls::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

Tls::Tls(std::shared_ptr<const Trust> trust, int socket, Role role, TlsEnds ends)
    : trust_(std::move(trust)), role_(role), ends_(ends), identity_(Identity{trust_->job_id(), ends}.text()), socket_(socket), ssl_(SSL_new(trust_->context())) {
  if (!ssl_) throw std::bad_alloc();
  BIO* bio = TlsSocket::make(*this);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  role == Role::connects ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  if (role == Role::connects) SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);  // there is no certificate that it could believe
}

Tls::~Tls() = default;

// Whether OpenSSL did what it was asked to; if not, what it waits for, or why it cannot.
bool Tls::settle(int result, const char* doing) {
  wants_to_write_ = false;
  if (result > 0) return true;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_WRITE: wants_to_write_ = true; return false;
    case SSL_ERROR_WANT_READ: return false;
    case SSL_ERROR_ZERO_RETURN: ended_ = true; return false;
    default: break;
  }
  state_ = refusal(doing);
  return false;
}

// Alerts carry no words. Who is refused hears which kind of refusal it was, and what it has itself.
Status Tls::refusal(const char* doing) const {
  if (!unknown_.ok()) return unknown_;
  const int reason = last_reason();
  const bool opening = SSL_is_init_finished(ssl_.get()) == 0;
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY) return {ErrorCode::auth, "its secret does not match this job's"};
  if (opening && (reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER || reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR))
    return {ErrorCode::auth, fmt::format("the secret does not match: the other side has this job, and another secret (with the secret given here the job's "
                                         "id is {})", trust_->id())};
  if (opening && reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE)
    return {ErrorCode::auth, fmt::format("the other side belongs to another job, or run of it, or to another rank of this one; this job is \"{}\" (id {}; the other side's "
                                         "log has both ids). Is the job, or the place where its ranks meet, spelled alike on all machines?",
                                         trust_->job(), trust_->job_id())};
  if (opening && reason != 0) return {ErrorCode::auth, fmt::format("the other side did not prove that it has the secret of job {}", trust_->job_id())};
  return {ErrorCode::peer_lost, fmt::format("the connection ended while {}", doing)};
}

bool Tls::shake_hands() {
  if (!state_.ok()) return false;
  ERR_clear_error();
  const bool shaken = settle(SSL_do_handshake(ssl_.get()), "hands were shaken");
  // OpenSSL has answered it, so that it proved the secret. One that proves nothing is not noted: it could wash the others out.
  if (role_ == Role::accepts && names_our_job() && state_.ok() && !std::exchange(noted_, true)) trust_->hellos().note(hello_);
  if (!shaken) {
    if (ended_) state_ = refusal("hands were shaken");
    return false;
  }
  if (SSL_session_reused(ssl_.get()) != 1)
    state_ = {ErrorCode::auth, "the other side did not prove that it has the secret"};
  else if (trust_->asks_for_user() && !is_of_this_user(socket_))  // asked now, since a connection that nobody has accepted yet is nobody's
    state_ = {ErrorCode::auth, "the other side is a process of another user of this machine, or nobody can say whose, and this job has no secret; make one with "
                               "`unisono secret new`"};
  forget_key();
  return state_.ok();
}

// What goes on needs other keys than the job's, of which OpenSSL has a copy where core dumps find it.
void Tls::forget_key() {
  constexpr std::array<unsigned char, SecretPage::byte_count> nothing = {};
  static_cast<void>(SSL_SESSION_set1_master_key(SSL_get_session(ssl_.get()), nothing.data(), nothing.size()));
}

// AES-GCM's keys wear out: RFC 8446, 5.5 has them changed before 2^24.5 records of 16 KiB, 388 GB. The other end follows by itself. Until the word of it has left,
// OpenSSL reads nothing: two ends that wait to say it would wait for ever, so it is only said where the socket takes it now.
void Tls::renew_key() {
  if (since_renewal_bytes_ < trust_->renews_after_bytes() || unsent_bytes_ != 0) return;
  pollfd room{socket_, POLLOUT, 0};
  if (poll(&room, 1, 0) <= 0) return;
  since_renewal_bytes_ = 0;
  renewals_ += SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1;
}

// OpenSSL takes it for an error if less is offered again than a record of what could not be sent.
int64_t Tls::write(std::span<const std::byte> bytes) {
  if (!state_.ok() || bytes.empty() || bytes.size() < unsent_bytes_) return 0;
  ERR_clear_error();
  renew_key();
  const int result = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX)));
  const bool went = settle(result, "sending");
  unsent_bytes_ = went ? 0 : std::min<size_t>(bytes.size(), SSL3_RT_MAX_PLAIN_LENGTH);
  since_renewal_bytes_ += went ? result : 0;
  return went ? result : 0;
}

int64_t Tls::read(std::span<std::byte> target) {
  if (!state_.ok() || ended_ || target.empty()) return 0;
  ERR_clear_error();
  const int result = SSL_read(ssl_.get(), target.data(), static_cast<int>(std::min<size_t>(target.size(), INT_MAX)));
  return settle(result, "receiving") ? result : 0;
}

bool Tls::holds_bytes() const { return SSL_pending(ssl_.get()) > 0; }

// SSL_shutdown() sends our word once; the other's is read as what it is, the end of what there is to read.
bool Tls::leave() {
  if (!state_.ok()) return false;
  ERR_clear_error();
  if (!said_end_) {
    const int result = SSL_shutdown(ssl_.get());
    if (result < 0 && !settle(result, "leaving TLS")) return false;
    said_end_ = true;
  }
  std::byte unexpected;
  if (!ended_ && read({&unexpected, 1}) > 0) state_ = {ErrorCode::protocol, "the other side sent more where TLS was to end"};
  return ended_ && state_.ok();
}

}  // namespace unisono
