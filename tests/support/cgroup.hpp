// A control group of a test's own, of either version, below the one that this process is in; gone with the object.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace unisono::testing {

class Cgroup {
 public:
  explicit Cgroup(const std::string& controller);
  ~Cgroup();
  Cgroup(const Cgroup&) = delete;

  const std::string& why_not() const { return why_not_; }  // "" if it was made

  // Each is false, and why_not() says why, where the system does not do it.
  bool limit_memory(int64_t bytes);
  bool limit_processes(int count);
  bool freeze();  // returns once all its processes have stopped
  bool thaw();
  bool add(pid_t process);  // 0: this process

 private:
  bool write_first_of(const std::string& version_1, const std::string& version_2, const std::string& value);
  bool write(const std::filesystem::path& file, const std::string& value);

  std::filesystem::path folder_;
  std::string why_not_;
};

}  // namespace unisono::testing
