// See json.hpp.
#include "doctor/json.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/legible.hpp"

namespace unisono::doctor {

// What is legible has no control characters left, so these two are all that has to be escaped.
std::string json_text(std::string_view text) {
  constexpr size_t most_bytes = 1 << 16;
  std::string quoted = "\"";
  for (const char character : legible(text, most_bytes)) {
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character;
  }
  return quoted + '"';
}

void JsonWriter::begin(std::string_view key) {
  if (depth_ > 0) text_ += fmt::format("{}\n{:{}}", is_first_ ? "" : ",", "", 2 * depth_);
  if (!key.empty()) text_ += fmt::format("{}: ", json_text(key));
  is_first_ = false;
}

void JsonWriter::open(std::string_view key, char bracket) {
  begin(key);
  text_ += bracket;
  ++depth_;
  is_first_ = true;
}

void JsonWriter::close(char bracket) {
  --depth_;
  if (!is_first_) text_ += fmt::format("\n{:{}}", "", 2 * depth_);
  text_ += bracket;
  is_first_ = false;
}

void JsonWriter::put_raw(std::string_view key, std::string_view value) {
  begin(key);
  text_ += value;
}

void JsonWriter::put(std::string_view key, int64_t value) { put_raw(key, std::to_string(value)); }
void JsonWriter::put(std::string_view key, double value) { put_raw(key, std::isfinite(value) ? fmt::format("{:.3f}", value) : "null"); }
void JsonWriter::add(int64_t value) { put_raw({}, std::to_string(value)); }

}  // namespace unisono::doctor
