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
      : work_(std::make_shared<WorkOfHandle>(std::move(handle)), std::move(arrays)) {}
  void wait(nb::handle timeout) { work_.wait(timeout); }
  bool is_completed() { return work_.is_completed(); }
  nb::object exception() { return work_.exception(); }
  PythonWork& work() { return work_; }

 private:
  PythonWork work_;
};

// To be made as soon as the call has been, for it keeps the arrays. Null where the call is over.
inline std::unique_ptr<PythonHandle> handle_of(CommHandlePtr handle, std::vector<Array>&& arrays) {
  return handle ? std::make_unique<PythonHandle>(std::move(handle), std::move(arrays)) : nullptr;
}
inline nb::object object_of(std::unique_ptr<PythonHandle> handle) {
  return handle ? nb::cast(handle.release(), nb::rv_policy::take_ownership) : nb::none();
}

void bind_letters_by_name(nb::module_& module);

}  // namespace unisono::python
