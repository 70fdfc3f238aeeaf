// The adapter: requests become calls of the object's methods, with the GIL. Such a store has no way to do several things at once,
// so requests of one row may have others' between them; joining, for which this is, asks one thing at a time.
#include "python/core/foreign_store.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <thread>

#include "python/core/values.hpp"

namespace unisono::python {
namespace {

using distributed::Store;
using distributed::StoreAnswer;
using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr const char* needed[] = {"set", "get", "add", "check", "compare_set", "delete_key"};

// What a method raised, as a Status. An interruption stays raised for the thread that is about to return to Python.
Status status_of(nb::python_error& error) {
  if (!error.matches(PyExc_Exception)) {
    error.restore();
    return {ErrorCode::revoked, "this rank was interrupted while it used a store"};
  }
  return {ErrorCode::store_lost, "the store that was given failed: " + type_text(error.value()) + ": " + shown(error.value())};
}

class ForeignStore final : public Store {
 public:
  explicit ForeignStore(nb::object store) : store_(std::move(store)) {}
  ~ForeignStore() override {
    nb::gil_scoped_acquire gil;
    store_ = nb::object();
  }

  Result<std::vector<StoreAnswer>> perform(const std::vector<StoreRequest>& requests) override {
    nb::gil_scoped_acquire gil;
    try {
      std::vector<StoreAnswer> answers;
      for (const StoreRequest& request : requests) answers.push_back(answer(request));
      return answers;
    } catch (nb::python_error& error) {
      return status_of(error);
    } catch (const Error& error) {
      return error.status();
    }
  }

  // Asks again and again, which every kind of store can answer; a wait of theirs would not hear Ctrl-C.
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) override {
    using namespace std::chrono_literals;
    const auto start = std::chrono::steady_clock::now();
    for (auto rest = 1ms;; rest = std::min(rest * 2, 20ms)) {
      if (Result<bool> there = are_there(keys); !there.ok()) return there.status();
      else if (*there) return values_of(keys);
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      if (waited.count() > timeout_s) return missing(keys, timeout_s);
      std::this_thread::sleep_for(rest);
    }
  }

 private:
  nb::bytes bytes(const std::string& value) const { return nb::bytes(value.data(), value.size()); }
  nb::object key(const std::string& name) const { return nb::str(name.data(), name.size()); }
  bool has(const std::string& name) const {
    nb::list keys;
    keys.append(key(name));
    return flag_of(store_.attr("check")(keys), "what the store's check() returned");
  }

  StoreAnswer answer(const StoreRequest& request) const {
    const nb::object name = key(request.key);
    switch (request.kind) {
      case Kind::get:
        if (!has(request.key)) return {};
        return {.found = true, .value = bytes_of(store_.attr("get")(name), "what the store's get() returned")};
      case Kind::check: return {.found = has(request.key)};
      case Kind::set: return store_.attr("set")(name, bytes(request.value)), StoreAnswer{};
      case Kind::add: return {.number = long_of(store_.attr("add")(name, request.amount), "what the store's add() returned")};
      case Kind::append: return store_.attr("append")(name, bytes(request.value)), StoreAnswer{};
      case Kind::compare_set: {
        const nb::object now = store_.attr("compare_set")(name, text(request.expected), text(request.value));
        return {.value = bytes_of(now, "what the store's compare_set() returned")};
      }
      case Kind::delete_key:
        return {.found = flag_of(store_.attr("delete_key")(name), "what the store's delete_key() returned")};
      case Kind::num_keys: return {.number = long_of(store_.attr("num_keys")(), "what the store's num_keys() returned")};
    }
    fail(ErrorCode::internal, "a store was asked for something that is not there");
  }

  // torch's compare_set takes no bytes.
  nb::object text(const std::string& value) const { return nb::str(value.data(), value.size()); }

  Result<bool> are_there(const std::vector<std::string>& keys) const {
    nb::gil_scoped_acquire gil;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      for (const std::string& name : keys)
        if (!has(name)) return false;
      return true;
    } catch (nb::python_error& error) {
      return status_of(error);
    } catch (const Error& error) {
      return error.status();
    }
  }

  Result<std::vector<std::string>> values_of(const std::vector<std::string>& keys) {
    std::vector<StoreRequest> requests;
    for (const std::string& name : keys) requests.push_back({.kind = Kind::get, .key = name});
    auto answers = perform(requests);
    if (!answers.ok()) return answers.status();
    std::vector<std::string> values;
    for (StoreAnswer& each : *answers) values.push_back(std::move(each.value));
    return values;
  }

  static Status missing(const std::vector<std::string>& keys, double timeout_s) {
    std::string names;
    for (const std::string& name : keys) names += (names.empty() ? "" : ", ") + name;
    return {ErrorCode::timeout, "waited " + std::to_string(timeout_s) + " s for the keys " + names + " of a store"};
  }

  nb::object store_;
};

}  // namespace

std::shared_ptr<Store> store_of(nb::handle store, const char* argument) {
  if (store.is_none()) return nullptr;
  std::shared_ptr<Store> ours;
  if (nb::try_cast(store, ours)) return ours;
  for (const char* method : needed)
    if (!nb::hasattr(store, method))
      fail(ErrorCode::argument_type, std::string(argument) + " is a " + type_text(store) + ", which has no " + method +
                                         "(); give a store of Unisono's or torch's, or what has their methods");
  return std::make_shared<ForeignStore>(nb::borrow(store));
}

}  // namespace unisono::python
