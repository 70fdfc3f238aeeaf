// See ucx_library.hpp.
#include "transport/ucx_library.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/environment.hpp"
#include "base/symbols.hpp"

namespace unisono {
namespace {

constexpr const char* ucx_library_name = "libucp.so.0";

// While it is loaded UCX reads what it is to do beside moving messages: it would take over the signals of crashes, and the program's mmap() and munmap(), and write to standard output.
constexpr const char* quiet_ucx[] = {"UCX_HANDLE_ERRORS=none", "UCX_ERROR_SIGNALS=", "UCX_MEM_EVENTS=no", "UCX_LOG_LEVEL=fatal", "UCX_LOG_FILE=stderr", "UCX_WARN_UNUSED_ENV_VARS=n"};

bool find_ucx(void* loaded, UcxLibrary& library) {
  return find_symbol(loaded, "ucp_config_read", library.read_config) && find_symbol(loaded, "ucp_config_modify", library.modify_config) && find_symbol(loaded, "ucp_config_release", library.release_config) &&
         find_symbol(loaded, "ucp_init_version", library.init) && find_symbol(loaded, "ucp_cleanup", library.cleanup) && find_symbol(loaded, "ucp_worker_create", library.create_worker) &&
         find_symbol(loaded, "ucp_worker_destroy", library.destroy_worker) && find_symbol(loaded, "ucp_worker_get_address", library.get_address) &&
         find_symbol(loaded, "ucp_worker_release_address", library.release_address) && find_symbol(loaded, "ucp_worker_progress", library.progress) && find_symbol(loaded, "ucp_worker_get_efd", library.get_descriptor) &&
         find_symbol(loaded, "ucp_worker_arm", library.arm) && find_symbol(loaded, "ucp_ep_create", library.create_endpoint) && find_symbol(loaded, "ucp_ep_close_nbx", library.close_endpoint) &&
         find_symbol(loaded, "ucp_tag_send_nbx", library.send) && find_symbol(loaded, "ucp_tag_probe_nb", library.probe) && find_symbol(loaded, "ucp_tag_msg_recv_nbx", library.receive) &&
         find_symbol(loaded, "ucp_request_check_status", library.check_request) && find_symbol(loaded, "ucp_request_free", library.free_request) && find_symbol(loaded, "ucp_get_version_string", library.version) &&
         find_symbol(loaded, "ucp_context_print_info", library.print_context) && find_symbol(loaded, "ucs_status_string", library.text_of_code);
}

Result<UcxLibrary> load_from(const std::string& name) {
  static const MoreVariables more(quiet_ucx);
  more.enter();
  void* const there = dlopen(ucx_library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);  // one that the program has already goes before all others
  void* const loaded = there ? there : dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  more.leave();
  if (!loaded) return Status(ErrorCode::init, why_not_loaded(name.c_str()));
  UcxLibrary library = {};
  if (!find_ucx(loaded, library)) return Status(ErrorCode::init, fmt::format("{} lacks what UCX {}.{} has", name, ucx_abi::major_version, ucx_abi::minor_version));
  return library;
}

struct ReleaseUcxConfig {
  const UcxLibrary* library;
  void operator()(ucx_abi::Config* config) const { library->release_config(config); }
};

}  // namespace

// The first time decides for the process.
Result<UcxLibrary> load_ucx(const Settings& settings) {
  static const Result<UcxLibrary> loaded = load_from(settings.ucx_library.empty() ? ucx_library_name : settings.ucx_library);
  return loaded;
}

Result<std::string> ucx_transports(const Settings& settings, const Environment& environment) {
  const auto named = environment.find("UCX_TLS");
  const std::string names = named == environment.end() ? "all" : named->second;
  if (settings.ucx_tcp) return names;
  if (names == "all") return std::string("^tcp,shm");  // a process that is killed leaves files of UCX's memory, and ranks of one host have Unisono's
  if (names.starts_with('^')) return names + ",tcp,shm";
  std::string list = "," + names + ",";
  std::erase(list, '\\');  // which asks for exactly that transport
  if (list.find(",tcp,") == list.npos && list.find(",all,") == list.npos) return names;
  return Status(ErrorCode::init, fmt::format("UCX_TLS={} names UCX's tcp, whose listener lets in whoever reaches it: leave it out (Unisono's own TCP is used where there is nothing else)", names));
}

Result<ucx_abi::Context*> make_ucx_context(const UcxLibrary& library, const Settings& settings, int ranks) {
  auto transports = ucx_transports(settings, process_environment());
  if (!transports.ok()) return transports.status();
  ucx_abi::Config* read = nullptr;
  if (const ucx_abi::Code code = library.read_config(nullptr, nullptr, &read); code != ucx_abi::success) return Status(ErrorCode::init, library.text_of_code(code));
  const std::unique_ptr<ucx_abi::Config, ReleaseUcxConfig> config(read, {&library});
  // Messages are pushed and not fetched, so that what a rank has sent is not lost with it once the other's UCX was turned.
  for (const auto& [name, value] : {std::pair("TLS", transports->c_str()), std::pair("RNDV_THRESH", "inf")})
    if (const ucx_abi::Code code = library.modify_config(config.get(), name, value); code != ucx_abi::success) return Status(ErrorCode::init, fmt::format("{}={}: {}", name, value, library.text_of_code(code)));
  ucx_abi::Parameters parameters = {};
  parameters.filled = ucx_abi::Parameters::has_features | ucx_abi::Parameters::has_expected_endpoints;
  parameters.features = ucx_abi::tags | ucx_abi::wake_up;
  parameters.expected_endpoints = static_cast<size_t>(ranks);
  ucx_abi::Context* context = nullptr;
  const ucx_abi::Code code = library.init(ucx_abi::major_version, ucx_abi::minor_version, &parameters, config.get(), &context);
  if (code == ucx_abi::success) return context;
  return Status(ErrorCode::init, fmt::format("{}, with UCX_TLS={}", library.text_of_code(code), *transports));
}

Result<UcxFindings> look_for_ucx(const Settings& settings) {
  auto library = load_ucx(settings);
  if (!library.ok()) return library.status();
  auto context = make_ucx_context(*library, settings, 2);
  if (!context.ok()) return context.status();
  char* text = nullptr;
  size_t bytes = 0;
  FILE* const memory = open_memstream(&text, &bytes);
  if (memory) library->print_context(*context, memory);
  if (memory) fclose(memory);
  const std::unique_ptr<char, decltype(&std::free)> owned(text, std::free);
  library->cleanup(*context);
  UcxFindings findings{library->version(), {}};
  std::istringstream lines(std::string(text ? text : "", bytes));
  for (std::string line; std::getline(lines, line);)  // "#  resource 0  :  md 1  dev 1  flags -- tcp/eth0"
    if (const size_t at = line.find("-- "); line.find("resource") != line.npos && at != line.npos) findings.devices.push_back(line.substr(at + 3));
  return findings;
}

bool UcxFindings::leads_elsewhere() const {
  constexpr std::string_view here[] = {"self/", "sysv/", "posix/", "cma/", "knem/", "xpmem/"};
  return std::ranges::any_of(devices, [&](const std::string& device) { return std::ranges::none_of(here, [&](std::string_view name) { return device.starts_with(name); }); });
}

std::vector<RdmaPort> rdma_ports(const std::string& root) {
  namespace files = std::filesystem;
  std::vector<RdmaPort> ports;
  std::error_code error;
  for (const auto& device : files::directory_iterator(root + "sys/class/infiniband", error))
    for (const auto& port : files::directory_iterator(device.path() / "ports", error)) {
      const auto line = [&](const char* name) {
        std::ifstream file(port.path() / name);
        std::string text;
        std::getline(file, text);
        return text.substr(text.find(": ") == text.npos ? 0 : text.find(": ") + 2);  // "4: ACTIVE"
      };
      ports.push_back({device.path().filename(), port.path().filename(), line("state"), line("rate"), line("link_layer")});
    }
  std::ranges::sort(ports, {}, [](const RdmaPort& one) { return std::pair(one.device, one.number); });
  return ports;
}

}  // namespace unisono
