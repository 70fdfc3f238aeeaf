// A file descriptor that is closed exactly once, and never one of the standard three: where a program was started with one of
// those closed, the kernel hands out its number next, and whatever is written to standard error then lands in our memory.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace unisono {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {
    if (number_ >= 0 && number_ <= STDERR_FILENO) [[unlikely]]
      move_up();
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  void reset() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  // Empty, with errno, where there is no further descriptor.
  void move_up() {
    const int low = std::exchange(number_, fcntl(number_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    const int error = errno;
    ::close(low);
    errno = error;
  }

  int number_ = -1;
};

}  // namespace unisono
