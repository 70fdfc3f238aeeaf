// See ucx.hpp.
#include "transport/ucx.hpp"

#include <fmt/core.h>
#include <sys/resource.h>

#include <filesystem>
#include <iterator>

#include "base/all_signals_blocked.hpp"
#include "base/standard_descriptors.hpp"
#include "transport/ucx_engine.hpp"

namespace unisono {
namespace {

constexpr const char* where_to_get_it = "install libucx0 (Debian) or `pip install libucx-cu12`, and where it lies elsewhere name it by UNISONO_UCX_LIBRARY";
constexpr int64_t needed_descriptors = 128;  // beside those of Unisono, as far as can be known

// "1.13" of "1.13.1"
std::string minor_version_of(std::string_view version) { return std::string(version.substr(0, version.find('.', version.find('.') + 1))); }

int64_t descriptors_left() {
  rlimit limit = {};
  std::error_code error;
  const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd", error), std::filesystem::directory_iterator());
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? static_cast<int64_t>(limit.rlim_cur) - open : INT64_MAX;
}

}  // namespace

Status can_have_ucx(const Settings& settings) {
  const StandardDescriptorsTaken taken;
  const AllSignalsBlocked blocked;
  if (const auto library = load_ucx(settings); !library.ok()) return {ErrorCode::init, fmt::format("UCX cannot be loaded ({}); {}", library.status().message(), where_to_get_it)};
  const int64_t left = descriptors_left();
  if (left >= needed_descriptors) return Status::success();
  return {ErrorCode::init, fmt::format("UCX is not used, which ends a process that runs out of descriptors: {} are left, and {} are wanted; raise the limit of open files (ulimit -n)", left, needed_descriptors)};
}

Result<std::unique_ptr<Fabric>> open_ucx(const FabricUse& use) {
  const StandardDescriptorsTaken taken;
  const AllSignalsBlocked blocked;
  auto library = load_ucx(use.settings);
  if (!library.ok()) return library.status();
  auto context = make_ucx_context(*library, use.settings, use.ranks);
  if (!context.ok()) return Status(ErrorCode::init, fmt::format("UCX cannot begin: {}; `unisono doctor --fabric` shows what it finds", context.status().message()));
  auto ucx = std::make_unique<UcxEngine>(*library, *context, use, minor_version_of(library->version()));
  if (Status status = ucx->start(); !status.ok()) return Status(ErrorCode::init, fmt::format("UCX cannot begin: {}", status.message()));
  return std::unique_ptr<Fabric>(std::move(ucx));
}

}  // namespace unisono
