// Writes one JSON document, key by key. Nothing but what `unisono doctor` needs: texts, numbers, lists and objects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace unisono::doctor {

std::string json_text(std::string_view text);  // in quotes; what is no UTF-8, and control characters, become question marks or blanks

class JsonWriter {
 public:
  void open_object(std::string_view key = {}) { open(key, '{'); }
  void open_list(std::string_view key = {}) { open(key, '['); }
  void close_object() { close('}'); }
  void close_list() { close(']'); }
  void put(std::string_view key, std::string_view text) { put_raw(key, json_text(text)); }
  void put(std::string_view key, const char* text) { put(key, std::string_view(text)); }
  void put(std::string_view key, bool value) { put_raw(key, value ? "true" : "false"); }
  void put(std::string_view key, int value) { put(key, int64_t{value}); }
  void put(std::string_view key, int64_t value);
  void put(std::string_view key, double value);  // null where it is no number
  void put_null(std::string_view key) { put_raw(key, "null"); }
  void add(int64_t value);  // to a list

  const std::string& text() const { return text_; }

 private:
  void open(std::string_view key, char bracket);
  void close(char bracket);
  void put_raw(std::string_view key, std::string_view value);
  void begin(std::string_view key);  // of a value: comma, line, indentation, and the key where there is one

  std::string text_;
  int depth_ = 0;
  bool is_first_ = true;  // of what is open
};

}  // namespace unisono::doctor
