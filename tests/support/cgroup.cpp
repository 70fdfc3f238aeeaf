// See cgroup.hpp.
#include "tests/support/cgroup.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "tests/support/children.hpp"

namespace unisono::testing {
namespace {

namespace fs = std::filesystem;

// Where this process is: the line of the controller (version 1), or the one without any (version 2).
fs::path own_folder(const std::string& controller) {
  fs::path unified;
  std::ifstream lines("/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      const std::string mount = "/sys/fs/cgroup/" + controller;
      return fs::exists(mount + path) ? mount + path : mount;
    }
    if (controllers.empty()) unified = fs::exists("/sys/fs/cgroup" + path + "/cgroup.procs") ? "/sys/fs/cgroup" + path : "/sys/fs/cgroup";
  }
  return unified;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Cgroup::Cgroup(const std::string& controller) {
  static std::atomic<int> counter{0};
  folder_ = own_folder(controller) / fmt::format("unisono-test-{}-{}", getpid(), ++counter);
  std::error_code error;
  if (!fs::create_directory(folder_, error)) why_not_ = fmt::format("{} cannot be made: {}", folder_.string(), error.message());
}

// The kernel takes processes out of the group a moment after they have been waited for.
Cgroup::~Cgroup() {
  if (!why_not_.empty() && !fs::exists(folder_)) return;
  await([&] { return rmdir(folder_.c_str()) == 0 || errno != EBUSY; });
}

bool Cgroup::write(const fs::path& file, const std::string& value) {
  std::ofstream stream(file);
  stream << value << std::flush;
  if (!stream) why_not_ = fmt::format("{} cannot be set to {}: {}", file.string(), value, std::strerror(errno));
  return static_cast<bool>(stream);
}

bool Cgroup::write_first_of(const std::string& version_1, const std::string& version_2, const std::string& value) {
  if (!why_not_.empty()) return false;
  for (const std::string& name : {version_1, version_2})
    if (fs::exists(folder_ / name)) return write(folder_ / name, value);
  why_not_ = fmt::format("{} has neither {} nor {}", folder_.string(), version_1, version_2);
  return false;
}

bool Cgroup::limit_memory(int64_t bytes) { return write_first_of("memory.limit_in_bytes", "memory.max", std::to_string(bytes)); }
bool Cgroup::limit_processes(int count) { return write_first_of("pids.max", "pids.max", std::to_string(count)); }

bool Cgroup::freeze() {
  const bool version_1 = fs::exists(folder_ / "freezer.state");
  if (!write_first_of("freezer.state", "cgroup.freeze", version_1 ? "FROZEN" : "1")) return false;
  return await([&] {
    return version_1 ? text_of(folder_ / "freezer.state") == "FROZEN\n"
                     : text_of(folder_ / "cgroup.events").find("frozen 1") != std::string::npos;
  });
}

bool Cgroup::thaw() {
  const bool version_1 = fs::exists(folder_ / "freezer.state");
  return write_first_of("freezer.state", "cgroup.freeze", version_1 ? "THAWED" : "0");
}

bool Cgroup::add(pid_t process) { return why_not_.empty() && write(folder_ / "cgroup.procs", std::to_string(process)); }

}  // namespace unisono::testing
