// The process-wide default World: the only mutable state outside objects. See default_world.hpp.
//
// Order: `epoch` is added to with release after the World was changed under the mutex, and loaded with acquire before what a
// thread remembers is used; who finds it changed takes the mutex and looks anew.
#include "dialects/default_world.hpp"

#include <fmt/core.h>
#include <pthread.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "base/patient_mutex.hpp"
#include "base/shortage.hpp"
#include "unisono/shared_tensor.hpp"

namespace unisono {
namespace {

struct DefaultWorld {
  PatientMutex joining;  // held by the thread that joins, for as long as that takes; nothing else waits for it
  std::mutex mutex;          // guards the rest, for moments
  std::shared_ptr<World> world;
  bool handlers_registered = false;  // under `joining`
  std::atomic<uint64_t> epoch{1};  // changes after every change of `world`: what threads remember of it is then stale
};

DefaultWorld& default_world() {
  static DefaultWorld* the_default = new DefaultWorld;  // outlives every static object that might still call us at exit
  return *the_default;
}

thread_local std::shared_ptr<World> speaking_as;

// The group of the World, as this thread found it last: no lock and no counting of references in every call.
struct Remembered {
  uint64_t epoch = 0;
  std::shared_ptr<Group> group;
};
thread_local Remembered remembered;

std::shared_ptr<World> find_world() {
  if (speaking_as) return speaking_as;
  std::lock_guard lock(default_world().mutex);
  return default_world().world;
}

void look_anew() { default_world().epoch.fetch_add(1, std::memory_order_release); }

Group& world_group(const char* wanted_for) {
  const uint64_t epoch = default_world().epoch.load(std::memory_order_acquire);
  if (remembered.epoch != epoch || remembered.group->world().forked()) [[unlikely]] {
    remembered = {};
    auto group = current_world(wanted_for)->world_group();
    remembered = {epoch, std::move(group)};
  }
  return *remembered.group;
}

// A process that exits without leaving tells its peers how, so that they need not guess.
void say_goodbye(int status, void*) {
  std::unique_lock lock(default_world().mutex, std::try_to_lock);
  if (lock && default_world().world) default_world().world->say_exiting(status);
}

// A forked child must not keep the rank's descriptors, or the meeting place would stay taken when the rank has left it. While
// somebody leaves, a child is left as it is: fork() waits for nobody. Whoever was joining is not there in the child.
thread_local bool locked_for_fork = false;

void before_fork() { locked_for_fork = default_world().mutex.try_lock(); }
void after_fork() {
  if (std::exchange(locked_for_fork, false)) default_world().mutex.unlock();
}
void after_fork_in_child() {
  new (&default_world().joining) PatientMutex;
  if (locked_for_fork && default_world().world) default_world().world->close_in_child();
  after_fork();
}

// Another thread may be joining, for as long as its deadline lets it.
std::unique_lock<PatientMutex> wait_to_join(DefaultWorld& state) {
  constexpr std::chrono::milliseconds slice(50);
  std::unique_lock joining(state.joining, std::defer_lock);
  for (InterruptWatch interrupts; !joining.try_lock_for(slice);)
    if (interrupts.tripped())
      throw RevokedError(Status(ErrorCode::revoked, "this thread was interrupted while it waited for another, which is joining the world"));
  return joining;
}

// Where memory runs out before anybody is met, it is tried once more, only to say so: that needs less of it.
Result<std::shared_ptr<World>> launch_here(const LaunchRequest& request) {
  for (const Status& refusal : {Status::success(), out_of_memory()}) {
    try {
      return launch(request, process_environment(), refusal);
    } catch (const std::bad_alloc&) {
    }
  }
  return out_of_memory();  // the others wait for their deadline then
}

}  // namespace

bool has_world() {
  const auto world = find_world();
  return world && !world->forked();
}

std::shared_ptr<World> current_world(const char* wanted_for) {
  auto world = find_world();
  if (!world) {
    const bool from_c = std::string_view(wanted_for).starts_with("unisono_");
    const char* first = from_c ? "unisono_init()" : "init_process_group() or communication.init()";
    throw StateError(Status(ErrorCode::state, fmt::format("{} was called before the world was joined: call {} first", wanted_for, first)));
  }
  if (world->forked())
    throw StateError(Status(ErrorCode::state, fmt::format("{} was called in a forked child of a rank; only the process that joined "
                                                          "may use the library", wanted_for)));
  return world;
}

void join_default_world(const LaunchRequest& request) {
  throw_if_error(outside_interrupt_check());
  DefaultWorld& state = default_world();
  const std::unique_lock joining = wait_to_join(state);
  std::shared_ptr<World> there;
  {
    std::lock_guard lock(state.mutex);
    there = state.world;
  }
  if (there && !there->forked()) {
    const bool another = request.rank.value_or(there->rank()) != there->rank() || request.size.value_or(there->size()) != there->size();
    if (another)
      throw StateError(Status(ErrorCode::state, fmt::format("the world was joined already, as rank {} of {}; leave it first",
                                                            there->rank(), there->size())));
    return;
  }
  if (!std::exchange(state.handlers_registered, true)) {
    on_exit(say_goodbye, nullptr);
    pthread_atfork(before_fork, after_fork, after_fork_in_child);
  }
  auto world = launch_here(request);
  throw_if_error(world.status());
  std::lock_guard lock(state.mutex);
  state.world = std::move(*world);
  look_anew();
}

void leave_default_world() {
  throw_if_error(outside_interrupt_check());
  std::shared_ptr<World> world;
  {
    std::lock_guard lock(default_world().mutex);
    world.swap(default_world().world);
    look_anew();
  }
  remembered = {};
  if (!world) throw StateError(Status(ErrorCode::state, "there is no world to leave: it was left already, or never joined"));
  world->leave();
}

SpeakAs::SpeakAs(std::shared_ptr<World> world) : before_(std::exchange(speaking_as, std::move(world))) { remembered = {}; }
SpeakAs::~SpeakAs() {
  speaking_as = before_;
  remembered = {};
}

Tensor alloc_shared(Shape shape, DType dtype) {
  Tensor tensor = Tensor::in(nullptr, dtype, shape);
  auto memory = current_world("alloc_shared")->share_memory(tensor.bytes());
  throw_if_error(memory.status());
  return Tensor::in(std::move(*memory), dtype, shape);
}

bool names_the_world(const std::string& group) {
  for (std::string_view name : {"", "hccl_world_group", "nccl_world_group", "mccl_world_group"})
    if (group == name) return true;
  return group == world_group_name;
}

Group* group_of(const GroupHandle& handle, const char* wanted_for) {
  if (!handle.is_member()) return nullptr;
  return handle.group() ? handle.group().get() : &world_group(wanted_for);
}

std::shared_ptr<Group> group_named(const std::string& name, const char* wanted_for) {
  auto world = current_world(wanted_for);
  if (names_the_world(name)) return world->world_group();
  if (auto group = world->find_group(name)) return group;
  throw ArgumentError(Status(ErrorCode::argument, fmt::format("{}: rank {} is not in a group \"{}\"; its members create it with "
                                                              "create_group()", wanted_for, world->rank(), name)));
}

}  // namespace unisono
