// While a library makes descriptors of its own, which must not be those of standard input and output: see descriptor.hpp.
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace unisono {

class StandardDescriptorsTaken {
 public:
  StandardDescriptorsTaken() {
    while (count_ < 3 && (taken_[count_] = ::open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && taken_[count_] <= STDERR_FILENO) ++count_;
    if (count_ < 3 && taken_[count_] >= 0) ::close(taken_[count_]);
  }
  ~StandardDescriptorsTaken() {
    for (int index = 0; index < count_; ++index) ::close(taken_[index]);
  }
  StandardDescriptorsTaken(const StandardDescriptorsTaken&) = delete;

 private:
  int taken_[3] = {-1, -1, -1};
  int count_ = 0;
};

}  // namespace unisono
