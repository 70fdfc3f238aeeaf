// The C header: groups.
#include <fmt/core.h>

#include <algorithm>

#include "dialects/c_parts.hpp"

namespace unisono::c {
namespace {

template <typename Make>
unisono_status make_group(unisono_group** made, const char* function, Make make) {
  return guarded([&] {
    need("made", made);
    *made = nullptr;
    auto group = std::make_unique<unisono_group>();
    group->membership.handle = make();
    group->membership.world = current_world(function);
    *made = group.release();
  });
}

std::vector<int> list_of(const char* argument, const int* numbers, int count) {
  if (count < 0) throw_if_error(wrong(fmt::format("count is {}; it is how many {} there are", count, argument)));
  if (count > 0) need(argument, numbers);
  return std::vector<int>(numbers, numbers + count);
}

// Before the dialect's own look at it, so that what is wrong names a function that C has.
GroupHandle member_handle(const unisono_group* group, const char* function) {
  GroupHandle handle = handle_of(group);
  if (!group_of(group, function)) throw_if_error(wrong(fmt::format("{}: this rank is not in the group", function)));
  return handle;
}

}  // namespace

GroupHandle handle_of(const unisono_group* group) { return group ? group->membership.handle : GroupHandle(); }

Group* group_of(const Membership& membership, const char* function) {
  Group* group = membership.handle.group().get();
  if (!membership.handle.is_member()) {
    if (has_world() && current_world(function) == membership.world.lock()) return nullptr;
  } else if (!group) {
    return unisono::group_of(membership.handle, function);
  } else if (!group->was_left()) {
    return group;
  }
  throw_if_error(
      Status(ErrorCode::state,
             fmt::format("{}: {} is gone, since its world was left or the group destroyed; make it again in the "
                         "world that is joined now",
                         function, group ? fmt::format("group \"{}\"", group->name()) : "this group")));
  return nullptr;
}

Group* group_of(const unisono_group* group, const char* function) {
  return group ? group_of(group->membership, function) : unisono::group_of({}, function);
}

}  // namespace unisono::c

namespace c = unisono::c;
namespace distributed = unisono::distributed;

unisono_status unisono_group_rank(const unisono_group* group, int* rank) {
  return c::guarded([&] {
    c::need("rank", rank);
    unisono::Group* found = c::group_of(group, "unisono_group_rank");
    *rank = found ? found->me() : -1;
  });
}

unisono_status unisono_group_size(const unisono_group* group, int* size) {
  return c::guarded([&] {
    c::need("size", size);
    unisono::Group* found = c::group_of(group, "unisono_group_size");
    *size = found ? found->size() : -1;
  });
}

unisono_status unisono_group_to_world(const unisono_group* group, int rank, int* world_rank) {
  return c::guarded([&] {
    c::need("world_rank", world_rank);
    *world_rank = distributed::get_global_rank(c::member_handle(group, "unisono_group_to_world"), rank);
  });
}

unisono_status unisono_group_from_world(const unisono_group* group, int world_rank, int* rank) {
  return c::guarded([&] {
    c::need("rank", rank);
    *rank = distributed::get_group_rank(c::member_handle(group, "unisono_group_from_world"), world_rank);
  });
}

unisono_status unisono_group_new(const int* world_ranks, int count, const char* name, double timeout_s,
                                 unisono_group** made) {
  return c::make_group(made, "unisono_group_new", [&] {
    unisono::current_world("unisono_group_new");
    distributed::NewGroupOptions options{.timeout_s = c::timeout_of(timeout_s), .name = name ? name : ""};
    return distributed::new_group(c::list_of("world_ranks", world_ranks, count), options);
  });
}

unisono_status unisono_group_split(const unisono_group* group, int colour, int key, unisono_group** made) {
  return c::make_group(made, "unisono_group_split", [&] {
    return distributed::split_group(c::member_handle(group, "unisono_group_split"), colour, key);
  });
}

unisono_status unisono_group_shrink(const unisono_group* group, const int* excluded, int count, unisono_group** made) {
  return c::make_group(made, "unisono_group_shrink", [&] {
    const unisono::GroupHandle handle = c::member_handle(group, "unisono_group_shrink");
    std::vector<int> world_ranks = c::list_of("excluded", excluded, count);
    for (int& rank : world_ranks) rank = distributed::get_global_rank(handle, rank);
    return distributed::shrink_group(world_ranks, handle);
  });
}

unisono_status unisono_group_destroy(unisono_group* group) {
  return c::guarded([&] {
    c::need("group", group);
    const std::unique_ptr<unisono_group> owned(group);
    if (c::group_of(group, "unisono_group_destroy")) distributed::destroy_process_group(owned->membership.handle);
  });
}

unisono_status unisono_group_agree(const unisono_group* group, int flag, double timeout_s, int* answer) {
  return c::guarded([&] {
    c::need("answer", answer);
    *answer =
        distributed::agree(flag != 0, c::member_handle(group, "unisono_group_agree"), c::call_timeout_or(timeout_s))
            ? 1
            : 0;
  });
}

unisono_status unisono_group_failed_ranks(const unisono_group* group, int* failed, int capacity, int* count) {
  return c::guarded([&] {
    c::need("count", count);
    if (capacity > 0) c::need("failed", failed);
    const std::vector<int> ranks = distributed::failed_ranks(c::member_handle(group, "unisono_group_failed_ranks"));
    *count = static_cast<int>(ranks.size());
    std::copy_n(ranks.begin(), std::clamp(capacity, 0, *count), failed);
  });
}

unisono_status unisono_group_abort(const unisono_group* group, const char* why) {
  return c::guarded([&] {
    distributed::abort(c::member_handle(group, "unisono_group_abort"), why ? why : "unisono_group_abort() was called");
  });
}
