// See greeting.hpp and docs/wire_format.md.
#include "transport/greeting.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/legible.hpp"
#include "unisono/settings.hpp"

namespace unisono {
namespace {

static_assert(std::endian::native == std::endian::little, "docs/wire_format.md: numbers are little-endian");
constexpr uint32_t form_of_numbers = 0x01020300 | sizeof(void*);  // reads otherwise where bytes are in another order
constexpr char greeting_begins[8] = {'u', 'n', 'i', 's', 'o', 'n', 'o', '\n'};

struct GreetingWords {
  char begins[8] = {};
  uint32_t form = form_of_numbers;
  uint32_t bytes = sizeof(GreetingWords);
  uint32_t protocol = 0;
  char library[28] = {};
  SocketKey key;
};
static_assert(offsetof(GreetingWords, form) == 8 && offsetof(GreetingWords, bytes) == 12 && offsetof(GreetingWords, protocol) == greeting_head_bytes);
static_assert(offsetof(GreetingWords, library) == 20 && offsetof(GreetingWords, key) == 48 && sizeof(GreetingWords) == 88);
static_assert(offsetof(SocketKey, group) == 8 && offsetof(SocketKey, use) == 16 && offsetof(SocketKey, from) == 20 && offsetof(SocketKey, to) == 24 &&
              offsetof(SocketKey, sealed) == 28 && offsetof(SocketKey, number) == 32 && offsetof(SocketKey, of) == 36 && sizeof(SocketKey) == 40);
static_assert(sizeof(GreetingWords) <= most_greeting_bytes && sizeof(UNISONO_VERSION) <= sizeof(GreetingWords::library));

struct VerdictWords {
  uint32_t code = 0;  // the ErrorCode; 0: welcome
  char text[252] = {};
};
static_assert(sizeof(VerdictWords) == verdict_bytes && offsetof(VerdictWords, text) == 4);

Status no_greeting(std::string_view what) { return {ErrorCode::protocol, fmt::format("what it said is no greeting of a rank: {}", what)}; }

template <typename Words>
std::string bytes_of_words(const Words& words) {
  return {reinterpret_cast<const char*>(&words), sizeof(words)};
}

bool ends_with_zeros(std::span<const char> field, size_t text_bytes) {
  return std::ranges::all_of(field.subspan(text_bytes), [](char byte) { return byte == 0; });
}

bool key_can_be(const SocketKey& key) {
  return key.use >= 0 && key.use < most_uses && key.from >= 0 && key.to >= 0 && key.from != key.to && (key.sealed >= 0 && key.sealed <= leads_to_fabric) &&
         key.of >= 1 && key.of <= most_sockets_per_peer && key.number >= 0 && (key.group == 0 || key.number < key.of);
}

}  // namespace

std::string greeting_words(const Greeting& greeting) {
  GreetingWords words;
  std::ranges::copy(greeting_begins, words.begins);
  words.protocol = greeting.protocol;
  const std::string_view library = greeting.library.empty() ? std::string_view(UNISONO_VERSION) : greeting.library;
  std::ranges::copy(library.substr(0, sizeof(words.library) - 1), words.library);
  words.key = greeting.key;
  return bytes_of_words(words);
}

Result<size_t> greeting_length(std::span<const std::byte, greeting_head_bytes> head) {
  uint32_t form = 0, bytes = 0;
  std::memcpy(&form, head.data() + offsetof(GreetingWords, form), sizeof(form));
  std::memcpy(&bytes, head.data() + offsetof(GreetingWords, bytes), sizeof(bytes));
  if (std::memcmp(head.data(), greeting_begins, sizeof(greeting_begins)) != 0) return no_greeting("it begins otherwise");
  if (form != form_of_numbers)
    return Status(ErrorCode::version, "its machine is big-endian or not of 64 bits, and this one is little-endian with 64 bits; all machines of a job have to be alike");
  if (bytes < offsetof(GreetingWords, key) || bytes > most_greeting_bytes) return no_greeting(fmt::format("{} bytes, which cannot be", bytes));
  return static_cast<size_t>(bytes);
}

Result<Greeting> read_greeting(std::span<const std::byte> bytes) {
  if (bytes.size() < greeting_head_bytes) return no_greeting("it is cut off");
  auto length = greeting_length(bytes.first<greeting_head_bytes>());
  if (!length.ok()) return length.status();
  if (*length != bytes.size()) return no_greeting("it has another length than it says");
  GreetingWords words;
  std::memcpy(static_cast<void*>(&words), bytes.data(), std::min(bytes.size(), sizeof(words)));
  const std::string_view library = text_in(words.library);
  if (library.empty() || !is_legible(library) || !ends_with_zeros(words.library, library.size())) return no_greeting("it has no version");
  Greeting greeting{words.protocol, std::string(library), {}};
  if (words.protocol != rank_protocol) return greeting;
  if (bytes.size() != sizeof(words)) return no_greeting(fmt::format("{} bytes, where {} belong", bytes.size(), sizeof(words)));
  if (!key_can_be(words.key)) return no_greeting("what the connection is for cannot be");
  greeting.key = words.key;
  return greeting;
}

Status check_versions(const Greeting& greeting, int from, int to) {
  if (greeting.protocol == rank_protocol && greeting.library == UNISONO_VERSION) return Status::success();
  const auto named = [](std::string_view library, uint32_t protocol) { return protocol == rank_protocol ? std::string(library) : fmt::format("{} (protocol {})", library, protocol); };
  return {ErrorCode::version, fmt::format("rank {} speaks {}, rank {} speaks {}; install one version of the library everywhere", from,
                                          named(greeting.library, greeting.protocol), to, UNISONO_VERSION)};
}

std::string verdict_words(const Status& verdict) {
  VerdictWords words;
  words.code = static_cast<uint32_t>(verdict.code());
  if (!verdict.ok()) std::ranges::copy(legible(verdict.message(), sizeof(words.text) - 1), words.text);
  return bytes_of_words(words);
}

Status read_verdict(std::span<const std::byte> bytes) {
  const auto none = [](std::string_view what) { return Status(ErrorCode::protocol, fmt::format("what it answered is no answer of a rank: {}", what)); };
  VerdictWords words;
  if (bytes.size() != sizeof(words)) return none("it has another length");
  std::memcpy(&words, bytes.data(), sizeof(words));
  const std::string_view text = text_in(words.text);
  if (words.text[sizeof(words.text) - 1] != 0 || !ends_with_zeros(words.text, text.size())) return none("its text does not end");
  if (words.code > static_cast<uint32_t>(ErrorCode::internal)) return none(fmt::format("code {}", words.code));
  if (words.code == 0) return text.empty() ? Status::success() : none("a welcome with a text");
  return {static_cast<ErrorCode>(words.code), legible(text)};
}

}  // namespace unisono
