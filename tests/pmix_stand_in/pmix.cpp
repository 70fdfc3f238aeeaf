// In PMIx's place, where a test needs a launcher that passes things on and there is none: libpmix.so.2 with the eight functions that are used here. Ranks pass on by files in the
// folder PMIX_STAND_IN_FOLDER, and what a launcher would know is in PMIX_STAND_IN_SIZE and PMIX_STAND_IN_LOCAL_RANKS ("2": of each machine).
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "rendezvous/pmix_abi.hpp"
#include "tests/support/eventually.hpp"
#include "unisono/settings.hpp"

namespace {

namespace abi = unisono::pmix_abi;

constexpr abi::Code failed = -1, timed_out = -24;
int opened = 0, fences = 0;
std::string put_key, put_text;

std::string variable(const char* name) {
  const unisono::Environment environment = unisono::process_environment();
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}
std::filesystem::path in_folder(const std::string& name) { return std::filesystem::path(variable("PMIX_STAND_IN_FOLDER")) / name; }

bool write_file(const std::string& name, const std::string& text) {
  const std::filesystem::path partial = in_folder(name + "." + std::to_string(getpid()));
  std::ofstream(partial) << text;
  std::error_code fault;
  std::filesystem::rename(partial, in_folder(name), fault);
  return !fault;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

abi::Code PMIx_Init(abi::Process* me, abi::Info*, size_t) {
  ++opened;
  std::memset(me, 0, sizeof(*me));
  std::strncpy(me->job, variable("PMIX_NAMESPACE").c_str(), sizeof(me->job) - 1);
  me->rank = static_cast<uint32_t>(std::atoi(variable("PMIX_RANK").c_str()));
  return variable("PMIX_STAND_IN_FOLDER").empty() ? failed : abi::success;
}

abi::Code PMIx_Finalize(const abi::Info*, size_t) {
  write_file("finalized." + variable("PMIX_RANK"), std::to_string(opened));
  return abi::success;
}

abi::Code PMIx_Put(uint8_t whom, const char* key, abi::Value* value) {
  if (whom != abi::to_all || value->type != abi::string) return failed;
  put_key = key;
  put_text = value->text;
  return abi::success;
}

abi::Code PMIx_Commit() { return write_file(put_key, put_text) ? abi::success : failed; }

abi::Code PMIx_Fence(const abi::Process* all, size_t count, const abi::Info* info, size_t infos) {
  const bool is_right = count == 1 && all->rank == abi::everybody && infos == 1 && std::string(info->key) == abi::collect && info->value.flag;
  if (!is_right) return failed;
  const int fence = fences++, size = std::atoi(variable("PMIX_STAND_IN_SIZE").c_str());
  auto name = [&](int rank) { return "fence." + std::to_string(fence) + "." + std::to_string(rank); };
  write_file(name(std::atoi(variable("PMIX_RANK").c_str())), "");
  for (int rank = 0; rank < size; ++rank)
    if (!unisono::testing::eventually([&] { return std::filesystem::exists(in_folder(name(rank))); })) return timed_out;
  return abi::success;
}

abi::Code PMIx_Get(const abi::Process* whom, const char* key, const abi::Info*, size_t, abi::Value** value) {
  const std::string asked = key;
  abi::Value found = {};
  if (asked == abi::job_size && whom->rank == abi::everybody) found = {.type = abi::unsigned_32, .natural = static_cast<uint32_t>(std::atoi(variable("PMIX_STAND_IN_SIZE").c_str()))};
  else if (asked == abi::local_size && whom->rank == abi::everybody) found = {.type = abi::unsigned_32, .natural = static_cast<uint32_t>(std::atoi(variable("PMIX_STAND_IN_LOCAL_RANKS").c_str()))};
  else if (asked == abi::local_rank) found = {.type = abi::unsigned_16, .small = static_cast<uint16_t>(static_cast<int>(whom->rank) % std::atoi(variable("PMIX_STAND_IN_LOCAL_RANKS").c_str()))};
  else if (std::filesystem::exists(in_folder(asked))) {
    std::stringstream text;
    text << std::ifstream(in_folder(asked)).rdbuf();
    found = {.type = abi::string, .text = strdup(text.str().c_str())};
  } else {
    return failed;
  }
  *value = static_cast<abi::Value*>(std::malloc(sizeof(found)));
  **value = found;
  return abi::success;
}

// Nothing ever happens to this launcher.
void PMIx_Register_event_handler(abi::Code*, size_t, abi::Info*, size_t, abi::OnEvent, abi::OnRegistered is_registered, void* data) { is_registered(abi::success, 0, data); }

const char* PMIx_Error_string(abi::Code code) { return code == abi::success ? "SUCCESS" : "ERROR"; }
}
#pragma GCC visibility pop
