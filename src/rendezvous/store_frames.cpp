// See store_frames.hpp and docs/wire_format.md. Numbers are little-endian, as every machine that the library runs on has them.
#include "rendezvous/store_frames.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/legible.hpp"

namespace unisono {
namespace {

using distributed::StoreAnswer;
using distributed::StoreRequest;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view hello_begins = "uni-tcp\n";
constexpr size_t most_library_bytes = 64;
constexpr size_t most_refusal_bytes = 64_KiB;
constexpr size_t most_kept_bytes = 64_KiB;  // by a reader between frames
constexpr uint32_t new_user_flag = 1;
constexpr uint32_t last_request_kind = static_cast<uint32_t>(StoreRequest::Kind::num_keys);
constexpr uint32_t last_error_code = static_cast<uint32_t>(ErrorCode::internal);
// The least that one of a row takes, so that a count can be held against the bytes that are there.
constexpr size_t request_head_bytes = 24, key_head_bytes = 4, answer_head_bytes = 16, index_bytes = 4;

Status cannot_be(std::string what) { return {ErrorCode::protocol, std::move(what)}; }

class FrameWriter {
 public:
  explicit FrameWriter(size_t body_bytes) {
    bytes_.reserve(frame_head_bytes + body_bytes);
    bytes_.resize(frame_head_bytes);
  }
  template <typename Number>
  void number(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void count(size_t value) { number(static_cast<uint32_t>(value)); }
  void text(std::string_view text) { bytes_.append(text); }
  std::string frame(StoreFrameKind kind) {
    const auto body_bytes = static_cast<uint32_t>(bytes_.size() - frame_head_bytes), number = static_cast<uint32_t>(kind);
    std::memcpy(bytes_.data(), &body_bytes, sizeof(body_bytes));
    std::memcpy(bytes_.data() + sizeof(body_bytes), &number, sizeof(number));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// Each function says whether it was there; nothing is looked at behind the end.
class BodyReader {
 public:
  explicit BodyReader(std::string_view bytes) : rest_(bytes) {}
  size_t left() const { return rest_.size(); }
  template <typename Number>
  bool number(Number& value) {
    if (rest_.size() < sizeof(value)) return false;
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return true;
  }
  bool text(size_t bytes, size_t most, std::string& text) {
    if (bytes > most || bytes > rest_.size()) return false;
    text.assign(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return true;
  }
  // How many follow, of which each takes so many bytes or more.
  bool count(size_t least_bytes, size_t& count) {
    uint32_t value = 0;
    if (!number(value) || value > most_requests || value > rest_.size() / least_bytes) return false;
    count = value;
    return true;
  }

 private:
  std::string_view rest_;
};

Status too_long(std::string_view what, std::string_view key, size_t bytes, size_t most) {
  return {ErrorCode::argument, fmt::format("{} \"{}\" has {} bytes; a TCPStore takes {}", what, key.substr(0, 40), bytes, readable_size(static_cast<int64_t>(most)))};
}

Status too_many(size_t count) {
  return {ErrorCode::argument, fmt::format("{} keys in one call; a TCPStore takes {}", count, most_requests)};
}

Status larger_than_a_frame(ErrorCode code, size_t bytes) {
  return {code, fmt::format("{} in one call; a TCPStore moves {}: make several calls of it", readable_size(static_cast<int64_t>(bytes)),
                            readable_size(most_frame_bytes))};
}

bool read_request(BodyReader& reader, StoreRequest& request) {
  uint32_t kind = 0, key = 0, value = 0, expected = 0;
  if (!reader.number(kind) || !reader.number(key) || !reader.number(value) || !reader.number(expected) || !reader.number(request.amount)) return false;
  if (kind > last_request_kind) return false;
  request.kind = static_cast<StoreRequest::Kind>(kind);
  return reader.text(key, most_key_bytes, request.key) && reader.text(value, most_value_bytes, request.value) &&
         reader.text(expected, most_value_bytes, request.expected);
}

bool read_answer(BodyReader& reader, StoreAnswer& answer) {
  uint32_t found = 0, value = 0;
  if (!reader.number(found) || !reader.number(value) || !reader.number(answer.number) || found > 1) return false;
  answer.found = found == 1;
  return reader.text(value, most_value_bytes, answer.value);
}

}  // namespace

void StoreFrameReader::feed(std::span<const std::byte> bytes) { bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); }

Result<std::optional<StoreFrame>> StoreFrameReader::next() {
  if (bytes_.size() < frame_head_bytes) return std::optional<StoreFrame>();
  BodyReader head(bytes_);
  uint32_t body_bytes = 0, kind = 0;
  if (!head.number(body_bytes) || !head.number(kind) || kind < static_cast<uint32_t>(StoreFrameKind::hello) || kind > static_cast<uint32_t>(StoreFrameKind::refused))
    return cannot_be(fmt::format("a frame of kind {}, which there is not", kind));
  if (body_bytes > most_bytes_) return cannot_be(fmt::format("a frame of {} bytes; {} are allowed here", body_bytes, most_bytes_));
  if (bytes_.size() - frame_head_bytes < body_bytes) return std::optional<StoreFrame>();
  StoreFrame frame{static_cast<StoreFrameKind>(kind), bytes_.substr(frame_head_bytes, body_bytes)};
  bytes_.erase(0, frame_head_bytes + body_bytes);
  if (bytes_.empty() && bytes_.capacity() > most_kept_bytes) bytes_.shrink_to_fit();
  return std::optional<StoreFrame>(std::move(frame));
}

std::string library_version() { return UNISONO_VERSION; }

std::string hello_frame(const StoreHello& hello) {
  FrameWriter writer(hello_begins.size() + 16 + hello.library.size());
  writer.text(hello_begins);
  writer.number(hello.protocol);
  writer.number(hello.rank);
  writer.number(hello.is_new_user ? new_user_flag : 0u);
  writer.count(hello.library.size());
  writer.text(hello.library);
  return writer.frame(StoreFrameKind::hello);
}

Result<StoreHello> read_hello(std::string_view body) {
  BodyReader reader(body);
  StoreHello hello;
  std::string begins;
  uint32_t flags = 0, library = 0;
  if (!reader.text(hello_begins.size(), hello_begins.size(), begins) || begins != hello_begins || !reader.number(hello.protocol) || !reader.number(hello.rank) ||
      !reader.number(flags) || !reader.number(library) || !reader.text(library, most_library_bytes, hello.library) || !is_legible(hello.library))
    return cannot_be("a hello that is none");
  hello.is_new_user = (flags & new_user_flag) != 0;
  const bool is_of_ours = hello.protocol == store_protocol;  // of others there may be more to say
  if (is_of_ours && (reader.left() != 0 || (flags & ~new_user_flag) != 0)) return cannot_be("a hello that is too long, or has flags that there are not");
  return hello;
}

std::string welcome_frame(const StoreWelcome& welcome) {
  FrameWriter writer(16 + welcome.library.size());
  writer.number(welcome.protocol);
  writer.number(welcome.epoch);
  writer.count(welcome.library.size());
  writer.text(welcome.library);
  return writer.frame(StoreFrameKind::welcome);
}

Result<StoreWelcome> read_welcome(std::string_view body) {
  BodyReader reader(body);
  StoreWelcome welcome;
  uint32_t library = 0;
  if (!reader.number(welcome.protocol) || !reader.number(welcome.epoch) || !reader.number(library) ||
      !reader.text(library, most_library_bytes, welcome.library) || reader.left() != 0 || !is_legible(welcome.library))
    return cannot_be("a welcome that is none");
  return welcome;
}

Result<std::string> perform_frame(const std::vector<StoreRequest>& requests) {
  if (requests.size() > most_requests) return too_many(requests.size());
  size_t bytes = 4;
  for (const StoreRequest& request : requests) {
    if (request.key.size() > most_key_bytes) return too_long("the key", request.key, request.key.size(), most_key_bytes);
    const size_t longest = std::max(request.value.size(), request.expected.size());
    if (longest > most_value_bytes) return too_long("the value of", request.key, longest, most_value_bytes);
    bytes += request_head_bytes + request.key.size() + request.value.size() + request.expected.size();
  }
  if (bytes > most_frame_bytes) return larger_than_a_frame(ErrorCode::argument, bytes);
  FrameWriter writer(bytes);
  writer.count(requests.size());
  for (const StoreRequest& request : requests) {
    writer.number(static_cast<uint32_t>(request.kind));
    writer.count(request.key.size());
    writer.count(request.value.size());
    writer.count(request.expected.size());
    writer.number(request.amount);
    writer.text(request.key);
    writer.text(request.value);
    writer.text(request.expected);
  }
  return writer.frame(StoreFrameKind::perform);
}

Result<std::vector<StoreRequest>> read_perform(std::string_view body) {
  BodyReader reader(body);
  size_t count = 0;
  if (!reader.count(request_head_bytes, count)) return cannot_be("more requests than there can be");
  std::vector<StoreRequest> requests(count);
  for (StoreRequest& request : requests)
    if (!read_request(reader, request)) return cannot_be("a request that is too long, cut off or of no kind");
  if (reader.left() != 0) return cannot_be("more than the requests");
  return requests;
}

Result<std::string> await_frame(const StoreAwait& await) {
  if (await.keys.size() > most_requests) return too_many(await.keys.size());
  size_t bytes = 12;
  for (const std::string& key : await.keys) {
    if (key.size() > most_key_bytes) return too_long("the key", key, key.size(), most_key_bytes);
    bytes += key_head_bytes + key.size();
  }
  if (bytes > most_frame_bytes) return larger_than_a_frame(ErrorCode::argument, bytes);
  FrameWriter writer(bytes);
  writer.number(await.wait_ns);
  writer.count(await.keys.size());
  for (const std::string& key : await.keys) {
    writer.count(key.size());
    writer.text(key);
  }
  return writer.frame(StoreFrameKind::await);
}

Result<StoreAwait> read_await(std::string_view body) {
  BodyReader reader(body);
  StoreAwait await;
  size_t count = 0;
  if (!reader.number(await.wait_ns) || await.wait_ns < 0 || !reader.count(key_head_bytes, count)) return cannot_be("waiting for keys that cannot be");
  await.keys.resize(count);
  for (std::string& key : await.keys) {
    uint32_t bytes = 0;
    if (!reader.number(bytes) || !reader.text(bytes, most_key_bytes, key)) return cannot_be("a key that is too long or cut off");
  }
  if (reader.left() != 0) return cannot_be("more than the keys");
  return await;
}

Status too_large_an_answer(size_t bytes) { return larger_than_a_frame(ErrorCode::resource, bytes); }

Result<std::string> answers_frame(const std::vector<StoreAnswer>& answers) {
  size_t bytes = 4;
  for (const StoreAnswer& answer : answers) bytes += answer_head_bytes + answer.value.size();
  if (bytes > most_frame_bytes) return too_large_an_answer(bytes);
  FrameWriter writer(bytes);
  writer.count(answers.size());
  for (const StoreAnswer& answer : answers) {
    writer.number(answer.found ? 1u : 0u);
    writer.count(answer.value.size());
    writer.number(answer.number);
    writer.text(answer.value);
  }
  return writer.frame(StoreFrameKind::answers);
}

Result<std::vector<StoreAnswer>> read_answers(std::string_view body, size_t count) {
  BodyReader reader(body);
  size_t there = 0;
  if (!reader.count(answer_head_bytes, there) || there != count) return cannot_be("another number of answers than of requests");
  std::vector<StoreAnswer> answers(count);
  for (StoreAnswer& answer : answers)
    if (!read_answer(reader, answer)) return cannot_be("an answer that is too long or cut off");
  if (reader.left() != 0) return cannot_be("more than the answers");
  return answers;
}

Result<std::string> values_frame(const std::vector<std::string>& values) {
  size_t bytes = 4;
  for (const std::string& value : values) bytes += key_head_bytes + value.size();
  if (bytes > most_frame_bytes) return too_large_an_answer(bytes);
  FrameWriter writer(bytes);
  writer.count(values.size());
  for (const std::string& value : values) {
    writer.count(value.size());
    writer.text(value);
  }
  return writer.frame(StoreFrameKind::values);
}

Result<std::vector<std::string>> read_values(std::string_view body, size_t count) {
  BodyReader reader(body);
  size_t there = 0;
  if (!reader.count(key_head_bytes, there) || there != count) return cannot_be("another number of values than of keys");
  std::vector<std::string> values(count);
  for (std::string& value : values) {
    uint32_t bytes = 0;
    if (!reader.number(bytes) || !reader.text(bytes, most_value_bytes, value)) return cannot_be("a value that is too long or cut off");
  }
  if (reader.left() != 0) return cannot_be("more than the values");
  return values;
}

std::string missing_frame(const std::vector<uint32_t>& indices) {
  FrameWriter writer(4 + index_bytes * indices.size());
  writer.count(indices.size());
  for (uint32_t index : indices) writer.number(index);
  return writer.frame(StoreFrameKind::missing);
}

Result<std::vector<uint32_t>> read_missing(std::string_view body, size_t count) {
  BodyReader reader(body);
  size_t there = 0;
  if (!reader.count(index_bytes, there) || there > count || reader.left() != there * index_bytes) return cannot_be("another number of missing keys than there can be");
  std::vector<uint32_t> indices(there);
  for (uint32_t& index : indices)
    if (!reader.number(index) || index >= count) return cannot_be("a missing key that nobody waits for");
  return indices;
}

std::string refused_frame(const Status& status) {
  const std::string_view text = std::string_view(status.message()).substr(0, most_refusal_bytes);
  FrameWriter writer(8 + text.size());
  writer.number(static_cast<uint32_t>(status.code()));
  writer.count(text.size());
  writer.text(text);
  return writer.frame(StoreFrameKind::refused);
}

Status read_refused(std::string_view body) {
  BodyReader reader(body);
  uint32_t code = 0, bytes = 0;
  std::string text;
  if (!reader.number(code) || !reader.number(bytes) || !reader.text(bytes, most_refusal_bytes, text) || reader.left() != 0 || code == 0 ||
      code > last_error_code)
    return cannot_be("a refusal that is none");
  return {static_cast<ErrorCode>(code), legible(text, most_refusal_bytes)};
}

}  // namespace unisono
