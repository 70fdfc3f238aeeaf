// The one place that reads the environment; see environment.hpp and unisono/settings.hpp.
//
// Who writes: take_variable(), one thread at a time, and only to entries of the variables that it is for. Another thread may be in
// process_environment(), which reads nothing of such an entry but its name. The name goes last and by one byte, an atomic: the entry is
// then the empty string, which nobody takes for a variable. Order: relaxed, for nothing hangs on when that is seen. The array of entries
// is not changed, as unsetenv() would, so whoever walks over it misses none.
#include "base/environment.hpp"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "unisono/settings.hpp"

namespace unisono {
namespace {

bool is_named(char* entry, std::string_view name) {
  if (std::atomic_ref(*entry).load(std::memory_order_relaxed) != name[0]) return false;
  for (size_t index = 1; index < name.size(); ++index)
    if (entry[index] != name[index]) return false;  // at the end of a shorter entry, too
  return entry[name.size()] == '=';
}

// A program may have given putenv() a literal, which cannot be written to. A system call says so, where we would be killed.
bool is_writable(char* byte) { return getrandom(byte, 1, 0) == 1; }

// Byte by byte. memcpy() would leave the secret in vector registers, which the dynamic linker saves on the stack when it next looks up a
// function, and there it would stay.
void copy_slowly(const volatile char* from, std::span<char> to) {
  for (char& byte : to) byte = *from++;
}

void overwrite(char* entry, std::string_view name, size_t length) {
  char* value = entry + name.size() + 1;
  if (!is_writable(value)) {
    unsetenv(std::string(name).c_str());
    return;
  }
  explicit_bzero(value, length);
  std::atomic_ref(*entry).store('\0', std::memory_order_relaxed);
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry && *entry; ++entry) {
    if (is_named(*entry, secret_variable) || is_named(*entry, secret_descriptor_variable)) continue;
    if (std::atomic_ref(**entry).load(std::memory_order_relaxed) == '\0') continue;  // taken
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

// A name may be there twice; the first one is what the C library gives, and what is taken here.
std::optional<size_t> take_variable(std::string_view name, std::span<char> value) {
  std::optional<size_t> taken;
  for (char** entry = environ; entry && *entry;) {
    if (!is_named(*entry, name)) {
      ++entry;
      continue;
    }
    char* const text = *entry;
    const size_t length = strlen(text + name.size() + 1);
    if (!taken) {
      taken = length;
      copy_slowly(text + name.size() + 1, value.first(std::min(length, value.size())));
    }
    if (length > 0) overwrite(text, name, length);
    if (*entry == text) ++entry;  // otherwise unsetenv() has moved the next one here
  }
  return taken;
}

MoreVariables::MoreVariables(std::span<const char* const> entries) : before_(environ) {
  for (char** entry = environ; entry && *entry; ++entry) all_.push_back(*entry);
  const auto is_set = [this](std::string_view name) { return std::ranges::any_of(all_, [&](const char* one) { return std::string_view(one).starts_with(name); }); };
  for (const char* entry : entries) {
    const std::string_view text(entry);
    if (!is_set(text.substr(0, text.find('=') + 1))) all_.push_back(const_cast<char*>(entry));  // NOLINT(cppcoreguidelines-pro-type-const-cast): as in any environment, nobody writes to it
  }
  all_.push_back(nullptr);
}

void MoreVariables::enter() const {
  char** expected = before_;
  std::atomic_ref(environ).compare_exchange_strong(expected, const_cast<char**>(all_.data()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

void MoreVariables::leave() const {
  auto* expected = const_cast<char**>(all_.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  std::atomic_ref(environ).compare_exchange_strong(expected, before_);
}

}  // namespace unisono
