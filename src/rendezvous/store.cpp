// The edge of the stores: what users call becomes requests, and what went wrong becomes an exception. PrefixStore is here,
// for it only renames. Next: store_contents.cpp.
#include "unisono/store.hpp"

#include <fmt/format.h>

#include <utility>

namespace unisono::distributed {
namespace {

using Kind = StoreRequest::Kind;

template <typename T>
T value_or_throw(Result<T> result) {
  throw_if_error(result.status());
  return std::move(*result);
}

StoreAnswer ask(Store& store, StoreRequest request) {
  std::vector<StoreRequest> requests;
  requests.push_back(std::move(request));
  return std::move(value_or_throw(store.perform(requests)).front());
}

void require_timeout(const char* function, double seconds) {
  if (!(seconds > 0))
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("{}: the timeout is {} s; it must be more than 0",
                                                                function, seconds)));
}

}  // namespace

void Store::set(const std::string& key, const std::string& value) { ask(*this, {.kind = Kind::set, .key = key, .value = value}); }

std::string Store::get(const std::string& key) {
  return std::move(value_or_throw(await_values({key}, timeout())).front());
}

int64_t Store::add(const std::string& key, int64_t amount) {
  return ask(*this, {.kind = Kind::add, .key = key, .amount = amount}).number;
}

std::string Store::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  return ask(*this, {.kind = Kind::compare_set, .key = key, .value = desired, .expected = expected}).value;
}

void Store::wait(const std::vector<std::string>& keys, std::optional<double> timeout_s) {
  if (timeout_s) require_timeout("wait", *timeout_s);
  throw_if_error(await_values(keys, timeout_s.value_or(timeout())).status());
}

bool Store::check(const std::vector<std::string>& keys) {
  std::vector<StoreRequest> requests;
  for (const std::string& key : keys) requests.push_back({.kind = Kind::check, .key = key});
  for (const StoreAnswer& answer : value_or_throw(perform(requests)))
    if (!answer.found) return false;
  return true;
}

bool Store::delete_key(const std::string& key) { return ask(*this, {.kind = Kind::delete_key, .key = key}).found; }

int64_t Store::num_keys() { return ask(*this, {.kind = Kind::num_keys}).number; }

void Store::append(const std::string& key, const std::string& value) {
  ask(*this, {.kind = Kind::append, .key = key, .value = value});
}

std::vector<std::string> Store::multi_get(const std::vector<std::string>& keys) {
  return value_or_throw(await_values(keys, timeout()));
}

void Store::multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  if (keys.size() != values.size())
    throw ArgumentError(Status(ErrorCode::argument, fmt::format("multi_set: {} keys and {} values; give one value for each key",
                                                                keys.size(), values.size())));
  std::vector<StoreRequest> requests;
  for (size_t index = 0; index < keys.size(); ++index)
    requests.push_back({.kind = Kind::set, .key = keys[index], .value = values[index]});
  throw_if_error(perform(requests).status());
}

void Store::set_timeout(double seconds) {
  require_timeout("set_timeout", seconds);
  timeout_s_.store(seconds, std::memory_order_relaxed);
}

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix)), store_(std::move(store)) {
  if (!store_) throw ArgumentError(Status(ErrorCode::argument, fmt::format("PrefixStore \"{}\" was given no store", prefix_)));
}

Result<std::vector<StoreAnswer>> PrefixStore::perform(const std::vector<StoreRequest>& requests) {
  std::vector<StoreRequest> renamed = requests;
  for (StoreRequest& request : renamed) request.key = with_prefix(request.key);
  return store_->perform(renamed);
}

Result<std::vector<std::string>> PrefixStore::await_values(const std::vector<std::string>& keys, double timeout_s) {
  std::vector<std::string> renamed;
  for (const std::string& key : keys) renamed.push_back(with_prefix(key));
  return store_->await_values(renamed, timeout_s);
}

}  // namespace unisono::distributed
