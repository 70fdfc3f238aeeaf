// In munge's place, where a test needs one and there is no daemon: libmunge.so.2 with the seven functions that are used here. A credential is the payload in hexadecimal digits behind
// the user who may open it. MUNGE_STAND_IN=no-daemon: nothing can be sealed; stranger: somebody else seems to have sealed it; closed: nothing can be opened.
// Whoever opens it twice in one process, or in a process of an odd number, is told that it was replayed, as all ranks of a machine but one are.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "trust/munge_abi.hpp"
#include "unisono/settings.hpp"

namespace unisono::munge_abi {
struct Context {
  uid_t only_for = static_cast<uid_t>(-1);
  int seconds = 0, cipher = 0;
  std::string fault;
};
}  // namespace unisono::munge_abi

namespace {

namespace abi = unisono::munge_abi;

constexpr abi::Code no_socket = 6, no_credential = 8, not_for_you = 18;
constexpr const char* begins = "MUNGE:";
int opened = 0;

bool is_told(const char* fault) {
  const unisono::Environment environment = unisono::process_environment();
  const auto found = environment.find("MUNGE_STAND_IN");
  return found != environment.end() && found->second == fault;
}

abi::Code fail(abi::Context* context, abi::Code code, const char* text) {
  context->fault = text;
  return code;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

abi::Context* munge_ctx_create() { return new abi::Context; }
void munge_ctx_destroy(abi::Context* context) { delete context; }
const char* munge_ctx_strerror(abi::Context* context) { return context->fault.empty() ? nullptr : context->fault.c_str(); }
const char* munge_strerror(abi::Code code) { return code == abi::success ? "Success" : "Error"; }

abi::Code munge_ctx_set(abi::Context* context, abi::Option option, int value) {
  if (option == abi::only_for_user) context->only_for = static_cast<uid_t>(value);
  if (option == abi::seconds_to_live) context->seconds = value;
  if (option == abi::cipher) context->cipher = value;
  return abi::success;
}

abi::Code munge_encode(char** credential, abi::Context* context, const void* payload, int byte_count) {
  if (is_told("no-daemon")) return fail(context, no_socket, "nobody is at the socket");
  if (context->only_for != geteuid() || context->seconds < 60 || context->cipher != abi::aes_128) return fail(context, not_for_you, "for nobody, or for too short a time");
  std::string text = begins + std::to_string(context->only_for) + ":";
  for (int index = 0; index < byte_count; ++index) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<const unsigned char*>(payload)[index]);
    text += digits;
  }
  *credential = strdup((text + ":").c_str());
  return abi::success;
}

abi::Code munge_decode(const char* credential, abi::Context* context, void** payload, int* byte_count, uid_t* user, gid_t* group) {
  const std::string text = credential;
  if (!text.starts_with(begins) || is_told("closed")) return fail(context, no_credential, "not a credential of this cluster");
  size_t after = 0;
  *user = static_cast<uid_t>(std::stoul(text.substr(6), &after)) + (is_told("stranger") ? 1 : 0);
  *group = getegid();
  const std::string digits = text.substr(6 + after + 1);
  *byte_count = static_cast<int>(digits.size() / 2);
  char* bytes = static_cast<char*>(std::calloc(1, digits.size() / 2 + 1));
  for (int index = 0; index < *byte_count; ++index) bytes[index] = static_cast<char>(std::stoi(digits.substr(static_cast<size_t>(2 * index), 2), nullptr, 16));
  *payload = bytes;
  return opened++ > 0 || getpid() % 2 ? abi::replayed : abi::success;
}
}
#pragma GCC visibility pop
