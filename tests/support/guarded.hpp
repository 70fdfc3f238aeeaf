// Memory for a tensor with bytes around it that nobody may touch, at an address that is aligned to the element only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/oracle.hpp"
#include "unisono/tensor.hpp"

namespace unisono::testing {

class Guarded {
 public:
  Guarded(DType dtype, int64_t count) : dtype_(dtype), count_(count), bytes_(count * element_bytes(dtype)) {
    memory_.assign(static_cast<size_t>(bytes_ + 2 * margin_bytes), untouched);
  }
  Guarded(DType dtype, const Pattern& content, int64_t first, int64_t count) : Guarded(dtype, count) {
    content.write(data(), first, count);
  }

  std::byte* data() { return memory_.data() + margin_bytes; }
  int64_t count() const { return count_; }
  TensorView view() { return {data(), dtype_, Shape{count_}}; }
  TensorView view(Shape shape) { return {data(), dtype_, shape}; }

  // The elements from `first` on are those of the pattern from `at` on.
  void expect(const Pattern& pattern, int64_t at, const std::string& what) { expect(0, count_, pattern, at, what); }
  void expect(int64_t first, int64_t count, const Pattern& pattern, int64_t at, const std::string& what) {
    int64_t index = pattern.difference(data() + first * element_bytes(dtype_), at, count);
    EXPECT_EQ(index, -1) << what << ": element " << first + index << " of " << count_ << " is wrong";
  }
  void expect_guards(const std::string& what) {
    auto is_untouched = [](std::byte byte) { return byte == untouched; };
    EXPECT_TRUE(std::all_of(memory_.data(), data(), is_untouched)) << what << ": bytes before it were written";
    EXPECT_TRUE(std::all_of(data() + bytes_, memory_.data() + memory_.size(), is_untouched))
        << what << ": bytes after it were written";
  }
  void expect_untouched(const std::string& what) {
    EXPECT_TRUE(std::all_of(memory_.begin(), memory_.end(), [](std::byte byte) { return byte == untouched; })) << what;
  }

 private:
  static constexpr int64_t margin_bytes = 80;  // a multiple of every element's size, and not of a cache line's
  static constexpr std::byte untouched{0xA5};
  DType dtype_;
  int64_t count_, bytes_;
  std::vector<std::byte> memory_;
};

using GuardedPtr = std::shared_ptr<Guarded>;

template <typename... Arguments>
GuardedPtr guarded(Arguments&&... arguments) {
  return std::make_shared<Guarded>(std::forward<Arguments>(arguments)...);
}

}  // namespace unisono::testing
