// How a function of the module calls the library: without the GIL, with the arrays held for as long as the call needs them.
#pragma once

#include <nanobind/nanobind.h>

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

// Calls without the GIL. A signal may have been handled meanwhile and have raised: that comes first.
template <typename Function>
auto released(Function function) {
  auto result = [&] {
    Released without_gil;
    return function();
  }();
  if (PyErr_Occurred()) throw nb::python_error();
  return result;
}

// What an asynchronous call returns; it holds the arrays until the call is over, and when it is dropped before, others do.
class PythonWork {
 public:
  PythonWork(WorkPtr work, std::vector<Array> arrays, nb::object result = {});
  ~PythonWork();
  PythonWork(const PythonWork&) = delete;

  bool wait(nb::handle timeout);
  bool is_completed() const { return !work_ || work_->is_completed(); }
  bool is_success() const { return !work_ || work_->is_success(); }
  nb::object exception() const;  // None while it runs and after success
  nb::object result();           // the tensors that it wrote, once it is over
  int source_rank() const { return work_ ? work_->source_rank() : -1; }

 private:
  void finish();  // copies back what has to be, once

  WorkPtr work_;
  std::vector<Array> arrays_;
  nb::object result_;
};

void forget_finished();  // lets go of what dropped works held and no longer need
nb::object exception_of(const Status& status);
// Performs a call of the distributed dialect on arrays: None, or a Work where the call returned one.
template <typename Function>
nb::object perform(std::vector<Array>&& arrays, Function function) {
  WorkPtr work = released(function);
  if (!work) {
    for (const Array& array : arrays) copy_back(array);
    return nb::none();
  }
  return nb::cast(new PythonWork(std::move(work), std::move(arrays)), nb::rv_policy::take_ownership);
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
