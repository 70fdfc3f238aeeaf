// How a function of the module calls the library: without the GIL, with the arrays held for as long as the call needs them.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/core/arrays.hpp"
#include "unisono/binding.hpp"
#include "unisono/distributed.hpp"
#include "unisono/work.hpp"

namespace unisono::python {

[[noreturn]] inline void fail(ErrorCode code, const std::string& text) {
  throw_if_error(Status(code, text));
  __builtin_unreachable();
}

// Calls without the GIL. A signal may have been handled meanwhile and have raised: that comes first.
template <typename Function>
auto released(Function function) {
  auto result = [&] {
    nb::gil_scoped_release release;
    return function();
  }();
  if (PyErr_Occurred()) throw nb::python_error();
  return result;
}

// The parameters of the same name, as they were given.
std::optional<double> seconds_of(nb::handle timeout);      // None, a number, or a datetime.timedelta
GroupHandle group_of(nb::handle group);                    // None: the world
std::string group_name_of(nb::handle group);               // None: the world
ReduceOp op_of(nb::handle op);                             // ours, torch's, or a name

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

// Reads the arguments of a collective; what is wrong with them is told to the other ranks, who would wait otherwise.
template <typename Read>
auto arguments(Collective kind, const GroupHandle& group, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    const Status why = error.status();
    if (group.is_member())
      released([&] {
        distributed::refuse(kind, why, group);
        return 0;
      });
    throw;
  }
}

// Where a rooted call is made, and who is its root when that is given as a rank of the group.
struct Place {
  GroupHandle group;
  bool async_op = false;
  std::optional<int> group_root;
};
void check_root(const char* name, std::optional<int> root, const Place& place);  // ArgumentError unless one of the two is given
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

}  // namespace unisono::python
