// The adapter: requests become calls of the object's methods, with the GIL. Such a store has no way to do several things at once,
// so requests of one row may have others' between them; joining, for which this is, asks one thing at a time. What it answers is not
// believed: types are checked, and there is a bound on what is read of it at a time.
#include "python/core/foreign_store.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "python/core/values.hpp"

namespace unisono::python {
namespace {

using distributed::Store;
using distributed::StoreAnswer;
using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr double slice_s = 1;                    // of waiting, after which signals are heard
constexpr double first_rest_s = 0.001, longest_rest_s = 0.25;
constexpr size_t most_bytes = size_t{32} << 20;  // of the values of one call, as of our own TCPStore
constexpr const char* needed[] = {"set", "get", "add", "check", "compare_set", "delete_key"};

// The lock of the interpreter, and whether the thread is one of the library's, which returns to no Python code.
struct Interpreter {
  bool of_library = PyGILState_GetThisThreadState() == nullptr;
  nb::gil_scoped_acquire lock;
};

// torch's stores write warnings into the log whenever a wait of theirs expires: they are asked instead.
bool can_wait(nb::handle store) {
  try {
    return nb::hasattr(store, "wait") && !nb::cast<std::string>(store.type().attr("__module__")).starts_with("torch");
  } catch (const std::exception&) {
    return false;
  }
}

// Other machines reach any store but those that are in this process's memory or in a file, also as a part of one that says so.
distributed::StoreReach reach_of(nb::object store) {
  constexpr int most_parts = 16;
  try {
    for (int part = 0; part < most_parts && nb::hasattr(store, "underlying_store"); ++part) store = store.attr("underlying_store");
    const std::string kind = nb::cast<std::string>(store.type().attr("__name__"));
    if (kind == "FileStore" || kind == "HashStore") return {};
    const nb::object host = nb::getattr(store, "host", nb::none());
    return {true, nb::isinstance<nb::str>(host) ? nb::cast<std::string>(host) : std::string()};
  } catch (const std::exception&) {  // it does not say
    return {true, {}};
  }
}

class ForeignStore final : public Store {
 public:
  explicit ForeignStore(nb::object store) : store_(std::move(store)), reach_(reach_of(store_)), has_wait_(can_wait(store_)) {}
  ~ForeignStore() override {
    nb::gil_scoped_acquire gil;
    store_ = interruption_ = nb::object();
  }

  // What interrupted a method of it on a thread of the library's, for the thread that waited for that.
  void raise_interruption() {
    if (!interruption_) return;
    const nb::object raised = std::move(interruption_);
    PyErr_SetObject(raised.type().ptr(), raised.ptr());
    throw nb::python_error();
  }

  Result<std::vector<StoreAnswer>> perform(const std::vector<StoreRequest>& requests) override {
    const Interpreter interpreter;
    try {
      std::vector<StoreAnswer> answers;
      for (const StoreRequest& request : requests) answers.push_back(answer(request));
      return answers;
    } catch (nb::python_error& error) {
      return status_of(error, interpreter.of_library);
    } catch (const Error& error) {
      return error.status();
    }
  }

  distributed::StoreReach reach() const override { return reach_; }

  // By its own wait(), a second at a time, since that does not hear Ctrl-C. Where it has none, or one that returns too soon, it is asked
  // again after rests that grow with the time for which these keys are awaited, also by calls before this one.
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) override {
    const Clock::time_point start = Clock::now(), first = first_awaited(keys, start);
    auto left_s = [&] { return timeout_s - Seconds(Clock::now() - start).count(); };
    while (true) {
      const double before_s = left_s(), wanted_s = std::min(before_s, slice_s);
      Result<bool> there = are_there(keys, wanted_s);
      if (!there.ok()) return there.status();
      if (*there) return values_of(keys);
      if (left_s() <= 0) return missing(keys, timeout_s);
      if (before_s - left_s() > wanted_s / 2) continue;
      const double rest_s = std::clamp(Seconds(Clock::now() - first).count() / 4, first_rest_s, longest_rest_s);
      std::this_thread::sleep_for(Seconds(std::min(rest_s, left_s())));
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  // What a method raised. An interruption stays raised for the thread that is about to return to Python, or is kept for it.
  Status status_of(nb::python_error& error, bool on_thread_of_library) const {
    if (!error.matches(PyExc_Exception)) {
      if (on_thread_of_library)
        interruption_ = nb::borrow(error.value());
      else
        error.restore();
      return {ErrorCode::revoked, "this rank was interrupted while it used a store"};
    }
    return {ErrorCode::store_lost, "the store that was given failed: " + type_text(error.value()) + ": " + shown(error.value())};
  }

  Clock::time_point first_awaited(const std::vector<std::string>& keys, Clock::time_point now) {
    std::lock_guard lock(mutex_);
    if (awaited_ != keys) since_ = now;
    awaited_ = keys;
    return since_;
  }

  nb::bytes bytes(const std::string& value) const { return nb::bytes(value.data(), value.size()); }
  nb::object key(const std::string& name) const { return nb::str(name.data(), name.size()); }
  nb::list list(const std::vector<std::string>& names) const {
    nb::list keys;
    for (const std::string& name : names) keys.append(key(name));
    return keys;
  }
  bool has(const std::vector<std::string>& names) const { return flag_of(store_.attr("check")(list(names)), "what the store's check() returned"); }

  StoreAnswer answer(const StoreRequest& request) const {
    const nb::object name = key(request.key);
    switch (request.kind) {
      case Kind::get:
        if (!has({request.key})) return {};
        return {.found = true, .value = bytes_of(store_.attr("get")(name), "what the store's get() returned")};
      case Kind::check: return {.found = has({request.key})};
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

  Result<bool> are_there(const std::vector<std::string>& keys, double within_s) const {
    const Interpreter interpreter;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (has_wait_ && within_s > 0) return has_come(keys, within_s) || has(keys);
      return has(keys);
    } catch (nb::python_error& error) {
      return status_of(error, interpreter.of_library);
    } catch (const Error& error) {
      return error.status();
    }
  }

  // Stores say in different ways that a key has not come, and all of them by an exception; what is really wrong check() says, too.
  bool has_come(const std::vector<std::string>& keys, double within_s) const {
    try {
      store_.attr("wait")(list(keys), nb::module_::import_("datetime").attr("timedelta")(0, within_s));
      return true;
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw;
      return false;
    }
  }

  Result<std::vector<std::string>> values_of(const std::vector<std::string>& keys) const {
    const Interpreter interpreter;
    try {
      std::vector<std::string> values;
      size_t total = 0;
      for (const std::string& name : keys) {
        values.push_back(bytes_of(store_.attr("get")(key(name)), "what the store's get() returned"));
        total += values.back().size();
        if (total > most_bytes) return Status(ErrorCode::resource, "the store holds more than 32 MiB under keys that were asked for, \"" + name + "\" among them");
      }
      return values;
    } catch (nb::python_error& error) {
      return status_of(error, interpreter.of_library);
    } catch (const Error& error) {
      return error.status();
    }
  }

  static Status missing(const std::vector<std::string>& keys, double timeout_s) {
    std::string names;
    for (const std::string& name : keys) names += (names.empty() ? "" : ", ") + name;
    return {ErrorCode::timeout, "waited " + std::to_string(timeout_s) + " s for the keys " + names + " of a store"};
  }

  nb::object store_;
  mutable nb::object interruption_;  // under the interpreter's lock
  distributed::StoreReach reach_;
  bool has_wait_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::string> awaited_;
  Clock::time_point since_;
};

}  // namespace

void raise_interruption_of(Store* store) {
  if (auto* foreign = dynamic_cast<ForeignStore*>(store)) foreign->raise_interruption();
}

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
