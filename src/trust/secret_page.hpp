// 32 bytes on a page of their own, which core dumps leave out, and which is overwritten when it goes.
#pragma once

#include <string.h>
#include <sys/mman.h>

#include <cstddef>

namespace unisono {

class SecretPage {
 public:
  static constexpr size_t byte_count = 32;

  SecretPage() {
    void* memory = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    madvise(memory, page_bytes, MADV_DONTDUMP);
    bytes_ = static_cast<std::byte*>(memory);
  }
  ~SecretPage() {
    if (!bytes_) return;
    explicit_bzero(bytes_, byte_count);
    munmap(bytes_, page_bytes);
  }
  SecretPage(const SecretPage&) = delete;

  std::byte* bytes() const { return bytes_; }  // null where there was no memory

 private:
  static constexpr size_t page_bytes = 4096;
  std::byte* bytes_ = nullptr;
};

}  // namespace unisono
