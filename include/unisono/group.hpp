// Naming the ranks that speak together. A Group itself is opaque; the functions of the dialects ask about it.
#pragma once

#include <memory>

namespace unisono {
class Group;
}

#pragma GCC visibility push(default)
namespace unisono {

// What the distributed dialect's `group` parameter takes. Without a group it means the whole world. A rank that is not in
// a new group gets a handle that is not a member: calls with it do nothing and return nothing.
class GroupHandle {
 public:
  GroupHandle() = default;
  GroupHandle(std::shared_ptr<Group> group) : group_(std::move(group)) {}
  static GroupHandle outside() {
    GroupHandle handle;
    handle.outside_ = true;
    return handle;
  }

  bool is_member() const { return !outside_; }
  bool is_world() const { return !outside_ && !group_; }
  const std::shared_ptr<Group>& group() const { return group_; }

 private:
  std::shared_ptr<Group> group_;
  bool outside_ = false;
};

}  // namespace unisono
#pragma GCC visibility pop
