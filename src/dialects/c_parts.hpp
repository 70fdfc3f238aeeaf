// What the files of the C header share: the handles, how an exception becomes a status, and what every collective does
// alike.
#pragma once

#include <memory>
#include <optional>

#include "dialects/build.hpp"
#include "dialects/default_world.hpp"
#include "unisono/distributed.hpp"
#include "unisono/unisono.h"

struct unisono_group {
  unisono::GroupHandle handle;
};

struct unisono_work {
  unisono::GroupHandle group;  // whose ranks source is told in
  unisono::WorkPtr work;       // null: the rank was outside the group, and there was nothing to do
};

namespace unisono::c {

unisono_status remember(const Status& status) noexcept;  // as this thread's last error
unisono_status remember_thrown() noexcept;               // the exception being handled

// Runs `body`, which throws; nothing that is thrown leaves.
template <typename Body>
unisono_status guarded(Body body) noexcept {
  try {
    body();
    return UNISONO_OK;
  } catch (...) {
    return remember_thrown();
  }
}

Status find_dtype(unisono_dtype number, DType& dtype);
Status find_op(unisono_op number, ReduceOp& op);
Status check_given(const char* argument, const void* pointer);
void need(const char* argument, const void* pointer);  // throws ArgumentError where it is null
std::optional<double> timeout_of(double timeout_s);    // 0: none of its own; ArgumentError for a negative one
GroupHandle handle_of(const unisono_group* group);     // null: the world

TensorView view_of(const void* data, int64_t count, DType dtype);

// The caller's place for a work, which stays NULL until the call is on its way. Made before it, so that nothing fails
// after it.
class WorkPlace {
 public:
  WorkPlace(unisono_work** place, const GroupHandle& group);
  void fill(WorkPtr work);

 private:
  unisono_work** place_;
  std::unique_ptr<unisono_work> handle_;
};

// What the functions of the header have in common, as they are given it.
struct Given {
  const char* function;
  Collective kind;
  const unisono_group* group;
  unisono_work** work;
  std::optional<unisono_dtype> dtype = {};
  std::optional<unisono_op> op = {};
};

// The same once it is understood.
struct Understood {
  Group& group;
  GroupHandle handle;
  bool async_op;
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;

  int me() const { return group.me(); }
  int ranks() const { return group.size(); }
  TensorView view(const void* data, int64_t count) const { return view_of(data, count, dtype); }
  TensorView view_for_all(const void* data, int64_t count) const;  // of `count` elements a rank
  Call call(Collective kind, int64_t count) const;
  WorkPtr deliver(Call&& call, const Status& checked) const {
    return unisono::deliver(group, std::move(call), checked, {async_op, {}, nullptr});
  }
  distributed::Options options() const { return {handle, async_op, {}}; }
  distributed::ReduceOptions reduce_options() const { return {op, handle, async_op, {}}; }
};

Status understand(const Given& given, Understood& understood);

// `check` says what is wrong with arguments that only C has, such as arrays; what is wrong refuses the call, so that
// the others hear of it. `body` then makes the call.
template <typename Check, typename Body>
unisono_status collective(const Given& given, Check check, Body body) noexcept {
  return guarded([&] {
    const GroupHandle handle = handle_of(given.group);
    WorkPlace place(given.work, handle);
    WorkPtr work;
    if (Group* group = group_of(handle, given.function)) {
      Understood understood{*group, handle, given.work != nullptr};
      Status checked = understand(given, understood);
      if (checked.ok()) checked = check(understood);
      if (!checked.ok()) throw_if_error(group->refuse(given.kind, checked));
      work = body(understood);
    }
    place.fill(std::move(work));
  });
}

template <typename Body>
unisono_status collective(const Given& given, Body body) noexcept {
  return collective(
      given, [](const Understood&) { return Status::success(); }, body);
}

}  // namespace unisono::c
