// MADV_WIPEONFORK (Linux 4.14); see fork.hpp.
#include "base/fork.hpp"

#include <sys/mman.h>

#include <cstddef>

namespace unisono {
namespace {

constexpr size_t page_bytes = 4096;

}  // namespace

ForkMark::ForkMark() {
  void* memory = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  page_ = static_cast<volatile unsigned char*>(memory);
  madvise(memory, page_bytes, MADV_WIPEONFORK);
  *page_ = 1;
}

ForkMark::~ForkMark() {
  if (page_) munmap(const_cast<unsigned char*>(page_), page_bytes);
}

}  // namespace unisono
