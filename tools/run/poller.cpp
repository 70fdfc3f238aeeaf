// A thin layer over poll(); a launcher has few descriptors and lists them anew for every turn.
#include "tools/run/poller.hpp"

#include <cerrno>
#include <utility>

#include "base/check.hpp"

namespace unisono::tools {

void Poller::clear() {
  entries_.clear();
  handlers_.clear();
}

void Poller::watch(int descriptor, short events, std::function<void()> handler) {
  entries_.push_back({.fd = descriptor, .events = events, .revents = 0});
  handlers_.push_back(std::move(handler));
}

void Poller::wait(int wait_ms) {
  const int ready = ::poll(entries_.data(), entries_.size(), wait_ms);
  CHECK(ready >= 0 || errno == EINTR);
  if (ready <= 0) return;
  for (size_t index = 0; index < entries_.size(); ++index)
    if (entries_[index].revents != 0) handlers_[index]();
}

}  // namespace unisono::tools
