// Groups and reductions of the distributed dialect.
#include <nanobind/stl/vector.h>

#include <cctype>
#include <functional>

#include "python/core/calls.hpp"

namespace unisono::python {
namespace {

using distributed::NewGroupOptions;
using nb::handle;

NewGroupOptions group_options(handle timeout, handle reproducible) {
  NewGroupOptions options;
  options.timeout_s = seconds_of(timeout);
  if (!reproducible.is_none()) options.reproducible = flag_of(reproducible, "reproducible");
  return options;
}

std::string upper_name(const ReduceOp& op) {
  std::string name(name_of(op.kind));
  for (char& letter : name) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return name;
}

std::string name_of_op(const ReduceOp& op) {
  return op.kind == ReduceKind::premul_sum ? "ReduceOp.PREMUL_SUM(" + nb::cast<std::string>(nb::repr(nb::float_(op.factor))) + ")"
                                           : "ReduceOp." + upper_name(op);
}

// For pickle and copy: how to ask the class for it.
nb::tuple reduction_of_op(const ReduceOp& op) {
  const nb::module_ operators = nb::module_::import_("operator");
  const nb::object ask = op.kind == ReduceKind::premul_sum ? operators.attr("methodcaller")("PREMUL_SUM", op.factor)
                                                           : operators.attr("attrgetter")(upper_name(op));
  return nb::make_tuple(ask, nb::make_tuple(nb::type<ReduceOp>()));
}

ReduceOp premul_sum(handle factor) {
  double number = 0;
  if (PyBool_Check(factor.ptr()) || !nb::try_cast(factor, number))
    fail(ErrorCode::argument_type, "factor is a " + type_text(factor) + "; give a number");
  return ReduceOp::premul_sum(number);
}

void bind_ops(nb::module_& module) {
  nb::class_<ReduceOp>(module, "ReduceOp", "How tensors are reduced: ReduceOp.SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR.")
      .def_prop_ro_static(
          "SUM", [](handle) { return ReduceOp::sum; }, "Adds.")
      .def_prop_ro_static(
          "AVG", [](handle) { return ReduceOp::avg; }, "Adds, and divides by the number of ranks.")
      .def_prop_ro_static(
          "PRODUCT", [](handle) { return ReduceOp::product; }, "Multiplies.")
      .def_prop_ro_static(
          "MIN", [](handle) { return ReduceOp::min; }, "The least.")
      .def_prop_ro_static(
          "MAX", [](handle) { return ReduceOp::max; }, "The greatest.")
      .def_prop_ro_static(
          "BAND", [](handle) { return ReduceOp::band; }, "And, bit by bit.")
      .def_prop_ro_static(
          "BOR", [](handle) { return ReduceOp::bor; }, "Or, bit by bit.")
      .def_prop_ro_static(
          "BXOR", [](handle) { return ReduceOp::bxor; }, "Exclusive or, bit by bit.")
      .def_static("PREMUL_SUM", &premul_sum, nb::arg("factor").none(),
                  "Multiplies every contribution by the factor and adds them up.")
      .def(
          "__eq__",
          [](const ReduceOp& op, handle other) { return nb::isinstance<ReduceOp>(other) && op == nb::cast<ReduceOp>(other); },
          nb::arg("other").none())
      .def("__hash__",
           [](const ReduceOp& op) { return static_cast<int64_t>(op.kind) + PyObject_Hash(nb::float_(op.factor).ptr()); })
      .def("__reduce__", &reduction_of_op)
      .def("__repr__", &name_of_op);
}

bool is_same_group(const GroupHandle& one, const GroupHandle& other) {
  return one.is_member() == other.is_member() && one.group() == other.group();
}

std::string text_of_group(const GroupHandle& group) {
  if (!group.is_member()) return "<unisono.ProcessGroup that this rank is not in>";
  if (group.is_world() && !distributed::is_initialized()) return "<unisono.ProcessGroup of all ranks, which was not joined>";
  return "<unisono.ProcessGroup \"" + distributed::group_name(group) + "\": rank " +
         std::to_string(distributed::get_rank(group)) + " of " + std::to_string(distributed::get_world_size(group)) + ">";
}

void bind_handles(nb::module_& module) {
  nb::class_<GroupHandle>(module, "ProcessGroup", "The ranks that speak together: what new_group() returns.")
      .def(
          "rank", [](const GroupHandle& group) { return distributed::get_rank(group); },
          "This rank, in the group; -1 outside it.")
      .def(
          "size", [](const GroupHandle& group) { return distributed::get_world_size(group); },
          "How many ranks it has; -1 outside it.")
      .def(
          "name", [](const GroupHandle&) { return distributed::get_backend(); }, "Of the backend, as in torch: \"unisono\".")
      .def("is_member", &GroupHandle::is_member, "Whether this rank is in it.")
      .def(
          "__eq__",
          [](const GroupHandle& group, handle other) {
            return nb::isinstance<GroupHandle>(other) && is_same_group(group, nb::cast<GroupHandle>(other));
          },
          nb::arg("other").none())
      .def("__hash__",
           [](const GroupHandle& group) { return std::hash<const void*>()(group.group().get()) + (group.is_member() ? 1 : 2); })
      .def("__repr__", &text_of_group);
  module.def("outside", &GroupHandle::outside);
  module.def("world", [] { return GroupHandle(); });
}

void bind_asking(nb::module_& module) {
  module.def("is_initialized", &distributed::is_initialized);
  define(module, "get_backend", +[](handle group) { return group_of(group), distributed::get_backend(); });
  define(module, "get_rank", +[](handle group) { return distributed::get_rank(group_of(group)); });
  define(module, "get_world_size", +[](handle group) { return distributed::get_world_size(group_of(group)); });
  define(module, "get_process_group_ranks", +[](handle group) { return distributed::get_process_group_ranks(group_of(group)); });
  define(module, "get_group_rank", +[](handle group, handle rank) {
    return distributed::get_group_rank(group_of(group), whole_of(rank, "global_rank"));
  });
  define(module, "get_global_rank", +[](handle group, handle rank) {
    return distributed::get_global_rank(group_of(group), whole_of(rank, "group_rank"));
  });
}

void bind_reading(nb::module_& module) {  // for functions that are made in Python
  define(module, "op", &op_of);
  define(module, "flag", +[](handle value, handle argument) { return flag_of(value, text_of(argument, "argument").c_str()); });
  define(module, "whole", +[](handle value, handle argument) { return whole_of(value, text_of(argument, "argument").c_str()); });
  define(module, "wholes", +[](handle list, handle argument) { return wholes_of(list, text_of(argument, "argument").c_str()); });
  define(module, "items", +[](handle list, handle argument, handle wanted) {
    return list_of(list, text_of(argument, "argument").c_str(), text_of(wanted, "wanted").c_str());
  });
}

std::vector<GroupHandle> new_subgroups(handle lists, handle timeout) {
  std::vector<std::vector<int>> ranks;
  for (handle list : list_of(lists, "ranks_per_subgroup_list", "lists of ranks"))
    ranks.push_back(wholes_of(list, "ranks_per_subgroup_list"));
  const NewGroupOptions options = group_options(timeout, nb::none());
  return released([&] { return distributed::new_subgroups_by_enumeration(ranks, options).all; });
}

// Which of the lists this rank is in. Everybody tells the others before a group is made, so a wrong list is refused like a
// tensor.
GroupHandle split_group(handle group, handle split_ranks, handle timeout) {
  const GroupHandle parent = group_of(group);
  NewGroupOptions options;
  int colour = -1;
  arguments(Collective::all_gather, parent, [&] {
    options = group_options(timeout, nb::none());
    const int me = distributed::get_rank(parent);
    int index = 0;
    for (handle list : list_of(split_ranks, "split_ranks", "lists of ranks of the group")) {
      for (int rank : wholes_of(list, "split_ranks"))
        if (rank == me) colour = index;
      ++index;
    }
    if (index == 0) fail(ErrorCode::argument, "split_ranks is empty; give a list of lists of ranks of the group");
    return 0;
  });
  return released([&] { return distributed::split_group(parent, colour, 0, options); });
}

void bind_making(nb::module_& module) {
  define(module, "new_group", +[](handle ranks, handle timeout, handle reproducible) {
    const std::vector<int> members = wholes_of(ranks, "ranks");
    const NewGroupOptions options = group_options(timeout, reproducible);
    return released([&] { return distributed::new_group(members, options); });
  });
  define(module, "split_group", &split_group);
  define(module, "new_subgroups_by_enumeration", &new_subgroups);
  define(module, "shrink_group", +[](handle ranks, handle group) {
    const GroupHandle whole = group_of(group);
    const std::vector<int> excluded = wholes_of(ranks, "ranks_to_exclude");
    return released([&] { return distributed::shrink_group(excluded, whole); });
  });
  define(module, "agree", +[](handle flag, handle group, handle timeout) {
    const GroupHandle members = group_of(group);
    const bool mine = flag_of(flag, "flag");
    const std::optional<double> timeout_s = seconds_of(timeout);
    return released([&] { return distributed::agree(mine, members, timeout_s); });
  });
  define(module, "failed_ranks", +[](handle group) { return distributed::failed_ranks(group_of(group)); });
  define(module, "abort", +[](handle group, handle why) {
    const GroupHandle members = group_of(group);
    const std::string text = text_of(why, "why");
    released([&] { return distributed::abort(members, text), 0; });
  });
}

}  // namespace

void bind_groups(nb::module_& module) {
  bind_ops(module);
  bind_handles(module);
  bind_asking(module);
  bind_making(module);
  bind_reading(module);
}

}  // namespace unisono::python
