// By what the processes of a job know each other: a key that comes from the job's secret and the job's name. All connections of a World share
// it; nothing in it changes once it is made, but what it has heard.
//
// The key is HKDF(secret, job); whoever can use it has both. Two short ids are made the same way to be shown: id() stands for secret and job,
// job_id() for the job alone, and travels in the clear. Neither tells anything of the secret.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "trust/hello_log.hpp"
#include "trust/secret_page.hpp"
#include "unisono/status.hpp"

struct ssl_ctx_st;

namespace unisono {

class Trust {
 public:
  static Result<std::shared_ptr<const Trust>> of(std::span<const std::byte, 32> secret, std::string_view job, int64_t renews_after_bytes = int64_t{64} << 30);
  // Where there is no secret, on the loopback interface: by a key that everybody knows, and by what the kernel says of who is at the other end.
  static Result<std::shared_ptr<const Trust>> of_this_user(std::string_view job);
  // UNISONO_INSECURE: by a key that everybody knows, and nothing else.
  static Result<std::shared_ptr<const Trust>> of_anybody(std::string_view job);
  Trust(const Trust&) = delete;
  ~Trust();

  bool asks_for_user() const { return asks_for_user_; }  // the other end has to be this user's, or root's
  const std::string& job() const { return job_; }  // its name
  const std::string& id() const { return id_; }
  const std::string& job_id() const { return job_id_; }
  std::span<const unsigned char, 32> key() const { return std::span<const unsigned char, 32>(reinterpret_cast<const unsigned char*>(key_.bytes()), 32); }
  ssl_ctx_st* context() const { return context_.get(); }  // for tls.cpp
  HelloLog& hellos() const { return hellos_; }            // likewise
  int64_t renews_after_bytes() const { return renews_after_bytes_; }  // sent in TLS by one key

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  Trust() = default;
  static Result<std::shared_ptr<Trust>> make(std::span<const std::byte, 32> secret, std::string_view job);

  const SecretPage key_;
  std::string job_, id_, job_id_;
  mutable HelloLog hellos_;
  bool asks_for_user_ = false;
  int64_t renews_after_bytes_ = INT64_MAX;
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

}  // namespace unisono
