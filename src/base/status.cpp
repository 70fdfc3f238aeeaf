// The one table of error codes: the name users see and what a failure leaves of the group.
#include "unisono/status.hpp"

#include <cstdio>

#include "base/check.hpp"

namespace unisono {
namespace {

struct ErrorRow {
  ErrorCode code;
  std::string_view name;
  bool breaks_group;
  void (*raise)(const Status&);
};

template <typename Type>
[[noreturn]] void raise(const Status& status) {
  throw Type(status);
}

void raise_nothing(const Status&) {}

constexpr ErrorRow error_rows[] = {
    {ErrorCode::ok, "OK", false, raise_nothing},
    {ErrorCode::argument, "ArgumentError", false, raise<ArgumentError>},
    {ErrorCode::argument_type, "ArgumentTypeError", false, raise<ArgumentTypeError>},
    {ErrorCode::peer_argument, "PeerArgumentError", false, raise<PeerArgumentError>},
    {ErrorCode::mismatch, "MismatchError", false, raise<MismatchError>},
    {ErrorCode::peer_lost, "PeerLostError", true, raise<PeerLostError>},
    {ErrorCode::timeout, "TimeoutError", true, raise<TimeoutError>},
    {ErrorCode::revoked, "RevokedError", true, raise<RevokedError>},
    {ErrorCode::init, "InitError", true, raise<InitError>},
    {ErrorCode::auth, "AuthError", true, raise<AuthError>},
    {ErrorCode::version, "VersionError", true, raise<VersionError>},
    {ErrorCode::resource, "ResourceError", true, raise<ResourceError>},
    {ErrorCode::memory, "MemoryError", true, raise<MemoryError>},
    {ErrorCode::protocol, "ProtocolError", true, raise<ProtocolError>},
    {ErrorCode::corruption, "CorruptionError", true, raise<CorruptionError>},
    {ErrorCode::state, "StateError", false, raise<StateError>},
    {ErrorCode::store_lost, "StoreLostError", false, raise<StoreLostError>},
    {ErrorCode::internal, "InternalError", true, raise<InternalError>},
};

const ErrorRow& row_of(ErrorCode code) { return error_rows[static_cast<size_t>(code)]; }

}  // namespace

std::string_view error_name(ErrorCode code) { return row_of(code).name; }
bool breaks_group(ErrorCode code) { return row_of(code).breaks_group; }

const std::string& Status::message() const {
  static const std::string none;
  return failure_ ? failure_->message : none;
}

std::string Status::text() const {
  std::string text(error_name(code()));
  return message().empty() ? text : text.append(": ").append(message());
}

void throw_if_error(const Status& status) { row_of(status.code()).raise(status); }

void check_failed(const char* condition, const char* file, int line) {
  std::string text = std::string(file) + ":" + std::to_string(line) + ": this must hold: " + condition;
  std::fprintf(stderr, "unisono: a bug in the library: %s\n", text.c_str());
  throw InternalError(Status(ErrorCode::internal, text));
}

}  // namespace unisono
