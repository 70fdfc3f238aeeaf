// See munge.hpp.
#include "trust/munge.hpp"

#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "base/at_end.hpp"
#include "base/in_time.hpp"
#include "base/symbols.hpp"
#include "trust/munge_abi.hpp"

namespace unisono {
namespace {

namespace abi = munge_abi;

constexpr const char* library_name = "libmunge.so.2";
constexpr const char* source_of_opened = "what munge handed out";

struct Library {
  abi::MakeContext make_context;
  abi::FreeContext free_context;
  abi::Set set;
  abi::TextOfContext text_of_context;
  abi::TextOfCode text_of_code;
  abi::Encode encode;
  abi::Decode decode;
};

struct FreeContext {
  const Library* library;
  void operator()(abi::Context* context) const { library->free_context(context); }
};
using OwnedContext = std::unique_ptr<abi::Context, FreeContext>;

using OwnedText = std::unique_ptr<void, decltype(&std::free)>;  // what munge has allocated

Result<Library> load() {
  void* loaded = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (!loaded) return Status(ErrorCode::auth, fmt::format("munge cannot be used here: {}", why_not_loaded(library_name)));
  Library library = {};
  const bool has_all = find_symbol(loaded, "munge_ctx_create", library.make_context) && find_symbol(loaded, "munge_ctx_destroy", library.free_context) && find_symbol(loaded, "munge_ctx_set", library.set) &&
                       find_symbol(loaded, "munge_ctx_strerror", library.text_of_context) && find_symbol(loaded, "munge_strerror", library.text_of_code) && find_symbol(loaded, "munge_encode", library.encode) &&
                       find_symbol(loaded, "munge_decode", library.decode);
  if (!has_all) return Status(ErrorCode::auth, fmt::format("munge cannot be used here: {} lacks what munge 0.5 has", library_name));
  return library;
}

Status said_by_munge(const Library& library, const OwnedContext& context, std::string_view what, abi::Code code) {
  const char* text = library.text_of_context(context.get());
  if (!text) text = library.text_of_code(code);
  return {ErrorCode::auth, fmt::format("munge {}: {}", what, text ? text : fmt::to_string(code))};
}

Result<std::string> credential_of(const Secret& secret, int seconds) {
  auto library = load();
  if (!library.ok()) return library.status();
  const OwnedContext context(library->make_context(), {&*library});
  if (!context) return out_of_memory();
  abi::Code code = library->set(context.get(), abi::only_for_user, geteuid());
  if (code == abi::success) code = library->set(context.get(), abi::seconds_to_live, seconds);
  if (code == abi::success) code = library->set(context.get(), abi::cipher, abi::aes_128);  // whatever the daemon does by default
  SecretText text;
  const size_t count = write_digits(secret.bytes(), text);
  char* credential = nullptr;
  if (code == abi::success) code = library->encode(&credential, context.get(), text.characters.data(), static_cast<int>(count));
  if (code != abi::success || !credential) return said_by_munge(*library, context, "cannot seal a secret", code);
  const OwnedText owned(credential, std::free);
  return std::string(credential);
}

// The ranks of one machine open the same credential: all but the first do it again, as munge sees it.
Result<Secret> secret_in(const std::string& credential) {
  auto library = load();
  if (!library.ok()) return library.status();
  const OwnedContext context(library->make_context(), {&*library});
  if (!context) return out_of_memory();
  void* payload = nullptr;
  int count = 0;
  uid_t user = 0;
  gid_t group = 0;
  const abi::Code code = library->decode(credential.c_str(), context.get(), &payload, &count, &user, &group);
  const OwnedText owned(payload, std::free);
  const AtEnd wiped([&payload, &count] { explicit_bzero(payload, payload ? static_cast<size_t>(std::max(count, 0)) : 0); });
  if ((code != abi::success && code != abi::replayed) || !payload) return said_by_munge(*library, context, "cannot open what rank 0 has sealed", code);
  if (user != geteuid()) return Status(ErrorCode::auth, fmt::format("the secret that munge hands out was sealed by user {}, and this process is user {}'s", user, geteuid()));
  return Secret::parse({static_cast<const char*>(payload), static_cast<size_t>(std::max(count, 0))}, source_of_opened, "do all ranks use one version of Unisono?");
}

Status in_words(const Status& status) {
  return status.code() == ErrorCode::timeout ? Status(ErrorCode::auth, "munge does not answer") : status;
}

}  // namespace

bool has_munge() { return load().ok(); }

Result<std::string> seal_by_munge(const Secret& secret, double good_for_s, const Deadline& deadline) {
  auto sealed = in_time<std::string>(deadline, [secret, seconds = static_cast<int>(std::clamp(good_for_s, 60.0, 3600.0))](const std::stop_token&) { return credential_of(secret, seconds); });
  if (!sealed.ok()) return in_words(sealed.status());
  return sealed;
}

Result<Secret> open_by_munge(const std::string& credential, const Deadline& deadline) {
  auto opened = in_time<Secret>(deadline, [credential](const std::stop_token&) { return secret_in(credential); });
  if (!opened.ok()) return in_words(opened.status());
  return opened;
}

}  // namespace unisono
