// The memory a call works on: one span, or a list of parts (part i belongs to rank i) of one span or of several each, so that
// list forms, uneven splits and coalesced calls need no packing.
//
// Bytes are counted as if all of them lay in a row. Whoever copies or adds goes from span to span: see in_step().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/sizes.hpp"

namespace unisono {

struct Bytes {
  std::byte* data = nullptr;
  int64_t bytes = 0;

  bool operator==(const Bytes&) const = default;
};

inline constexpr int64_t cut_alignment = 64;  // a multiple of every element's size, and of a cache line

// One span of a list, and at which byte of the whole it begins.
struct Span {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t begin = 0;
};

struct Layout;

// Bytes that are taken as one row and lie in one place or, in coalesced calls, in several; a value.
struct Stretch {
  std::byte* data = nullptr;       // where it begins
  int64_t bytes = 0;
  int64_t here = 0;                // how many of them lie in a row at `data`
  const Span* span = nullptr;      // in which `data` lies, where it lies in several places
  const Layout* layout = nullptr;

  static Stretch in_one_place(std::byte* data, int64_t bytes) { return {data, bytes, bytes}; }
  bool is_in_one_place() const { return here == bytes; }
  void drop(int64_t count) {  // from the front, at most `here`
    data += count;
    bytes -= count;
    here -= count;
    if (here == 0 && bytes > 0) [[unlikely]]
      enter_next_span();
  }
  Stretch from(int64_t offset, int64_t length) const {
    return offset + length <= here ? Stretch{data + offset, length, length} : farther_from(offset, length);
  }
  bool overlaps(const Stretch& other) const;

 private:
  void enter_next_span();
  Stretch farther_from(int64_t offset, int64_t length) const;
};

// Where the parts of a list lie. Parts of several spans have no empty ones and none that continue the one before.
struct Layout {
  std::vector<Span> spans;
  std::vector<size_t> firsts;  // the first span of each part and, last, their number; none: one span is one part

  Stretch at(int64_t position, int64_t bytes) const;
};

// A value; copies share the list. The memory is the caller's and outlives the call.
class Pieces {
 public:
  Pieces() = default;
  Pieces(void* data, int64_t bytes) : whole_{static_cast<std::byte*>(data), bytes} {}
  explicit Pieces(const std::vector<Bytes>& parts);
  explicit Pieces(const std::vector<std::vector<Bytes>>& parts);

  int64_t bytes() const { return whole_.bytes; }
  bool is_list() const { return layout_ != nullptr; }
  const Span* spans() const { return layout_->spans.data(); }  // of a list
  std::byte* data() const { return whole_.data; }              // where it is no list
  Stretch all() const { return is_list() ? layout_->at(0, whole_.bytes) : only_span(); }
  Stretch whole() const { return is_list() ? part(0, 1) : only_span(); }

  // The index-th of `count` equal parts, or of the list.
  Stretch part(int index, int count) const {
    if (is_list()) return listed_part(static_cast<size_t>(index));
    int64_t each = whole_.bytes / count;
    return Stretch::in_one_place(whole_.data + index * each, each);
  }
  int64_t part_offset(int index, int count) const {
    return is_list() ? begin_of(static_cast<size_t>(index)) : index * (whole_.bytes / count);
  }
  int64_t longest_part(int count) const;

  // The index-th of `count` near-equal cuts on cache-line boundaries; late ones may be empty.
  Stretch cut(int index, int count) const {
    int64_t each = round_up((whole_.bytes + count - 1) / count, cut_alignment);
    int64_t from = std::min(index * each, whole_.bytes), to = std::min((index + 1) * each, whole_.bytes);
    return is_list() ? layout_->at(from, to - from) : Stretch::in_one_place(whole_.data + from, to - from);
  }

 private:
  Stretch only_span() const { return Stretch::in_one_place(whole_.data, whole_.bytes); }
  Stretch listed_part(size_t index) const;
  int64_t begin_of(size_t part) const;

  Bytes whole_;  // of a list: its length only
  std::shared_ptr<const Layout> layout_;
};

// Goes through two stretches side by side, as far as the shorter one reaches: `each(one, other, done, bytes)` for all bytes
// that lie in a row in both, `done` being how many came before.
template <typename Each>
[[gnu::noinline]] void by_spans(Stretch one, Stretch other, int64_t length, Each& each) {
  for (int64_t done = 0; done < length;) {
    const int64_t bytes = std::min({one.here, other.here, length - done});
    each(one.data, other.data, done, bytes);
    one.drop(bytes);
    other.drop(bytes);
    done += bytes;
  }
}
template <typename Each>
inline void in_step(const Stretch& one, const Stretch& other, Each each) {
  const int64_t length = std::min(one.bytes, other.bytes);
  if (length > one.here || length > other.here) [[unlikely]]
    return by_spans(one, other, length, each);
  if (length > 0) each(one.data, other.data, int64_t{0}, length);
}

inline void copy_bytes(const Stretch& target, const Stretch& source) {
  in_step(target, source, [](std::byte* to, const std::byte* from, int64_t, int64_t bytes) {
    if (to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
  });
}

}  // namespace unisono
