// What to wait for in one turn of a loop, and what to do when it comes.
#pragma once

#include <poll.h>

#include <functional>
#include <vector>

namespace unisono::tools {

class Poller {
 public:
  void clear();
  void watch(int descriptor, short events, std::function<void()> handler);  // -1 is never ready
  void wait(int wait_ms);  // calls the handlers of all that is ready, in the order in which they were added

 private:
  std::vector<pollfd> entries_;
  std::vector<std::function<void()>> handlers_;
};

}  // namespace unisono::tools
