// The memory a call works on: one span, or a list of spans, so that list forms and uneven splits need no packing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/sizes.hpp"

namespace unisono {

struct Bytes {
  std::byte* data = nullptr;
  int64_t bytes = 0;

  bool operator==(const Bytes&) const = default;
};

inline constexpr int64_t cut_alignment = 64;  // a multiple of every element's size, and of a cache line

// A value. The memory is the caller's and outlives the call.
class Pieces {
 public:
  Pieces() = default;
  Pieces(void* data, int64_t bytes) : whole_{static_cast<std::byte*>(data), bytes} {}
  explicit Pieces(std::vector<Bytes> parts) : parts_(std::move(parts)) {
    for (const Bytes& part : parts_) whole_.bytes += part.bytes;
  }

  int64_t bytes() const { return whole_.bytes; }
  bool is_list() const { return !parts_.empty(); }
  const std::vector<Bytes>& parts() const { return parts_; }
  Bytes whole() const { return is_list() ? parts_.front() : whole_; }

  // The index-th of `count` equal parts, or of the list.
  Bytes part(int index, int count) const {
    if (is_list()) return parts_[static_cast<size_t>(index)];
    int64_t each = whole_.bytes / count;
    return {whole_.data + index * each, each};
  }
  int64_t part_offset(int index, int count) const {
    if (!is_list()) return index * (whole_.bytes / count);
    int64_t offset = 0;
    for (int before = 0; before < index; ++before) offset += parts_[static_cast<size_t>(before)].bytes;
    return offset;
  }

  // The index-th of `count` near-equal cuts on cache-line boundaries; late ones may be empty.
  Bytes cut(int index, int count) const {
    int64_t each = round_up((whole_.bytes + count - 1) / count, cut_alignment);
    int64_t from = std::min(index * each, whole_.bytes), to = std::min((index + 1) * each, whole_.bytes);
    return {whole_.data + from, to - from};
  }

 private:
  Bytes whole_;
  std::vector<Bytes> parts_;
};

}  // namespace unisono
