// Knowing that this process is a forked child of the one that made the mark. The child must not touch the parent's World.
#pragma once

namespace unisono {

// A page that the kernel wipes in every child of fork(): one load tells parent and child apart, without a system call and
// without a handler. Neither copied nor moved.
class ForkMark {
 public:
  ForkMark();
  ~ForkMark();
  ForkMark(const ForkMark&) = delete;

  bool forked() const { return page_ && *page_ == 0; }

 private:
  volatile unsigned char* page_ = nullptr;  // null where the page could not be had: then no fork is noticed
};

}  // namespace unisono
