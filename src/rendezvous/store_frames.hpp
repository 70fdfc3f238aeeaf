// What a TCPStore's server and its clients say to each other inside TLS, as bytes; docs/wire_format.md has every one of them.
//
// Functions of bytes, without sockets. What is read here was written by another process: every length is bounded before anything is
// allocated for it, and bytes that cannot be are a ProtocolError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sizes.hpp"
#include "unisono/status.hpp"
#include "unisono/store.hpp"

namespace unisono {

inline constexpr uint32_t store_protocol = 1;
inline constexpr size_t most_key_bytes = 4_KiB;
inline constexpr size_t most_value_bytes = 8_MiB;
inline constexpr size_t most_requests = 65536;     // of one frame, and keys that one frame waits for
inline constexpr size_t most_frame_bytes = 32_MiB;  // without the head
inline constexpr size_t most_hello_bytes = 1_KiB;   // of the first frame, while its sender is not known yet
inline constexpr size_t frame_head_bytes = 8;

enum class StoreFrameKind : uint32_t {
  hello = 1,    // client: who I am
  welcome = 2,  // server: who I am
  perform = 3,  // client: requests
  await = 4,    // client: keys to wait for
  answers = 5,  // server, to perform
  values = 6,   // server, to await: all of them
  missing = 7,  // server, to await: the time is over
  refused = 8,  // server, to anything
};

struct StoreFrame {
  StoreFrameKind kind = StoreFrameKind::hello;
  std::string body;
};

// Frames out of a stream, in whatever pieces it comes. Holds no more than one frame and what came with its end.
class StoreFrameReader {
 public:
  explicit StoreFrameReader(size_t most_bytes) : most_bytes_(most_bytes) {}
  void allow(size_t most_bytes) { most_bytes_ = most_bytes; }  // of the frames to come
  void feed(std::span<const std::byte> bytes);
  Result<std::optional<StoreFrame>> next();  // nothing: it is not whole yet

 private:
  std::string bytes_;
  size_t most_bytes_;
};

std::string library_version();

// The first frame of a client. Its layout is the same in every version, so that versions that differ can say so.
struct StoreHello {
  uint32_t protocol = store_protocol;
  int32_t rank = 0;           // as in the identity that TLS has proven
  bool is_new_user = false;   // the first connection of this user of the store
  std::string library = library_version();
  bool operator==(const StoreHello&) const = default;
};

struct StoreWelcome {
  uint32_t protocol = store_protocol;
  uint64_t epoch = 0;  // drawn by the server when it starts: tells it from the next one at the same address
  std::string library = library_version();
  bool operator==(const StoreWelcome&) const = default;
};

struct StoreAwait {
  int64_t wait_ns = 0;  // never_ns: for as long as it takes
  std::vector<std::string> keys;
  bool operator==(const StoreAwait&) const = default;
};

// Whole frames, head and all. ArgumentError for what is too large to be asked for, ResourceError for what is too large to be answered.
std::string hello_frame(const StoreHello& hello);
std::string welcome_frame(const StoreWelcome& welcome);
Result<std::string> perform_frame(const std::vector<distributed::StoreRequest>& requests);
Result<std::string> await_frame(const StoreAwait& await);
Result<std::string> answers_frame(const std::vector<distributed::StoreAnswer>& answers);
Result<std::string> values_frame(const std::vector<std::string>& values);
Status too_large_an_answer(size_t bytes);  // ResourceError
std::string missing_frame(const std::vector<uint32_t>& indices);
std::string refused_frame(const Status& status);  // of a long message the beginning

// What a frame of that kind says.
Result<StoreHello> read_hello(std::string_view body);
Result<StoreWelcome> read_welcome(std::string_view body);
Result<std::vector<distributed::StoreRequest>> read_perform(std::string_view body);
Result<StoreAwait> read_await(std::string_view body);
Result<std::vector<distributed::StoreAnswer>> read_answers(std::string_view body, size_t count);  // of so many requests
Result<std::vector<std::string>> read_values(std::string_view body, size_t count);
Result<std::vector<uint32_t>> read_missing(std::string_view body, size_t count);  // of so many keys; each is below that
// The refusal itself, or a ProtocolError.
Status read_refused(std::string_view body);

}  // namespace unisono
