// See trust.hpp. What a connection does with it: tls.cpp.
#include "trust/trust.hpp"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>

#include <array>

#include "base/shortage.hpp"
#include "trust/tls.hpp"

namespace unisono {
namespace {

constexpr size_t id_bytes = job_id_digits / 2;
constexpr std::array<std::byte, 32> nobodys = {};  // in the place of a secret

// Nothing of the machine's is read: another's openssl.cnf could take away what both ends count on. Nothing is torn down at exit, when
// threads of ours may still be at work.
bool is_ready() {
  static const bool ready = OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
  return ready;
}

bool derive(std::span<const std::byte> secret, std::string_view use, std::string_view job, std::span<unsigned char> out) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr, EVP_KDF_CTX_free);
  if (!context) return false;
  char digest[] = "SHA256";
  auto bytes = [](const void* data) { return const_cast<void*>(data); };  // only read
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                                   OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, bytes(secret.data()), secret.size()),
                                   OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, bytes(use.data()), use.size()),
                                   OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, bytes(job.data()), job.size()),
                                   OSSL_PARAM_construct_end()};
  return EVP_KDF_derive(context.get(), out.data(), out.size(), parameters) == 1;
}

// As hexadecimal digits, of a key that is no secret where only the job is to be named.
bool derive_id(std::span<const std::byte> secret, std::string_view use, std::string_view job, std::string& id) {
  std::array<unsigned char, id_bytes> bytes;
  if (!derive(secret, use, job, bytes)) return false;
  for (unsigned char byte : bytes) id += fmt::format("{:02x}", byte);
  return true;
}

}  // namespace

void Trust::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

Trust::~Trust() = default;

Result<std::shared_ptr<Trust>> Trust::make(std::span<const std::byte, 32> secret, std::string_view job) {
  std::shared_ptr<Trust> trust(new Trust);
  if (!trust->key_.bytes()) return out_of_memory();
  trust->job_ = job;
  const bool derived = is_ready() && derive(secret, "unisono key 1", job, {reinterpret_cast<unsigned char*>(trust->key_.bytes()), SecretPage::byte_count}) &&
                       derive_id(secret, "unisono id 1", job, trust->id_) && derive_id(nobodys, "unisono job 1", job, trust->job_id_);
  if (derived) trust->context_.reset(make_tls_context());
  if (!trust->context_) return Status(ErrorCode::internal, "OpenSSL does not offer TLS 1.3 with X25519 and AES-128-GCM");
  return trust;
}

Result<std::shared_ptr<const Trust>> Trust::of(std::span<const std::byte, 32> secret, std::string_view job, int64_t renews_after_bytes) {
  auto trust = make(secret, job);
  if (!trust.ok()) return trust.status();
  (*trust)->renews_after_bytes_ = renews_after_bytes;
  return std::shared_ptr<const Trust>(std::move(*trust));
}

Result<std::shared_ptr<const Trust>> Trust::of_anybody(std::string_view job) { return of(nobodys, job); }

Result<std::shared_ptr<const Trust>> Trust::of_this_user(std::string_view job) {
  auto trust = make(nobodys, job);
  if (!trust.ok()) return trust.status();
  (*trust)->asks_for_user_ = true;
  return std::shared_ptr<const Trust>(std::move(*trust));
}

}  // namespace unisono
