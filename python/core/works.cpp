// Works: waiting, and who keeps the arrays of a call whose Work was dropped.
#include <list>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

// Of works that were dropped while their call went on. Under the GIL; never destroyed, since Python may be gone by then.
struct Orphan {
  WorkPtr work;
  std::vector<Array> arrays;
};
std::list<Orphan>& orphans() {
  static auto* const all = new std::list<Orphan>;
  return *all;
}

}  // namespace

// All finished ones are taken off the list before the first goes: arrays may run Python then, and so come here again.
void forget_finished() {
  std::list<Orphan> finished;
  for (auto orphan = orphans().begin(); orphan != orphans().end();) {
    const auto next = std::next(orphan);
    if (orphan->work->is_completed()) finished.splice(finished.end(), orphans(), orphan);
    orphan = next;
  }
}

PythonWork::PythonWork(WorkPtr work, std::vector<Array> arrays, nb::object result)
    : work_(std::move(work)), arrays_(std::move(arrays)), result_(std::move(result)) {
  if (!orphans().empty()) forget_finished();
}

PythonWork::~PythonWork() {
  if (work_ && !work_->is_completed()) orphans().push_back({std::move(work_), std::move(arrays_)});
}

void PythonWork::finish() {
  for (Array& array : arrays_) {
    if (!array.copied_from) continue;
    copy_back(array);
    array.copied_from = nb::object();
  }
}

// torch's own default is a timedelta of nothing, and means none.
bool PythonWork::wait(nb::handle timeout) {
  const bool is_default = nb::hasattr(timeout, "total_seconds") && PyObject_Not(timeout.ptr()) == 1;
  const std::optional<double> timeout_s = is_default ? std::nullopt : seconds_of(timeout);
  if (!work_) return true;
  return staying_if_python_goes([&] {
    released([&] { return work_->wait(timeout_s); });
    finish();
    return true;
  });
}

nb::object PythonWork::exception() const {
  const Status status = work_ ? work_->exception() : Status();
  return status.ok() ? nb::none() : exception_of(status);
}

nb::object PythonWork::result() {
  if (!is_completed()) fail(ErrorCode::state, "result() was asked of a call that is not over: wait() first");
  finish();
  if (result_) return result_;
  nb::list tensors;
  for (const Array& array : arrays_)
    if (array.written) tensors.append(array.given);
  return tensors;
}

void bind_works(nb::module_& module) {
  nb::class_<PythonWork>(module, "Work", "What an asynchronous call returns: wait for it before you read its result.")
      .def("wait", &PythonWork::wait, nb::arg("timeout").none() = nb::none(),
           "Blocks until the call is over; True, or raises the call's error. A timeout (seconds or a timedelta) that expires "
           "raises "
           "TimeoutError and leaves the call running: it may be waited for again.")
      .def(
          "synchronize", [](PythonWork& work) { work.wait(nb::none()); }, "As wait(), with no deadline and no answer.")
      .def("is_completed", &PythonWork::is_completed, "Whether the call is over.")
      .def("is_success", &PythonWork::is_success, "Whether the call is over and ended well.")
      .def("exception", &PythonWork::exception, "The error of a call that failed; None while it runs and after success.")
      .def("result", &PythonWork::result, "The arrays that the call wrote, once it is over.")
      .def("source_rank", &PythonWork::source_rank, "Of a receive that is over: who sent it.");
  module.def("forget_finished", &forget_finished);
}

}  // namespace unisono::python
