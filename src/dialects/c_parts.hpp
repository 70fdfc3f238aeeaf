// What the files of the C header share: the handles, how an exception becomes a status, and what every collective does
// alike.
#pragma once

#include <memory>
#include <optional>

#include "base/check.hpp"
#include "dialects/build.hpp"
#include "dialects/default_world.hpp"
#include "unisono/distributed.hpp"
#include "unisono/unisono.h"

namespace unisono::c {

// A group as a handle of C names it. The world tells when it is out of date, also on ranks that are outside.
struct Membership {
  GroupHandle handle;
  std::weak_ptr<World> world;
};

}  // namespace unisono::c

struct unisono_group {
  unisono::c::Membership membership;
};

struct unisono_work {
  unisono::GroupHandle group;  // whose ranks source is told in
  unisono::WorkPtr work;       // null: the rank was outside the group, and there was nothing to do
};

struct unisono_prepared {
  unisono::c::Membership membership;
  unisono::Prepared call;
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

inline Status wrong(std::string text) { return {ErrorCode::argument, std::move(text)}; }
Status find_dtype(unisono_dtype number, DType& dtype);
Status find_op(unisono_op number, ReduceOp& op);
Status check_given(const char* argument, const void* pointer);
void need(const char* argument, const void* pointer);     // throws ArgumentError where it is null
std::optional<double> timeout_of(double timeout_s);       // 0: none of its own; ArgumentError for a negative one
std::optional<double> call_timeout();                     // what unisono_set_call_timeout() was given in this thread
std::optional<double> call_timeout_or(double timeout_s);  // the call's own, or that

GroupHandle handle_of(const unisono_group* group);  // null: the world
// The group, or null where this rank is outside; StateError where its world was left.
Group* group_of(const Membership& membership, const char* function);
Group* group_of(const unisono_group* group, const char* function);

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

// What becomes of a call: it is made, with a work or without one, or it is kept.
struct Outcome {
  Outcome(unisono_work** work) : work(work) {}
  Outcome(unisono_prepared** prepared) : prepared(prepared), is_kept(true) {}

  unisono_work** work = nullptr;
  unisono_prepared** prepared = nullptr;
  bool is_kept = false;
};

// What the functions of the header have in common, as they are given it.
struct Given {
  const char* function;
  Collective kind;
  const unisono_group* group;
  Outcome outcome;
  std::optional<unisono_dtype> dtype = {};
  std::optional<unisono_op> op = {};
};

// The same once it is understood.
struct Understood {
  Group& group;
  GroupHandle handle;
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;

  int me() const { return group.me(); }
  int ranks() const { return group.size(); }
  TensorView view(const void* data, int64_t count) const { return view_of(data, count, dtype); }
  TensorView view_for_all(const void* data, int64_t count) const;  // of `count` elements a rank
  Request request(Collective kind, int64_t count) const;
  distributed::Options options() const { return {.group = handle}; }
  distributed::ReduceOptions reduce_options() const { return {.op = op, .group = handle}; }
};

Status understand(const Given& given, Understood& understood);
Request refused(Group& group, Collective kind, const Status& why);
void make(const Given& given, const GroupHandle& handle, Request&& request);
void keep(const Given& given, const GroupHandle& handle, Request&& request);

// `check` says what is wrong with arguments that only C has, such as arrays; what is wrong refuses the call, so that
// the others hear of it. `body` then makes a request of them.
template <typename Check, typename Body>
unisono_status collective(const Given& given, Check check, Body body) noexcept {
  return guarded([&] {
    if (given.outcome.work) *given.outcome.work = nullptr;
    if (given.outcome.prepared) *given.outcome.prepared = nullptr;
    const GroupHandle handle = handle_of(given.group);
    auto request_of = [&]() -> Request {
      Group* group = group_of(given.group, given.function);
      if (!group) return {};
      Understood understood{*group, handle};
      Request request;
      const Status checked = or_out_of_memory([&]() -> Status {
        RETURN_IF_ERROR(understand(given, understood));
        RETURN_IF_ERROR(check(understood));
        request = body(understood);
        return Status::success();
      });
      return checked.ok() ? std::move(request) : refused(*group, given.kind, checked);
    };
    (given.outcome.is_kept ? keep : make)(given, handle, request_of());
  });
}

template <typename Body>
unisono_status collective(const Given& given, Body body) noexcept {
  return collective(
      given, [](const Understood&) { return Status::success(); }, body);
}

}  // namespace unisono::c
