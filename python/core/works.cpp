// Works: waiting, and who keeps the arrays of a call whose Work was dropped.
//
// Who writes: an orphan belongs to the list, which is touched with the GIL only; but whoever ends its call, without the GIL, puts
// it on the stack `finished`, and writes its `next` to do so. Order: pushing is a release after `next` and after all that the
// call has written, taking the whole stack an acquire before any of it is read. The load that asks whether there is anything
// is relaxed: what it misses is found by the next call.
#include <atomic>
#include <list>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

// What a work that was dropped while its call went on has left.
struct Orphan {
  WorkPtr work;
  std::vector<Array> arrays;
  Orphan* next = nullptr;
  std::list<Orphan>::iterator place = {};
};
struct Orphans {
  std::list<Orphan> all;
  std::atomic<Orphan*> finished{nullptr};
};

// Never destroyed, since Python may be gone by then.
Orphans& orphans() {
  static auto* const all = new Orphans;
  return *all;
}

void push_finished(Orphan& orphan) {
  auto& finished = orphans().finished;
  orphan.next = finished.load(std::memory_order_relaxed);
  while (!finished.compare_exchange_weak(orphan.next, &orphan, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

bool is_python_going() {
#if PY_VERSION_HEX >= 0x030d0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

// Calls a function that may raise, where nobody could catch it: shows what is raised. What is raised already stays so.
template <typename Function>
void quietly(Function function) {
  nb::error_scope raised;
  try {
    staying_if_python_goes(function);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("copying the result of a collective back into an array that is not contiguous");
  }
}

}  // namespace

// What goes may run Python, and so come here again: it is no longer in the list by then.
void forget_finished() {
  Orphans& known = orphans();
  if (!known.finished.load(std::memory_order_relaxed)) return;
  std::list<Orphan> last;
  for (Orphan* orphan = known.finished.exchange(nullptr, std::memory_order_acquire); orphan;) {
    Orphan* next = orphan->next;
    last.splice(last.begin(), known.all, orphan->place);  // the first that was over becomes the first
    orphan = next;
  }
  for (const Orphan& orphan : last)
    if (orphan.work->is_success())
      for (const Array& array : orphan.arrays) quietly([&] { copy_back(array); });
}

PythonWork::PythonWork(WorkPtr work, std::vector<Array> arrays) : work_(std::move(work)), arrays_(std::move(arrays)) {}

PythonWork::~PythonWork() {
  settle();
  if (finished_ || arrays_.empty()) return;
  Orphans& known = orphans();
  known.all.push_back({.work = work_, .arrays = std::move(arrays_)});
  Orphan& orphan = known.all.back();
  orphan.place = std::prev(known.all.end());
  work_->on_completion([&orphan] { push_finished(orphan); });
}

// Whoever comes here meanwhile waits until all is copied, but for what copying itself calls.
void PythonWork::finish() {
  std::unique_lock lock(finishing_, std::try_to_lock);
  if (!lock) {
    Released without_gil;
    lock.lock();
  }
  if (std::exchange(finished_, true)) return;
  const std::vector<Array> all = std::exchange(arrays_, {});
  for (const Array& array : all)
    if (array.written) results_.push_back(array.given);
  if (!work_->is_success() || is_python_going()) return;
  for (const Array& array : all) copy_back(array);
}

void PythonWork::settle() {
  if (work_->is_completed()) quietly([this] { finish(); });
}

bool PythonWork::is_completed() {
  if (!work_->is_completed()) return false;
  staying_if_python_goes([this] { finish(); });
  return true;
}

int PythonWork::traverse(visitproc visit, void* argument) const {
  if (!work_->is_completed()) return 0;
  for (const nb::object& object : results_)
    if (const int stop = visit(object.ptr(), argument)) return stop;
  for (const Array& array : arrays_)
    for (const nb::object* object : {&array.given, &array.owner, &array.storage, &array.copied_from})
      if (object->is_valid())
        if (const int stop = visit(object->ptr(), argument)) return stop;
  return 0;
}

void PythonWork::clear() { const std::vector<nb::object> last = std::exchange(results_, {}); }

// torch's own default is a timedelta of nothing, and means none.
bool PythonWork::wait(nb::handle timeout) {
  const bool is_default = nb::hasattr(timeout, "total_seconds") && PyObject_Not(timeout.ptr()) == 1;
  const std::optional<double> timeout_s = is_default ? std::nullopt : seconds_of(timeout);
  return staying_if_python_goes([&] {
    released([&] { return work_->wait(timeout_s); });
    finish();
    return true;
  });
}

nb::object PythonWork::exception() {
  is_completed();
  const Status status = work_->exception();
  return status.ok() ? nb::none() : exception_of(status);
}

nb::object PythonWork::result() {
  if (!is_completed()) fail(ErrorCode::state, "result() was asked of a call that is not over: wait() first");
  nb::list tensors;
  for (const nb::object& object : results_) tensors.append(object);
  return tensors;
}

void bind_works(nb::module_& module) {
  nb::class_<PythonWork>(module, "Work", nb::type_slots(Collected<PythonWork>::slots()),
                         "What an asynchronous call returns: wait for it before you read its result.")
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
