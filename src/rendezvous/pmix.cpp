// See pmix.hpp.
#include "rendezvous/pmix.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <optional>
#include <vector>

#include "base/all_signals_blocked.hpp"
#include "base/in_time.hpp"
#include "base/log.hpp"
#include "base/symbols.hpp"
#include "rendezvous/launch_values.hpp"
#include "rendezvous/pmix_abi.hpp"

namespace unisono {
namespace {

namespace abi = pmix_abi;

constexpr const char* library_name = "libpmix.so.2";
constexpr int grace_s = 3;  // of a process whose launcher is gone

// Those of the process, made by the first that asks for them, and never taken away: threads may still use them while the process exits.
std::mutex& mutex_of_process() {
  static std::mutex& mutex = *new std::mutex;
  return mutex;
}
std::shared_ptr<Pmix>& pmix_of_process() {
  static auto& pmix = *new std::shared_ptr<Pmix>;
  return pmix;
}

// One that the program has loaded already goes before all others: two could not both speak with the launcher. Then the launcher's own, where it says that it lies elsewhere.
void* load_library(std::string& tried) {
  if (void* loaded = dlopen(library_name, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  std::vector<std::string> names;
  const Environment environment = process_environment();
  for (const char* variable : {"PMIX_PREFIX", "OPAL_PREFIX", "PRTE_PREFIX"})
    for (const char* folder : {"lib", "lib64", "lib/openmpi"})
      if (is_set(environment, variable)) names.push_back(fmt::format("{}/{}/{}", text_of(environment, variable), folder, library_name));
  names.push_back(library_name);
  for (const std::string& name : names) {
    // Its plugins look for its symbols among those of the whole process.
    if (void* loaded = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) return loaded;
    tried += (tried.empty() ? "" : "; ") + std::string(why_not_loaded(name.c_str()));
  }
  return nullptr;
}

abi::Process process_of(const std::string& job, uint32_t rank) {
  abi::Process process = {};
  std::strncpy(process.job, job.c_str(), sizeof(process.job) - 1);
  process.rank = rank;
  return process;
}

struct FreeValue {
  void operator()(abi::Value* value) const {
    if (value->type == abi::string) std::free(value->text);
    std::free(value);
  }
};
using OwnedValue = std::unique_ptr<abi::Value, FreeValue>;

std::optional<int64_t> number_in(const abi::Value& value) {
  switch (value.type) {
    case abi::integer: return value.number;
    case abi::unsigned_16: return value.small;
    case abi::unsigned_32: return value.natural;
    default: return std::nullopt;
  }
}

// Launchers end the processes that they started when they end themselves, and one that was killed cannot. Called by PMIx's thread.
constexpr abi::OnEvent end_without_launcher = [](size_t, abi::Code, const abi::Process*, abi::Info*, size_t, abi::Info*, size_t, abi::EventIsOver is_over, void* data) {
  Log("warning", -1).write(LogLevel::error, fmt::format("the launcher that started process {} is gone; the process ends (SIGTERM, and SIGKILL {} s later)", getpid(), grace_s));
  if (is_over) is_over(abi::event_is_dealt_with, nullptr, 0, nullptr, nullptr, data);
  sigevent by_kill = {};
  by_kill.sigev_notify = SIGEV_SIGNAL;
  by_kill.sigev_signo = SIGKILL;
  timer_t timer = {};
  const itimerspec once = {.it_interval = {}, .it_value = {.tv_sec = grace_s, .tv_nsec = 0}};
  if (timer_create(CLOCK_MONOTONIC, &by_kill, &timer) == 0) timer_settime(timer, 0, &once, nullptr);
  kill(getpid(), SIGTERM);
};
void is_registered(abi::Code, size_t, void*) {}

}  // namespace

struct Pmix::Library {
  abi::Init init;
  abi::Finalize finalize;
  abi::Put put;
  abi::Commit commit;
  abi::Fence fence;
  abi::Get get;
  abi::Register register_for;
  abi::TextOfCode text_of_code;

  Status wrong(const char* call, abi::Code code) const {
    const char* text = text_of_code(code);
    return {ErrorCode::init, fmt::format("the launcher could not be asked: {} returned {} ({})", call, code, text ? text : "?")};
  }
  Result<OwnedValue> ask(const abi::Process& whom, const char* key) const {
    abi::Value* value = nullptr;
    const abi::Code code = get(&whom, key, nullptr, 0, &value);
    if (code != abi::success || !value) return wrong("PMIx_Get", code);
    return OwnedValue(value);
  }
  Result<int> number(const abi::Process& whom, const char* key) const {
    auto value = ask(whom, key);
    if (!value.ok()) return value.status();
    const std::optional<int64_t> number = number_in(**value);
    if (!number || *number < 0 || *number > INT32_MAX) return Status(ErrorCode::init, fmt::format("what the launcher says by PMIx as {} is not a number", key));
    return static_cast<int>(*number);
  }
  // Whatever is wrong on the way to the fence: the others wait in it.
  Result<std::string> pass_on(const abi::Process& me, const std::string& key, std::string said) const {
    abi::Code put_code = abi::success, commit_code = abi::success;
    if (me.rank == 0) {
      abi::Value value = {.type = abi::string, .text = said.data()};
      put_code = put(abi::to_all, key.c_str(), &value);
      commit_code = commit();
    }
    const abi::Process all = process_of(me.job, abi::everybody);
    abi::Info collect = {};
    std::strncpy(collect.key, abi::collect, sizeof(collect.key) - 1);
    collect.value = {.type = abi::boolean, .flag = true};
    if (const abi::Code code = fence(&all, 1, &collect, 1); code != abi::success) return wrong("PMIx_Fence", code);
    if (put_code != abi::success) return wrong("PMIx_Put", put_code);
    if (commit_code != abi::success) return wrong("PMIx_Commit", commit_code);
    if (me.rank == 0) return said;
    auto value = ask(process_of(me.job, 0), key.c_str());
    if (!value.ok()) return value.status();
    if ((*value)->type != abi::string || !(*value)->text) return Status(ErrorCode::init, "what rank 0 said by PMIx is not a text");
    return std::string((*value)->text);
  }
};

Pmix::Pmix(std::shared_ptr<const Library> library, std::string job, int rank) : library_(std::move(library)), job_(std::move(job)), rank_(rank) {}

Result<std::shared_ptr<const Pmix::Library>> Pmix::load() {
  std::string tried;
  void* loaded = load_library(tried);
  if (!loaded) return Status(ErrorCode::init, fmt::format("the launcher's PMIx cannot be used here: {}; `apt-get install libpmix2` brings the library, and PMIX_PREFIX=/its/prefix names another place", tried));
  Library library = {};
  const bool has_all = find_symbol(loaded, "PMIx_Init", library.init) && find_symbol(loaded, "PMIx_Finalize", library.finalize) && find_symbol(loaded, "PMIx_Put", library.put) &&
                       find_symbol(loaded, "PMIx_Commit", library.commit) && find_symbol(loaded, "PMIx_Fence", library.fence) && find_symbol(loaded, "PMIx_Get", library.get) &&
                       find_symbol(loaded, "PMIx_Register_event_handler", library.register_for) && find_symbol(loaded, "PMIx_Error_string", library.text_of_code);
  if (!has_all) return Status(ErrorCode::init, fmt::format("the launcher's PMIx cannot be used here: {} lacks what PMIx 2 has", library_name));
  return std::make_shared<const Library>(library);
}

Result<std::shared_ptr<Pmix>> Pmix::open() {
  auto library = load();
  if (!library.ok()) return library.status();
  const AllSignalsBlocked blocked;  // its own thread inherits that
  abi::Process me = {};
  if (const abi::Code code = (*library)->init(&me, nullptr, 0); code != abi::success) return (*library)->wrong("PMIx_Init", code);
  me.job[sizeof(me.job) - 1] = 0;
  abi::Code lost[] = {abi::lost_connection, abi::lost_server};
  (*library)->register_for(lost, std::size(lost), nullptr, 0, end_without_launcher, is_registered, nullptr);
  return std::shared_ptr<Pmix>(new Pmix(std::move(*library), me.job, static_cast<int>(me.rank)));
}

// A child of fork() leaves it alone: it would end what its parent uses. So does a process that waits in there still.
void Pmix::close_at_exit() {
  const std::lock_guard lock(mutex_of_process());
  const std::shared_ptr<Pmix>& pmix = pmix_of_process();
  if (pmix && !pmix->fork_mark_.forked() && !pmix->is_stuck_) pmix->library_->finalize(nullptr, 0);
}

Result<std::shared_ptr<Pmix>> Pmix::of_process(const Deadline& deadline) {
  const std::lock_guard lock(mutex_of_process());
  std::shared_ptr<Pmix>& pmix = pmix_of_process();
  if (pmix && pmix->fork_mark_.forked()) return Status(ErrorCode::init, "a forked child cannot speak with the launcher, which knows its parent");
  if (pmix) return pmix;
  auto opened = in_time<std::shared_ptr<Pmix>>(deadline, [](const std::stop_token&) { return open(); });
  if (opened.status().code() == ErrorCode::timeout) return Status(ErrorCode::init, "the launcher does not answer (PMIx_Init)");
  if (!opened.ok()) return opened.status();
  pmix = std::move(*opened);
  static_cast<void>(std::atexit(close_at_exit));
  return pmix;
}

Result<int> Pmix::number_of_job(const char* key, const Deadline& deadline) const {
  return in_time<int>(deadline, [library = library_, whom = process_of(job_, abi::everybody), key](const std::stop_token&) { return library->number(whom, key); });
}

Result<int> Pmix::number_of_rank(const char* key, const Deadline& deadline) const {
  return in_time<int>(deadline, [library = library_, whom = process_of(job_, static_cast<uint32_t>(rank_)), key](const std::stop_token&) { return library->number(whom, key); });
}

Result<std::string> Pmix::told_by_rank_0(const std::string& said, const Deadline& deadline) {
  std::unique_lock lock(mutex_of_process());
  const std::string key = fmt::format("unisono.{}", told_count_++);
  lock.unlock();
  auto told = in_time<std::string>(deadline, [library = library_, me = process_of(job_, static_cast<uint32_t>(rank_)), key, said](const std::stop_token&) {
    return library->pass_on(me, key, said);
  });
  const bool is_left_behind = told.status().code() == ErrorCode::timeout || told.status().code() == ErrorCode::revoked;
  lock.lock();
  is_stuck_ |= is_left_behind;
  return told;
}

}  // namespace unisono
