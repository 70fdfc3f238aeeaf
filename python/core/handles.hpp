// What the comm_func dialect returns beside a tensor.
#pragma once

#include "python/core/calls.hpp"

namespace unisono::python {

// A CommHandle seen as the Work that it wraps.
class WorkOfHandle final : public Work {
 public:
  explicit WorkOfHandle(CommHandlePtr handle) : handle_(std::move(handle)) {}
  bool wait(std::optional<double> timeout_s) override { return handle_->wait(timeout_s), true; }
  bool is_completed() const override { return handle_->is_completed(); }
  bool is_success() const override { return is_completed() && exception().ok(); }
  Status exception() const override { return handle_->exception(); }
  void on_completion(std::function<void()> function) override { handle_->on_completion(std::move(function)); }

 private:
  CommHandlePtr handle_;
};

class PythonHandle {
 public:
  PythonHandle(CommHandlePtr handle, std::vector<Array> arrays)
      : work_(handle ? std::make_shared<WorkOfHandle>(std::move(handle)) : nullptr, std::move(arrays)) {}
  void wait(nb::handle timeout) { work_.wait(timeout); }
  bool is_completed() const { return work_.is_completed(); }
  nb::object exception() const { return work_.exception(); }

 private:
  PythonWork work_;
};

inline nb::object handle_of(CommHandlePtr handle, std::vector<Array> arrays) {
  if (!handle) return nb::none();
  return nb::cast(new PythonHandle(std::move(handle), std::move(arrays)), nb::rv_policy::take_ownership);
}

void bind_letters_by_name(nb::module_& module);

}  // namespace unisono::python
