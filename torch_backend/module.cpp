// The Python module: makes backends for torch, and ends them at exit. Everything here may wait, so the interpreter's lock is
// released.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "torch_backend/backend.hpp"
#include "torch_backend/completion_pool.hpp"
#include "torch_backend/errors.hpp"

namespace py = pybind11;
using unisono::torch_backend::CompletionPool;
using unisono::torch_backend::GroupRequest;
using unisono::torch_backend::TorchBackend;

namespace {

c10::intrusive_ptr<TorchBackend> create(const c10d::DistributedBackendOptions& options) {
  GroupRequest request{options.store, options.group_rank, options.group_size, options.global_ranks_in_group, options.group_id,
                       static_cast<double>(options.timeout.count())};
  return c10::make_intrusive<TorchBackend>(request);
}

// Callbacks may make calls while they are waited for, so that groups are looked at again and again.
void end_for_exit() {
  constexpr std::chrono::milliseconds between_looks(100);
  CompletionPool& pool = CompletionPool::instance();
  try {
    do {
      unisono::torch_backend::throw_if_signalled();
      TorchBackend::end_for_exit(TorchBackend::Ends::with_calls_under_way);
    } while (!pool.drained_within(between_looks));
  } catch (...) {  // whatever the callbacks wait for, somebody wants to go
    TorchBackend::end_for_exit(TorchBackend::Ends::all);
    pool.close();
    throw;
  }
  pool.close();
}

}  // namespace

void unisono::torch_backend::throw_if_interrupted() {
  if (!PyGILState_GetThisThreadState()) return;  // a thread that runs no Python
  py::gil_scoped_acquire lock;
  if (PyErr_Occurred()) throw py::error_already_set();
}

void unisono::torch_backend::throw_if_signalled() {
  if (gettid() != getpid() || !PyGILState_GetThisThreadState()) return;  // only the first thread hears of signals
  py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

PYBIND11_MODULE(_backend, module) {
  using released = py::call_guard<py::gil_scoped_release>;
  // What torch's Python side looks for on a backend beyond what c10d declares there.
  py::class_<TorchBackend, c10::intrusive_ptr<TorchBackend>, c10d::Backend>(module, "Backend", "A process group's part of unisono.")
      .def_property_readonly("options", &TorchBackend::getBackendOptions)
      .def("get_error", &TorchBackend::getError, released())
      .def("_set_default_timeout", &TorchBackend::setTimeout, py::arg("timeout"), released());
  module.def("create", &create, py::arg("options"), released(), "A backend for one process group, as torch describes it.");
  module.def("end_for_exit", &end_for_exit, released(), "Lets callbacks finish before the interpreter goes.");
  module.def("completion_threads", [] { return CompletionPool::instance().threads(); }, "How many threads run callbacks now.");
}
