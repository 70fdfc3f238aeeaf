// The master of a TCPStore in a process of its own, to be stopped and killed.
#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>

#include "tests/support/outcomes.hpp"
#include "tests/support/raw_store_client.hpp"

namespace unisono::testing {

inline double seconds_since(int64_t started_ns) { return static_cast<double>(now_ns() - started_ns) / 1e9; }

class MasterProcess {
 public:
  MasterProcess() : ports_(1), children_(1, [this](int) {
    const auto store = master();
    ports_[0] = store->port();
    for (;;) pause();
  }) {
    EXPECT_TRUE(await([this] { return ports_[0] != 0; }));
  }
  int port() const { return ports_[0]; }
  int64_t most_resident_kib() const {
    std::ifstream lines(fmt::format("/proc/{}/status", children_.pid(0)));
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6));
    return 0;
  }
  void kill() { children_.kill(0); }
  void await_end() { children_.wait(); }
  void stop() {
    children_.signal(0, SIGSTOP);
    children_.await_stopped(0);
  }
  void go_on() { children_.signal(0, SIGCONT); }

 private:
  mutable SharedArray<std::atomic<int>> ports_;
  Children children_;
};

}  // namespace unisono::testing
