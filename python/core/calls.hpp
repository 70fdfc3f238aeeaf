// How a function of the module calls the library: without the GIL, with the arrays held for as long as the call needs them.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/core/arrays.hpp"
#include "python/core/values.hpp"
#include "unisono/binding.hpp"
#include "unisono/distributed.hpp"
#include "unisono/work.hpp"

namespace unisono::python {

// While it lives, this thread does without the GIL.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  ~Released() {
    staying_if_python_goes([this] { PyEval_RestoreThread(state_); });
  }
  Released(const Released&) = delete;

 private:
  PyThreadState* state_;
};

template <typename Function>
auto without_gil(Function function) {
  Released released;
  return function();
}

void forget_finished();  // lets go of what dropped works held and no longer need, their results copied back

// After each call: a signal may have been handled meanwhile and have raised, which comes first.
inline void after_call() {
  if (PyErr_Occurred()) throw nb::python_error();
  forget_finished();
}

template <typename Function>
auto released(Function function) {
  auto result = without_gil(function);
  after_call();
  return result;
}

// What an asynchronous call returns; it holds the arrays until the call is over, and when it is dropped before, others do.
// Results that were made in copies are copied back by whoever first learns that the call is over.
class PythonWork {
 public:
  PythonWork(WorkPtr work, std::vector<Array> arrays);
  ~PythonWork();
  PythonWork(const PythonWork&) = delete;

  bool wait(nb::handle timeout);
  bool is_completed();
  bool is_success() { return is_completed() && work_->is_success(); }
  nb::object exception();  // None while it runs and after success
  nb::object result();     // the tensors that it wrote, once it is over
  int source_rank() const { return work_->source_rank(); }

  // For Python's garbage collector. While the call runs nobody is told what it holds, so that nothing of it is cleared.
  PythonWork& work() { return *this; }
  int traverse(visitproc visit, void* argument) const;
  void settle();  // as is_completed(); whatever it raises is only shown
  void clear();

 private:
  void finish();  // copies back what has to be, and lets go of what only the call needed; once

  WorkPtr work_;
  std::vector<Array> arrays_;         // until it is finished
  std::vector<nb::object> results_;  // then
  bool finished_ = false;
  std::recursive_mutex finishing_;  // of threads that wait for the same call, one copies
};

// What makes a class that has such a work() known to the garbage collector.
template <typename Class>
struct Collected {
  static int traverse(PyObject* self, visitproc visit, void* argument) {
    if (const int stop = visit(reinterpret_cast<PyObject*>(Py_TYPE(self)), argument)) return stop;
    return nb::inst_ready(self) ? nb::inst_ptr<Class>(self)->work().traverse(visit, argument) : 0;
  }
  static int clear(PyObject* self) {
    if (nb::inst_ready(self)) nb::inst_ptr<Class>(self)->work().clear();
    return 0;
  }
  static void finalize(PyObject* self) {
    if (nb::inst_ready(self)) nb::inst_ptr<Class>(self)->work().settle();
  }
  static const PyType_Slot* slots() {
    static const PyType_Slot all[] = {{Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
                                      {Py_tp_clear, reinterpret_cast<void*>(&clear)},
                                      {Py_tp_finalize, reinterpret_cast<void*>(&finalize)},
                                      {0, nullptr}};
    return all;
  }
};

nb::object exception_of(const Status& status);

// Performs a call of the distributed dialect on arrays: None, or a Work where the call returned one. It is made before anything
// can be raised, for it keeps the arrays of a call that is under way.
template <typename Function>
nb::object perform(std::vector<Array>&& arrays, Function function) {
  std::unique_ptr<PythonWork> made;
  if (WorkPtr work = without_gil(function)) made = std::make_unique<PythonWork>(std::move(work), std::move(arrays));
  after_call();
  if (made) return nb::cast(made.release(), nb::rv_policy::take_ownership);
  for (const Array& array : arrays) copy_back(array);
  return nb::none();
}

// Tells the others that this rank refuses the call, and throws `why`.
inline void refuse(Collective kind, const Status& why, const GroupHandle& group) {
  if (group.is_member()) released([&] { return distributed::refuse(kind, why, group), 0; });
}
inline void refuse(Collective kind, const Status& why, const std::string& group) {
  released([&] { return comm_func::refuse(kind, why, group), 0; });
}

// Reads the arguments of a collective; what is wrong with them is told to the other ranks, who would wait otherwise. `group` is a
// handle or a name: it is read before, since without it nobody can be told.
template <typename GroupOrName, typename Read>
auto arguments(Collective kind, const GroupOrName& group, Read read) {
  Status why;
  try {
    return read();
  } catch (const Error& error) {
    why = error.status();
  } catch (nb::python_error& error) {  // no fault of the arguments: KeyboardInterrupt, or no memory
    try {
      refuse(kind, Status(ErrorCode::argument, "it was interrupted by " + type_text(error.value())), group);
    } catch (const Error&) {
    }
    throw;
  } catch (const std::bad_alloc&) {
    why = Status(ErrorCode::memory, "memory ran out while the arguments were read");
  } catch (const std::exception& error) {
    why = Status(ErrorCode::internal, std::string("the arguments cannot be read: ") + error.what());
  }
  try {
    refuse(kind, why, group);  // throws, but for a rank outside the group
  } catch (const Error& error) {  // whatever became of the group meanwhile, this rank hears what is wrong with its arguments
    if (error.status().code() == ErrorCode::state) throw;
  }
  fail(why.code(), why.message());
}

// The parameters of a rooted call, as they were given; `name` is src or dst.
struct Given {
  const char* name;
  nb::handle root, group_root, async_op;
};
// The same, read. Without either root: an ArgumentError, or rank 0.
struct Place {
  std::optional<int> root, group_root;
  bool async_op = false;
};
enum class IfAbsent { fail, first_rank };
Place place_of(const Given& given, IfAbsent if_absent);
std::vector<Array> read_one(nb::handle tensor, const char* argument, Access access);
std::vector<Array> read_two(nb::handle output, const char* output_argument, nb::handle input, const char* input_argument);

// What is left to do with the arrays of a call. `own` returns the OwnParts that it allows, for so many arrays.
template <typename Own>
std::vector<Array> checked(std::vector<Array>&& arrays, bool async_op, Own own) {
  if (is_any_copied(arrays)) check_apart(arrays, own(arrays.size()));
  if (async_op) hold_storages(arrays);
  return std::move(arrays);
}
OwnParts own_parts(const GroupHandle& group, size_t count);  // of so many outputs, each before its input or behind it
inline std::vector<Array> checked(std::vector<Array>&& arrays, bool async_op) {
  return checked(std::move(arrays), async_op, [](size_t) { return OwnParts(); });
}

void bind_errors(nb::module_& module);
void bind_works(nb::module_& module);
void bind_groups(nb::module_& module);
void bind_collectives(nb::module_& module);
void bind_more_collectives(nb::module_& module);
void bind_letters(nb::module_& module);
void bind_comm_func(nb::module_& module);
void bind_communication(nb::module_& module);
void bind_stores(nb::module_& module);
void bind_joining(nb::module_& module);

}  // namespace unisono::python
