// See digest.hpp.
#include "trust/digest.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

namespace unisono {

std::string digest_of(std::string_view text) {
  constexpr size_t shown_bytes = 16;
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int count = 0;
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);  // as for trust.cpp
  if (EVP_Digest(text.data(), text.size(), bytes, &count, EVP_sha256(), nullptr) != 1) return {};
  std::string digits;
  for (size_t index = 0; index < shown_bytes; ++index) digits += fmt::format("{:02x}", bytes[index]);
  return digits;
}

}  // namespace unisono
