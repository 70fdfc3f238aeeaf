// What reductions must give, written as plainly as can be and sharing nothing with src/kernels: one element at a time,
// small floats looked up in the list of all their values, the tree built by pairing neighbours.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/kernels.hpp"

namespace unisono::reference {

using Bytes = std::vector<std::byte>;

// Never inlined, so that no compiler fuses them: on some machines it would by default.
template <typename T>
[[gnu::noinline]] T added(T left, T right) {
  return left + right;
}
template <typename T>
[[gnu::noinline]] T multiplied(T left, T right) {
  return left * right;
}

// How a dtype lies in memory (Stored) and what it is computed in (Value). This one: as it is.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value read(Stored stored) { return stored; }
  static Stored write(Value value) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return std::numeric_limits<T>::quiet_NaN();
    }
    return value;
  }
};

struct Bool {
  using Stored = uint8_t;
  using Value = bool;
  static Value read(Stored stored) { return stored != 0; }
  static Stored write(Value value) { return value ? 1 : 0; }
};

template <typename T>
struct Complex {
  using Stored = std::complex<T>;
  using Value = std::complex<T>;
  static Value read(Stored stored) { return stored; }
  static Stored write(Value value) { return {Plain<T>::write(value.real()), Plain<T>::write(value.imag())}; }
};

// A float of few bits, computed in float32. Codes of positive numbers grow with the number, so the values of all codes
// are a sorted list in which to find the neighbours of a number.
template <typename StoredType, int exponent_bits, int mantissa_bits, bool has_infinity>
struct Small {
  using Stored = StoredType;
  using Value = float;
  static constexpr int sign_bit = 1 << (exponent_bits + mantissa_bits);
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int infinity = ((1 << exponent_bits) - 1) << mantissa_bits;  // or the largest numbers
  static constexpr int first_special = has_infinity ? infinity : sign_bit - 1;
  static constexpr int nan = has_infinity ? infinity | (1 << (mantissa_bits - 1)) : sign_bit - 1;

  // As if no code were special: what comes after the largest number decides when to round down to it.
  static double magnitude_of(int code) {
    const int exponent = code >> mantissa_bits;
    const double fraction = std::ldexp(code & ((1 << mantissa_bits) - 1), -mantissa_bits);
    return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  }
  static const std::vector<double>& magnitudes() {
    static const std::vector<double> list = [] {
      std::vector<double> values(first_special + 1);
      for (int code = 0; code <= first_special; ++code) values[code] = magnitude_of(code);
      return values;
    }();
    return list;
  }
  static Value read(Stored stored) {
    const int code = stored & (sign_bit - 1);
    const float sign = stored & sign_bit ? -1 : 1;
    if (code < first_special) return sign * static_cast<float>(magnitudes()[code]);
    if (has_infinity && code == infinity) return sign * std::numeric_limits<float>::infinity();
    return std::numeric_limits<float>::quiet_NaN();
  }
  static Stored write(Value value) {
    if (std::isnan(value)) return nan;
    const std::vector<double>& list = magnitudes();
    const double magnitude = std::fabs(value);
    int code = static_cast<int>(std::upper_bound(list.begin(), list.end(), magnitude) - list.begin()) - 1;
    if (code < first_special) {
      const double below = magnitude - list[code];
      const double above = list[code + 1] - magnitude;
      if (above < below || (above == below && code % 2 == 1)) ++code;
    }
    if (!has_infinity && code == first_special) return nan;
    return static_cast<Stored>(code | (std::signbit(value) ? sign_bit : 0));
  }
};

using Float16 = Small<uint16_t, 5, 10, true>;
using Bfloat16 = Small<uint16_t, 8, 7, true>;
using E4m3 = Small<uint8_t, 4, 3, false>;
using E5m2 = Small<uint8_t, 5, 2, true>;

template <typename T>
T combined(ReduceKind kind, T left, T right) {
  if constexpr (std::is_same_v<T, bool>) {
    const bool is_or = kind == ReduceKind::sum || kind == ReduceKind::max || kind == ReduceKind::bor;
    return kind == ReduceKind::bxor ? left != right : is_or ? left || right : left && right;
  } else if constexpr (std::is_integral_v<T>) {
    const auto wide_left = static_cast<uint64_t>(left), wide_right = static_cast<uint64_t>(right);
    if (kind == ReduceKind::product) return static_cast<T>(wide_left * wide_right);
    if (kind == ReduceKind::min) return left < right ? left : right;
    if (kind == ReduceKind::max) return left < right ? right : left;
    if (kind == ReduceKind::band) return static_cast<T>(wide_left & wide_right);
    if (kind == ReduceKind::bor) return static_cast<T>(wide_left | wide_right);
    if (kind == ReduceKind::bxor) return static_cast<T>(wide_left ^ wide_right);
    return static_cast<T>(wide_left + wide_right);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (kind == ReduceKind::product) return multiplied(left, right);
    if (kind != ReduceKind::min && kind != ReduceKind::max) return added(left, right);
    if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<T>::quiet_NaN();
    const bool left_is_less = left < right || (left == right && std::signbit(left));
    return left_is_less == (kind == ReduceKind::min) ? left : right;
  } else {
    if (kind != ReduceKind::product) return {added(left.real(), right.real()), added(left.imag(), right.imag())};
    return {added(multiplied(left.real(), right.real()), -multiplied(left.imag(), right.imag())),
            added(multiplied(left.real(), right.imag()), multiplied(left.imag(), right.real()))};
  }
}

template <typename T>
T scaled(T value, double factor) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(value) * static_cast<uint64_t>(static_cast<int64_t>(factor)));
  } else if constexpr (std::is_floating_point_v<T>) {
    return multiplied(value, static_cast<T>(factor));
  } else {
    return {scaled(value.real(), factor), scaled(value.imag(), factor)};
  }
}

template <typename T>
T divided(T value, int ranks) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value / static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(ranks));
  } else if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(ranks);
  } else {
    return {divided(value.real(), ranks), divided(value.imag(), ranks)};
  }
}

template <class Codec>
Bytes reduce(const Reduction& reduction, std::span<const Bytes> sources, bool contributions, bool complete) {
  using Stored = typename Codec::Stored;
  using Value = typename Codec::Value;
  Bytes result(sources[0].size());
  for (size_t at = 0; at < result.size(); at += sizeof(Stored)) {
    std::vector<Value> level;
    for (const Bytes& source : sources) {
      Stored stored;
      std::memcpy(&stored, source.data() + at, sizeof(stored));
      level.push_back(Codec::read(stored));
      if (reduction.op.kind == ReduceKind::premul_sum && contributions)
        level.back() = scaled<Value>(level.back(), reduction.op.factor);
    }
    while (level.size() > 1) {
      std::vector<Value> next;
      for (size_t index = 0; index + 1 < level.size(); index += 2)
        next.push_back(combined<Value>(reduction.op.kind, level[index], level[index + 1]));
      if (level.size() % 2 == 1) next.push_back(level.back());
      level = next;
    }
    Value total = level[0];
    if (reduction.op.kind == ReduceKind::avg && complete) total = divided<Value>(total, reduction.ranks);
    const Stored stored = Codec::write(total);
    std::memcpy(result.data() + at, &stored, sizeof(stored));
  }
  return result;
}

// Numbers to reduce: tame ones are small and round to something of interest; wild ones are any bits at all, with zeros,
// infinities, NaN and the smallest and largest more often than chance would have them.
template <class Codec>
Bytes numbers(std::mt19937_64& random, size_t count, bool wild) {
  using Stored = typename Codec::Stored;
  using Value = typename Codec::Value;
  Bytes bytes(count * sizeof(Stored));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const auto put = [&](size_t index, Value value) {
    const Stored stored = Codec::write(value);
    std::memcpy(bytes.data() + index * sizeof(Stored), &stored, sizeof(stored));
  };
  if constexpr (std::is_floating_point_v<Value>) {
    using Limits = std::numeric_limits<Value>;
    const Value special[] = {0, -Value{0}, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::max(),
                             Limits::lowest(), Limits::min(), Limits::denorm_min(), -Limits::denorm_min()};
    for (size_t index = 0; index < count; ++index) {
      const auto number = static_cast<Value>(static_cast<int64_t>(random() % 4001) - 2000);
      if (!wild) put(index, std::ldexp(number, -static_cast<int>(random() % 12)));
      if (wild && random() % 8 == 0) put(index, special[random() % std::size(special)]);
    }
  } else if constexpr (!std::is_integral_v<Value>) {
    for (size_t index = 0; !wild && index < count; ++index)
      put(index, {static_cast<int>(random() % 2001 - 1000) / 64.0f, static_cast<int>(random() % 2001 - 1000) / 64.0f});
  }
  return bytes;
}

struct Row {
  DType dtype;
  Bytes (*numbers)(std::mt19937_64& random, size_t count, bool wild);
  Bytes (*reduce)(const Reduction& reduction, std::span<const Bytes> sources, bool contributions, bool complete);
};

template <class Codec>
constexpr Row row(DType dtype) {
  return {dtype, numbers<Codec>, reduce<Codec>};
}

inline constexpr Row rows[] = {
    row<Bool>(DType::boolean),
    row<Plain<int8_t>>(DType::int8),
    row<Plain<int16_t>>(DType::int16),
    row<Plain<int32_t>>(DType::int32),
    row<Plain<int64_t>>(DType::int64),
    row<Plain<uint8_t>>(DType::uint8),
    row<Plain<uint16_t>>(DType::uint16),
    row<Plain<uint32_t>>(DType::uint32),
    row<Plain<uint64_t>>(DType::uint64),
    row<Float16>(DType::float16),
    row<Bfloat16>(DType::bfloat16),
    row<Plain<float>>(DType::float32),
    row<Plain<double>>(DType::float64),
    row<Complex<float>>(DType::complex64),
    row<Complex<double>>(DType::complex128),
    row<E4m3>(DType::float8_e4m3fn),
    row<E5m2>(DType::float8_e5m2),
};

// Memory at any distance from an aligned address, with bytes around it that nobody may touch.
class Buffer {
 public:
  Buffer(size_t size, size_t offset) : bytes_(size + 2 * margin, untouched), offset_(offset % 17) {}
  Buffer(const Bytes& content, size_t offset) : Buffer(content.size(), offset) {
    std::copy(content.begin(), content.end(), data());
  }
  std::byte* data() { return bytes_.data() + margin / 2 + offset_; }
  bool begins_with(const Bytes& expected, size_t size) { return std::memcmp(data(), expected.data(), size) == 0; }
  bool is_untouched_outside(size_t size) {
    const auto is_untouched = [](std::byte byte) { return byte == untouched; };
    return std::all_of(bytes_.data(), data(), is_untouched) &&
           std::all_of(data() + size, bytes_.data() + bytes_.size(), is_untouched);
  }

 private:
  static constexpr size_t margin = 128;
  static constexpr std::byte untouched{0xA5};
  std::vector<std::byte> bytes_;
  size_t offset_;
};

}  // namespace unisono::reference
