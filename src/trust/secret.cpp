// Where a process gets its secret from, and what it keeps of it; see secret.hpp. Files are in secret_file.cpp.
#include "trust/secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <mutex>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/environment.hpp"
#include "base/shortage.hpp"
#include "trust/secret_file.hpp"

namespace unisono {
namespace {

constexpr std::string_view white_space = " \t\r\n\v\f";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(white_space);
  return first == std::string_view::npos ? std::string_view() : text.substr(first, text.find_last_not_of(white_space) + 1 - first);
}

int value_of(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

struct Secret::Page {
  explicit Page(std::string where) : source(std::move(where)) {}

  const SecretPage page;
  const std::string source;
};

Result<Secret> Secret::parse(std::string_view text, const std::string& source, const std::string& remedy) {
  const std::string_view digits = trimmed(text);
  const auto malformed = [&](const std::string& what) {
    return Status(ErrorCode::init, fmt::format("{} has {}, but a secret is {} hexadecimal digits; {}", source, what, digit_count, remedy));
  };
  if (text.size() > most_text_bytes) return malformed(fmt::format("more than {} characters", most_text_bytes));
  if (digits.size() != digit_count) return malformed(fmt::format("{} characters", digits.size()));
  const auto page = std::make_shared<const Page>(source);
  if (!page->page.bytes()) return out_of_memory();
  for (size_t index = 0; index < byte_count; ++index) {
    const int high = value_of(digits[2 * index]), low = value_of(digits[2 * index + 1]);
    if (high < 0 || low < 0) return malformed("a character of another kind");
    page->page.bytes()[index] = static_cast<std::byte>(16 * high + low);
  }
  return Secret(page);
}

Result<Secret> Secret::random(const std::string& source) {
  const auto page = std::make_shared<const Page>(source);
  if (!page->page.bytes()) return out_of_memory();
  if (getrandom(page->page.bytes(), byte_count, 0) != static_cast<ssize_t>(byte_count))
    return Status(ErrorCode::resource, fmt::format("the system gives no random bytes for a secret: {}", strerror(errno)));
  return Secret(page);
}

std::span<const std::byte, Secret::byte_count> Secret::bytes() const {
  CHECK(page_);
  return std::span<const std::byte, byte_count>(page_->page.bytes(), byte_count);
}

const std::string& Secret::source() const {
  CHECK(page_);
  return page_->source;
}

bool Secret::operator==(const Secret& other) const {
  std::byte differences{};
  for (size_t index = 0; index < byte_count; ++index) differences |= bytes()[index] ^ other.bytes()[index];
  return differences == std::byte{};
}

SecretText::~SecretText() { explicit_bzero(characters.data(), characters.size()); }

size_t write_digits(std::span<const std::byte, Secret::byte_count> bytes, SecretText& text) {
  constexpr std::string_view digits = "0123456789abcdef";
  size_t count = 0;
  for (const std::byte byte : bytes) {
    text.characters[count++] = digits[static_cast<size_t>(byte >> 4)];
    text.characters[count++] = digits[static_cast<size_t>(byte & std::byte{15})];
  }
  text.characters[count++] = '\n';
  return count;
}

namespace {

constexpr double read_s = 5;  // a launcher writes the secret before it starts anybody

// What this process was handed, or why that was no secret.
struct Handed {
  std::optional<Result<Secret>> by_descriptor, by_variable;
};

// Never destroyed: a thread may still ask while the process exits.
union Forever {
  constexpr Forever() : handed() {}
  ~Forever() {}
  Handed handed;
};

std::mutex handed_mutex;  // guards what follows, and taking variables out of the environment
constinit Forever kept;

// A child has no thread that would unlock it, so it is not forked while another thread has the lock.
const bool fork_waits = pthread_atfork([] { handed_mutex.lock(); }, [] { handed_mutex.unlock(); }, [] { handed_mutex.unlock(); }) == 0;

Status cannot_read(const std::string& source, std::string_view why, std::string_view remedy) {
  return {ErrorCode::init, fmt::format("{}: cannot read the job secret: {}; {}", source, why, remedy)};
}

// From the beginning where that can be said, so that several processes can read one file or memfd; otherwise what comes.
ssize_t read_next(int descriptor, std::span<char> into, size_t offset) {
  const ssize_t got = pread(descriptor, into.data(), into.size(), static_cast<off_t>(offset));
  return got < 0 && errno == ESPIPE ? read(descriptor, into.data(), into.size()) : got;
}

// Up to its end, or one character more than a secret may have.
Result<size_t> read_all(const Descriptor& descriptor, std::span<char> text, const std::string& source) {
  const Deadline deadline = Deadline::in_seconds(read_s);
  size_t count = 0;
  while (count < text.size()) {
    pollfd awaited{descriptor.number(), POLLIN, 0};
    const int64_t left_ms = std::max<int64_t>(deadline.remaining_ns() / 1'000'000, 0);
    const int ready = poll(&awaited, 1, static_cast<int>(left_ms));
    if (ready == 0)
      return cannot_read(source, fmt::format("its end has not come within {:g} s", read_s), "write the secret and close the writing end "
                                                                                            "before starting this process");
    const ssize_t got = ready < 0 ? ready : read_next(descriptor.number(), text.subspan(count), count);
    if (got == 0) break;
    if (got < 0 && errno != EINTR && errno != EAGAIN)
      return cannot_read(source, strerror(errno), "give the number of a pipe or a file that is open for reading");
    if (got > 0) count += static_cast<size_t>(got);
  }
  return count;
}

// A number that this process was not started with may belong to anything by now, so that is neither read nor closed.
Result<Secret> read_descriptor(std::string_view text) {
  const std::string variable(secret_descriptor_variable);
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number <= STDERR_FILENO)
    return cannot_read(variable, "it is not the number of a descriptor from 3 up", "correct or unset it");
  const std::string source = fmt::format("descriptor {} ({})", number, variable);
  const int flags = fcntl(number, F_GETFD);
  if (flags < 0) return cannot_read(source, "it is not open", fmt::format("let this process inherit it, or unset {}", variable));
  if (flags & FD_CLOEXEC)
    return cannot_read(source, "it is close-on-exec, so this process opened it itself", "let this process inherit one");
  const Descriptor descriptor(number);
  SecretText content;
  const Result<size_t> count = read_all(descriptor, content.characters, source);
  if (!count.ok()) return count.status();
  if (count.value() == 0) return cannot_read(source, "it is empty", "write the secret into it; a pipe can be read by one process only");
  return Secret::parse(content.first(count.value()), source, "write a secret as `unisono secret new` makes it");
}

Result<Secret> read_variable(std::string_view text) {
  return Secret::parse(text, std::string(secret_variable), "correct or unset it, or use a file: unisono secret new");
}

// Both are taken out of the environment, also where the first suffices. What was taken is never forgotten, or another source would count the
// next time: where memory runs out in between, that is what stays.
Handed take_handed() {
  const std::lock_guard lock(handed_mutex);
  Handed& handed = kept.handed;
  SecretText text;
  const auto take = [&text](std::string_view name) -> std::optional<std::string_view> {
    const std::optional<size_t> length = take_variable(name, text.characters);
    if (!length) return {};
    return text.first(std::min(*length, text.characters.size()));
  };
  if (const auto descriptor = take(secret_descriptor_variable)) {
    handed.by_descriptor = out_of_memory();
    handed.by_descriptor = read_descriptor(*descriptor);
  }
  if (const auto variable = take(secret_variable)) {
    handed.by_variable = out_of_memory();
    handed.by_variable = read_variable(*variable);
  }
  return handed;
}

Result<std::optional<Secret>> maybe(const Result<Secret>& secret) {
  if (!secret.ok()) return secret.status();
  return std::optional(secret.value());
}

// Whoever has put the secret itself into the variable shall not read it in an error.
Result<std::optional<Secret>> read_named_file(const std::string& path) {
  const std::string variable(secret_file_variable);
  if (path.empty()) return cannot_read(variable, "it is empty", "let it name a file, or unset it");
  if (Secret::parse(path, "", "").ok())
    return cannot_read(variable, "it holds a secret instead of the name of a file", fmt::format("use {}", secret_variable));
  return read_secret_file(path, fmt::format("{} ({})", path, variable), IfNoSecret::fail);
}

}  // namespace

Result<std::optional<Secret>> find_secret() {
  const Environment environment = process_environment();
  const Handed handed = take_handed();
  if (handed.by_descriptor) return maybe(*handed.by_descriptor);
  if (const auto file = environment.find(secret_file_variable); file != environment.end()) return read_named_file(file->second);
  if (handed.by_variable) return maybe(*handed.by_variable);
  if (const auto path = own_secret_path(environment)) return read_secret_file(*path, *path, IfNoSecret::none);
  return std::optional<Secret>();
}

Result<std::optional<Secret>> secret_to_hand_on() {
  const bool has_file = process_environment().contains(secret_file_variable);
  const Handed handed = take_handed();
  if (handed.by_descriptor) return maybe(*handed.by_descriptor);
  if (handed.by_variable && !has_file) return maybe(*handed.by_variable);
  return std::optional<Secret>();
}

Result<Descriptor> secret_descriptor(const Secret& secret) {
  SecretText text;
  const size_t count = write_digits(secret.bytes(), text);
  Descriptor memory(memfd_create("unisono-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool is_written = memory && write(memory.number(), text.characters.data(), count) == static_cast<ssize_t>(count);
  if (!is_written || fcntl(memory.number(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
    return Status(ErrorCode::resource, fmt::format("cannot pass the job secret on: {}", strerror(errno)));
  return memory;
}

}  // namespace unisono
