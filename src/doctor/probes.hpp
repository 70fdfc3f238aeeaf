// What can only be found out by trying: each probe runs in a child process that is killed when it takes too long, so that nothing that a probe loads, prints or
// waits for reaches this process. For processes with one thread: a child of one with several may find locks that nobody opens.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "transport/ucx_library.hpp"
#include "unisono/settings.hpp"
#include "unisono/status.hpp"

namespace unisono::doctor {

// What `work` returns in a child; ResourceError without one, TimeoutError when it does not return in time, InternalError when it dies.
Result<std::string> in_child(const std::function<std::string()>& work, double seconds);

// Whether ranks that one launcher starts may read each other's memory with process_vm_readv: two children try. 0, or the kernel's errno.
Result<int> error_of_sibling_read();

// The system calls that the library makes and an old kernel or a seccomp filter refuses, with the errno each.
struct Refusal {
  std::string call;
  int error = 0;

  bool operator==(const Refusal&) const = default;
};
std::vector<Refusal> refused_system_calls();

// A shared library that a part of Unisono would be built on.
struct Engine {
  std::string library;
  std::string what;         // it is for
  bool is_found = false;
  std::string detail = {};  // where, or why not
  bool is_known = true;     // otherwise it could not be tried
};
std::vector<Engine> find_engines();

// What UCX finds, where it can be loaded.
Result<UcxFindings> examine_ucx(const Settings& settings);

}  // namespace unisono::doctor
