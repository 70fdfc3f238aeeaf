// unisono.communication: joining and groups by name.
#include "unisono/communication.hpp"

#include <nanobind/stl/vector.h>

#include "python/core/calls.hpp"

namespace unisono::python {

using nb::handle;

void bind_communication(nb::module_& parent) {
  nb::module_ module = parent.def_submodule("communication");
  define(module, "init", +[] { released([] { return communication::init(), 0; }); });
  define(module, "release", +[] {
    released([] { return communication::release(), 0; });
    forget_finished();
  });
  define(module, "get_rank", +[](handle group) { return communication::get_rank(group_name_of(group)); });
  define(module, "get_group_size", +[](handle group) { return communication::get_group_size(group_name_of(group)); });
  define(module, "get_local_rank", +[](handle group) { return communication::get_local_rank(group_name_of(group)); });
  define(module, "get_local_rank_size", +[](handle group) { return communication::get_local_rank_size(group_name_of(group)); });
  define(module, "create_group", +[](handle group, handle rank_ids) {
    const std::string name = text_of(group, "group");
    const std::vector<int> ranks = wholes_of(rank_ids, "rank_ids");
    released([&] { return communication::create_group(name, ranks), 0; });
  });
  define(module, "destroy_group", +[](handle group) {
    const std::string name = text_of(group, "group");
    released([&] { return communication::destroy_group(name), 0; });
  });
  define(module, "get_world_rank_from_group_rank", +[](handle group, handle rank) {
    return communication::get_world_rank_from_group_rank(group_name_of(group), whole_of(rank, "group_rank_id"));
  });
  define(module, "get_group_rank_from_world_rank", +[](handle rank, handle group) {
    return communication::get_group_rank_from_world_rank(whole_of(rank, "world_rank_id"), group_name_of(group));
  });
  define(
      module, "get_process_group_ranks",
      +[](handle group) { return communication::get_process_group_ranks(group_name_of(group)); });
}

}  // namespace unisono::python
