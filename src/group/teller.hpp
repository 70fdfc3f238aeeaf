// Whoever carries notices to ranks on other hosts: their connections (remotes.hpp), or a test.
#pragma once

#include "group/notice.hpp"

namespace unisono {

class Teller {
 public:
  virtual void tell(int rank, const Notice& notice) = 0;  // nothing to one that is gone, or on this host. Any thread.

 protected:
  ~Teller() = default;
};

}  // namespace unisono
