// Joining, groups, and the parameters `group` and `op`.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "python/core/calls.hpp"
#include "unisono/communication.hpp"
#include "unisono/store.hpp"

namespace unisono::python {
namespace {

using distributed::NewGroupOptions;
using distributed::Store;

NewGroupOptions group_options(nb::handle timeout, const std::string& name, std::optional<bool> reproducible) {
  NewGroupOptions options;
  options.timeout_s = seconds_of(timeout);
  options.name = name;
  options.reproducible = reproducible;
  return options;
}

ReduceOp named_op(const std::string& name) {
  std::string lower = name;
  for (char& letter : lower) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const std::optional<ReduceKind> kind = reduce_kind_named(lower);
  if (!kind || *kind == ReduceKind::premul_sum || *kind == ReduceKind::user)
    fail(ErrorCode::argument, "op is \"" + name + "\"; there are sum, avg, prod, min, max, band, bor and bxor");
  return ReduceOp{*kind};
}

std::string text_of(const ReduceOp& op) {
  const std::string name(name_of(op.kind));
  return op.kind == ReduceKind::premul_sum ? "ReduceOp.PREMUL_SUM(" + std::to_string(op.factor) + ")" : "ReduceOp." + name;
}

void bind_ops(nb::module_& module) {
  nb::class_<ReduceOp>(module, "ReduceOp", "How tensors are reduced: ReduceOp.SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR.")
      .def_prop_ro_static("SUM", [](nb::handle) { return ReduceOp::sum; })
      .def_prop_ro_static("AVG", [](nb::handle) { return ReduceOp::avg; })
      .def_prop_ro_static("PRODUCT", [](nb::handle) { return ReduceOp::product; })
      .def_prop_ro_static("MIN", [](nb::handle) { return ReduceOp::min; })
      .def_prop_ro_static("MAX", [](nb::handle) { return ReduceOp::max; })
      .def_prop_ro_static("BAND", [](nb::handle) { return ReduceOp::band; })
      .def_prop_ro_static("BOR", [](nb::handle) { return ReduceOp::bor; })
      .def_prop_ro_static("BXOR", [](nb::handle) { return ReduceOp::bxor; })
      .def_static("PREMUL_SUM", &ReduceOp::premul_sum, nb::arg("factor"), "Multiplies every contribution by the factor and adds them up.")
      .def("__eq__", [](const ReduceOp& op, nb::handle other) {
        return nb::isinstance<ReduceOp>(other) && op == nb::cast<ReduceOp>(other);
      })
      .def("__hash__", [](const ReduceOp& op) { return static_cast<int64_t>(op.kind) + nb::cast<int64_t>(nb::int_(nb::hash(nb::float_(op.factor)))); })
      .def("__repr__", &text_of);
}

void bind_handles(nb::module_& module) {
  nb::class_<GroupHandle>(module, "ProcessGroup", "The ranks that speak together: what new_group() returns.")
      .def("rank", [](const GroupHandle& group) { return distributed::get_rank(group); }, "This rank, in the group; -1 outside it.")
      .def("size", [](const GroupHandle& group) { return distributed::get_world_size(group); }, "How many ranks it has; -1 outside it.")
      .def("is_member", &GroupHandle::is_member, "Whether this rank is in it.");
  module.def("outside", &GroupHandle::outside);
  module.def("world", [] { return GroupHandle(); });
}

void bind_joining(nb::module_& module) {
  module.def("init_process_group",
             [](std::optional<int> rank, std::optional<int> size, const std::string& init_method, nb::handle timeout,
                std::shared_ptr<Store> store) {
               distributed::InitOptions options;
               options.rank = rank;
               options.world_size = size;
               options.init_method = init_method;
               options.timeout_s = seconds_of(timeout);
               options.store = std::move(store);
               released([&] { return distributed::init_process_group(options), 0; });
             }, nb::arg("rank").none(), nb::arg("world_size").none(), nb::arg("init_method"), nb::arg("timeout").none(), nb::arg("store").none());
  module.def("destroy_process_group", [](nb::handle group) {
    const GroupHandle handle = group_of(group);
    released([&] { return distributed::destroy_process_group(handle), 0; });
    forget_finished();
  }, nb::arg("group").none());
  module.def("is_initialized", &distributed::is_initialized);
  module.def("get_backend", &distributed::get_backend);
  module.def("get_rank", [](nb::handle group) { return distributed::get_rank(group_of(group)); }, nb::arg("group").none());
  module.def("get_world_size", [](nb::handle group) { return distributed::get_world_size(group_of(group)); }, nb::arg("group").none());
  module.def("get_process_group_ranks", [](nb::handle group) { return distributed::get_process_group_ranks(group_of(group)); },
             nb::arg("group").none());
  module.def("get_group_rank", [](nb::handle group, int rank) { return distributed::get_group_rank(group_of(group), rank); },
             nb::arg().none(), nb::arg());
  module.def("get_global_rank", [](nb::handle group, int rank) { return distributed::get_global_rank(group_of(group), rank); },
             nb::arg().none(), nb::arg());
}

void bind_making(nb::module_& module) {
  module.def("new_group", [](const std::vector<int>& ranks, nb::handle timeout, const std::string& name, std::optional<bool> reproducible) {
    const NewGroupOptions options = group_options(timeout, name, reproducible);
    return released([&] { return distributed::new_group(ranks, options); });
  }, nb::arg("ranks"), nb::arg("timeout").none(), nb::arg("name"), nb::arg("reproducible").none());
  module.def("split_group", [](nb::handle group, int colour, int key, nb::handle timeout, const std::string& name) {
    const GroupHandle handle = group_of(group);
    const NewGroupOptions options = group_options(timeout, name, {});
    return released([&] { return distributed::split_group(handle, colour, key, options); });
  }, nb::arg("group").none(), nb::arg("colour"), nb::arg("key"), nb::arg("timeout").none(), nb::arg("name"));
  module.def("new_subgroups_by_enumeration", [](const std::vector<std::vector<int>>& ranks, nb::handle timeout) {
    const NewGroupOptions options = group_options(timeout, "", {});
    distributed::Subgroups groups = released([&] { return distributed::new_subgroups_by_enumeration(ranks, options); });
    return std::pair(groups.mine, groups.all);
  }, nb::arg("ranks"), nb::arg("timeout").none());
  module.def("shrink_group", [](const std::vector<int>& ranks, nb::handle group, nb::handle timeout) {
    const GroupHandle handle = group_of(group);
    const NewGroupOptions options = group_options(timeout, "", {});
    return released([&] { return distributed::shrink_group(ranks, handle, options); });
  }, nb::arg("ranks"), nb::arg("group").none(), nb::arg("timeout").none());
  module.def("agree", [](bool flag, nb::handle group, nb::handle timeout) {
    const GroupHandle handle = group_of(group);
    const std::optional<double> timeout_s = seconds_of(timeout);
    return released([&] { return distributed::agree(flag, handle, timeout_s); });
  }, nb::arg("flag"), nb::arg("group").none(), nb::arg("timeout").none());
  module.def("abort", [](nb::handle group, const std::string& why) {
    const GroupHandle handle = group_of(group);
    released([&] { return distributed::abort(handle, why), 0; });
  }, nb::arg("group").none(), nb::arg("why"));
}

}  // namespace

GroupHandle group_of(nb::handle group) {
  if (group.is_none()) return {};
  GroupHandle* handle = nullptr;
  if (nb::try_cast(group, handle)) return *handle;
  fail(ErrorCode::argument_type, "group is a " + nb::cast<std::string>(nb::str(group.type().attr("__name__"))) +
                                     "; give what new_group() returned, or None for all ranks");
}

std::string group_name_of(nb::handle group) {
  std::string name;
  if (group.is_none() || nb::try_cast(group, name)) return name;
  fail(ErrorCode::argument_type, "group is a " + nb::cast<std::string>(nb::str(group.type().attr("__name__"))) +
                                     "; give a group's name, or None for all ranks");
}

ReduceOp op_of(nb::handle op) {
  ReduceOp* known = nullptr;
  if (nb::try_cast(op, known) && known) return *known;
  std::string name;
  if (nb::try_cast(op, name)) return named_op(name);
  if (nb::hasattr(op, "name") && nb::try_cast(nb::object(op.attr("name")), name)) return named_op(name);  // torch's
  fail(ErrorCode::argument_type, "op is a " + nb::cast<std::string>(nb::str(op.type().attr("__name__"))) +
                                     "; give a ReduceOp or one of \"sum\", \"avg\", \"prod\", \"min\", \"max\", \"band\", \"bor\", \"bxor\"");
}

void bind_groups(nb::module_& module) {
  bind_ops(module);
  bind_handles(module);
  bind_joining(module);
  bind_making(module);
}

}  // namespace unisono::python
