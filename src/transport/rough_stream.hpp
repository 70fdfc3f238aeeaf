// Another stream as an adverse network would be: it stutters, and may fall silent or break. What it does follows from its seed and from
// how it is used alone. For tests.
#pragma once

#include <functional>
#include <memory>
#include <random>

#include "transport/stream.hpp"

namespace unisono {

struct Roughness {
  uint64_t seed = 1;
  int64_t silent_after = INT64_MAX;  // bytes read: then nothing more comes or goes, and nobody says so
  int64_t broken_after = INT64_MAX;  // bytes read: then the connection is reset

  bool operator==(const Roughness&) const = default;
};

class RoughStream final : public Stream {
 public:
  // `wake`: whoever sleeps is to look again, though nothing has come.
  RoughStream(std::unique_ptr<Stream> smooth, const Roughness& roughness, std::function<void()> wake)
      : smooth_(std::move(smooth)), roughness_(roughness), wake_(std::move(wake)), random_(roughness.seed) {}

  Status open() override { return smooth_->open(); }
  void close() override { smooth_->close(); }
  int64_t write(Channel::Sent first, Channel::Sent second) override;
  int64_t read(std::span<std::byte> target) override;
  void arm(bool to_write, bool to_read) override;
  void finish() override { smooth_->finish(); }
  bool holds_more() override { return !is_silent() && !is_broken() && smooth_->holds_more(); }
  Status state() const override;

 private:
  size_t most_now(size_t wanted);
  bool is_silent() const { return read_ >= roughness_.silent_after; }
  bool is_broken() const { return read_ >= roughness_.broken_after; }

  std::unique_ptr<Stream> smooth_;
  Roughness roughness_;
  std::function<void()> wake_;
  std::minstd_rand random_;
  int64_t read_ = 0;
  bool withheld_ = false;  // less was moved than could have been
};

}  // namespace unisono
