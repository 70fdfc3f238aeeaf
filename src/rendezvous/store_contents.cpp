// Requests as changes of a table; see store_contents.hpp. Next: hash_store.cpp, file_store.cpp.
#include "rendezvous/store_contents.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace unisono {
namespace {

using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr size_t shown_keys = 8;      // of many that are missing
constexpr size_t shown_bytes = 40;    // of a value that is no number

StoreEdit edit_of(StoreEdit::Kind kind, const StoreRequest& request) { return {kind, request.key, request.value}; }

Result<StoreDecision> decide_add(const StoreRequest& request, const std::string* value) {
  int64_t number = 0;
  if (value) {
    const auto [end, fault] = std::from_chars(value->data(), value->data() + value->size(), number);
    if (fault != std::errc() || end != value->data() + value->size())
      return Status(ErrorCode::argument, fmt::format("add: key \"{}\" holds \"{}\", which is not a whole number of 64 bits",
                                                     request.key, value->substr(0, shown_bytes)));
  }
  if (__builtin_add_overflow(number, request.amount, &number))
    return Status(ErrorCode::argument, fmt::format("add: key \"{}\" holds {}; adding {} would leave 64 bits", request.key, *value,
                                                   request.amount));
  StoreDecision decision;
  decision.answer.number = number;
  decision.edit = StoreEdit{StoreEdit::Kind::set, request.key, std::to_string(number)};
  return decision;
}

void decide_compare_set(const StoreRequest& request, const std::string* value, StoreDecision& decision) {
  const bool is_so = value ? *value == request.expected : request.expected.empty();
  decision.answer.value = is_so ? request.value : value ? *value : request.expected;
  if (is_so) decision.edit = edit_of(StoreEdit::Kind::set, request);
}

}  // namespace

bool may_change(const StoreRequest& request) {
  return request.kind != Kind::get && request.kind != Kind::check && request.kind != Kind::num_keys;
}

Result<StoreDecision> decide(const StoreRequest& request, const StoreContents& contents) {
  const auto entry = contents.values.find(request.key);
  const std::string* value = entry == contents.values.end() ? nullptr : &entry->second;
  StoreDecision decision;
  decision.answer.found = value != nullptr;
  switch (request.kind) {
    case Kind::get:
      if (value) decision.answer.value = *value;
      return decision;
    case Kind::check: return decision;
    case Kind::num_keys: decision.answer.number = static_cast<int64_t>(contents.values.size()); return decision;
    case Kind::set: decision.edit = edit_of(StoreEdit::Kind::set, request); return decision;
    case Kind::append: decision.edit = edit_of(StoreEdit::Kind::append, request); return decision;
    case Kind::add: return decide_add(request, value);
    case Kind::compare_set: decide_compare_set(request, value, decision); return decision;
    case Kind::delete_key:
      if (value) decision.edit = StoreEdit{StoreEdit::Kind::erase, request.key, {}};
      return decision;
  }
  return Status(ErrorCode::argument, fmt::format("a store does not know requests of kind {}", static_cast<int>(request.kind)));
}

void enact(const StoreEdit& edit, StoreContents& contents) {
  switch (edit.kind) {
    case StoreEdit::Kind::set: contents.values[edit.key] = edit.value; break;
    case StoreEdit::Kind::append: contents.values[edit.key] += edit.value; break;
    case StoreEdit::Kind::erase: contents.values.erase(edit.key); break;
    case StoreEdit::Kind::users: std::memcpy(&contents.users, edit.value.data(), sizeof(StoreUsers)); break;
  }
}

std::optional<std::vector<std::string>> values_of(const std::vector<std::string>& keys, const StoreContents& contents) {
  std::vector<std::string> values;
  for (const std::string& key : keys) {  // looked at first, so that nothing is copied in vain while one waits
    if (!contents.values.contains(key)) return std::nullopt;
  }
  for (const std::string& key : keys) values.push_back(contents.values.at(key));
  return values;
}

Status missing_keys(const std::vector<std::string>& missing, size_t asked_for, double timeout_s) {
  std::vector<std::string> shown;
  for (size_t index = 0; index < missing.size() && index < shown_keys; ++index) shown.push_back(fmt::format("\"{}\"", missing[index]));
  return {ErrorCode::timeout, fmt::format("waited {} s for {} of {} keys that nobody has set: {}{}", timeout_s, missing.size(), asked_for,
                                          fmt::join(shown, ", "), missing.size() > shown_keys ? ", …" : "")};
}

Status missing_keys(const std::vector<std::string>& keys, const StoreContents& contents, double timeout_s) {
  std::vector<std::string> missing;
  for (const std::string& key : keys)
    if (!contents.values.contains(key)) missing.push_back(key);
  return missing_keys(missing, keys.size(), timeout_s);
}

Status interrupted_while_waiting(const std::vector<std::string>& keys) {
  return {ErrorCode::revoked, fmt::format("interrupted while waiting for {} keys, \"{}\" among them", keys.size(), keys.empty() ? "" : keys[0])};
}

}  // namespace unisono
