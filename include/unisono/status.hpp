// How things fail. Inside the library a Status travels by return; at the edges it becomes an exception, one type
// per code. The table in src/base/status.cpp is the only list of codes, names and what they leave of the group.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#pragma GCC visibility push(default)
namespace unisono {

enum class ErrorCode : uint8_t {
  ok,
  argument,       // this rank's arguments; raised before any byte moves
  argument_type,  // likewise, where a type is wrong rather than a value
  peer_argument,  // another rank refused this call
  mismatch,       // ranks made different calls
  peer_lost,      // a member died, left, or went silent
  timeout,        // the deadline passed
  revoked,        // somebody aborted, was interrupted, or broke the group
  init,           // joining failed
  auth,           // joining: not who they should be
  version,        // joining: another version of the library
  resource,       // descriptors, threads, shared memory
  memory,         // as resource, where it is memory
  protocol,       // bytes that cannot be
  corruption,     // a checksum does not match
  state,          // use before init, after destroy, after fork
  store_lost,     // the store is gone; running groups go on
  internal,       // our own bug
};

std::string_view error_name(ErrorCode code);  // "MismatchError"
bool breaks_group(ErrorCode code);            // whether the group is unusable afterwards

// What went wrong and whom it concerns; a value. Success is a null pointer: every call makes many of those.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message, int peer = -1)
      : failure_(std::make_shared<const Failure>(Failure{code, peer, std::move(message)})) {}

  static Status success() { return {}; }
  bool ok() const { return !failure_; }
  ErrorCode code() const { return failure_ ? failure_->code : ErrorCode::ok; }
  const std::string& message() const;
  int peer() const { return failure_ ? failure_->peer : -1; }  // the rank to blame, or -1
  std::string text() const;                                    // "MismatchError: …"

  bool operator==(const Status& other) const {
    return code() == other.code() && peer() == other.peer() && message() == other.message();
  }

 private:
  struct Failure {
    ErrorCode code;
    int peer;
    std::string message;
  };
  std::shared_ptr<const Failure> failure_;
};

// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : content_(std::in_place_index<1>, std::move(status)) {}

  bool ok() const { return content_.index() == 0; }
  T& value() & { return std::get<0>(content_); }
  const T& value() const& { return std::get<0>(content_); }
  T&& value() && { return std::get<0>(std::move(content_)); }
  T* operator->() { return &std::get<0>(content_); }
  T& operator*() & { return std::get<0>(content_); }
  T&& operator*() && { return std::get<0>(std::move(content_)); }
  Status status() const { return ok() ? Status() : std::get<1>(content_); }

 private:
  std::variant<T, Status> content_;
};

// The base of everything the dialects throw. Catch it for all, or one of the types below for one code.
class Error : public std::runtime_error {
 public:
  explicit Error(const Status& status) : std::runtime_error(status.text()), status_(status) {}
  ErrorCode code() const { return status_.code(); }
  int peer() const { return status_.peer(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

template <ErrorCode code_of_type>
class ErrorOf : public Error {
 public:
  using Error::Error;
};

using ArgumentError = ErrorOf<ErrorCode::argument>;
using ArgumentTypeError = ErrorOf<ErrorCode::argument_type>;
using PeerArgumentError = ErrorOf<ErrorCode::peer_argument>;
using MismatchError = ErrorOf<ErrorCode::mismatch>;
using PeerLostError = ErrorOf<ErrorCode::peer_lost>;
using TimeoutError = ErrorOf<ErrorCode::timeout>;
using RevokedError = ErrorOf<ErrorCode::revoked>;
using InitError = ErrorOf<ErrorCode::init>;
using AuthError = ErrorOf<ErrorCode::auth>;
using VersionError = ErrorOf<ErrorCode::version>;
class ResourceError : public Error {
 public:
  using Error::Error;
};
class MemoryError : public ResourceError {
 public:
  using ResourceError::ResourceError;
};
using ProtocolError = ErrorOf<ErrorCode::protocol>;
using CorruptionError = ErrorOf<ErrorCode::corruption>;
using StateError = ErrorOf<ErrorCode::state>;
using StoreLostError = ErrorOf<ErrorCode::store_lost>;
using InternalError = ErrorOf<ErrorCode::internal>;

// Throws the type that belongs to the status's code; does nothing when it is ok.
void throw_if_error(const Status& status);

}  // namespace unisono
#pragma GCC visibility pop
