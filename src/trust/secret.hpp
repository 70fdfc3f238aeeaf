// The job secret: 256 bits by which ranks on different machines know that they belong together. Nothing here prints, logs or
// formats them. docs/secrets.md is the user's side of it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "trust/secret_page.hpp"
#include "unisono/status.hpp"

namespace unisono {

// A handle: copies share the bytes, which lie on a page of their own that core dumps leave out, and are overwritten when the last copy
// goes. Any thread may use it; a forked child has it, too.
class Secret {
 public:
  static constexpr size_t byte_count = SecretPage::byte_count, digit_count = 2 * byte_count;
  static constexpr size_t most_text_bytes = 1024;  // of a secret's text with white space around it

  // From 64 hexadecimal digits, white space around them allowed. `source` says where the text was, for messages; `remedy` what
  // to do if it is not a secret. InitError, without any of the text.
  static Result<Secret> parse(std::string_view text, const std::string& source, const std::string& remedy);

  // A new one. ResourceError: no memory, or the system gives no random bytes.
  static Result<Secret> random(const std::string& source);

  std::span<const std::byte, byte_count> bytes() const;
  const std::string& source() const;             // where it was found: "UNISONO_SECRET", "/home/ada/.config/unisono/secret"
  bool operator==(const Secret& other) const;    // takes as long whatever differs

 private:
  struct Page;
  explicit Secret(std::shared_ptr<const Page> page) : page_(std::move(page)) {}

  std::shared_ptr<const Page> page_;  // null once moved from
};

// A buffer for a secret's text, overwritten when it goes. Neither copied nor moved.
struct SecretText {
  SecretText() = default;
  ~SecretText();
  SecretText(const SecretText&) = delete;

  std::string_view first(size_t count) const { return {characters.data(), count}; }

  std::array<char, Secret::most_text_bytes + 1> characters;  // one more than allowed, so that too much is noticed
};

// The text form and a line end; returns how many characters that are.
size_t write_digits(std::span<const std::byte, Secret::byte_count> bytes, SecretText& text);

// The secret from the first of these that is there:
//   UNISONO_SECRET_FD     an inherited descriptor
//   UNISONO_SECRET_FILE   a file: see secret_file.hpp
//   UNISONO_SECRET        the digits themselves
//   ~/.config/unisono/secret
// None if none is there. A source that is there and cannot be used is an error that names it and the remedy, and the later ones are not
// tried: InitError, or AuthError for a file that others could have read or written. Descriptor and variable are read once, closed,
// overwritten, and kept in the process for the next World; an error is kept just so, until the variable is set anew. Files are read
// each time. Any thread may call it, and so may a forked child: fork() waits for a thread that reads the descriptor.
Result<std::optional<Secret>> find_secret();

// The same as far as a child process cannot find it by itself: from the descriptor, or from the variable where no file comes before it.
Result<std::optional<Secret>> secret_to_hand_on();

// A descriptor to pass on as UNISONO_SECRET_FD, to any number of processes. It is close-on-exec, so whoever starts them has to change that.
Result<Descriptor> secret_descriptor(const Secret& secret);

}  // namespace unisono
