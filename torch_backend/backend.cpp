// The life of a backend: joining, leaving, groups of groups, collecting calls. The calls themselves: collectives.cpp,
// coalesced.cpp, letters.cpp and sparse.cpp.
#include "torch_backend/backend.hpp"

#include <ATen/Functions.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <set>

#include "torch_backend/completion_pool.hpp"
#include "torch_backend/errors.hpp"
#include "torch_backend/numbers.hpp"
#include "torch_backend/of_this_process.hpp"
#include "torch_backend/versions.hpp"
#include "unisono/binding.hpp"
#include "unisono/shared_tensor.hpp"

namespace unisono::torch_backend {
namespace {

// The backends of this process, for its exit.
struct Living {
  std::mutex mutex;
  std::set<TorchBackend*> all;
};

Living& living() { return of_this_process<Living>(); }

// Unlike those that the system gives, never used again.
uint64_t number_of_this_thread() {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine;
}

}  // namespace

TorchBackend::TorchBackend(const GroupRequest& request)
    : Backend(request.group_rank, request.group_size),
      name_(request.name),
      pool_(&CompletionPool::instance()),
      timeout_ms_(static_cast<int64_t>(request.timeout_s * 1000)) {
  pool_->start();
  in_torch_words([&] {
    membership_ = Membership::for_group(request);
    ranks_ = membership_->world_ranks(request);
    // Found by its members and how often they have made one, not by torch's name for it: of groups that only their members
    // make, that name depends on what other groups a rank is in.
    group_ = distributed::new_group(ranks_, {.timeout_s = request.timeout_s});
  });
  ledger_ = std::make_shared<Ledger>(ranks_);
  init();
  std::lock_guard lock(living().mutex);
  living().all.insert(this);
}

TorchBackend::~TorchBackend() {
  {
    std::lock_guard lock(living().mutex);
    living().all.erase(this);
  }
  leave();
}

void TorchBackend::end_for_exit(Ends which) {
  std::lock_guard lock(living().mutex);
  for (TorchBackend* backend : living().all)
    if (which == Ends::all || backend->ledger_->has_pending()) backend->leave();
}

c10::intrusive_ptr<c10d::Backend::Options> TorchBackend::getBackendOptions() {
  auto options = c10::make_intrusive<Options>(getBackendName(), std::chrono::milliseconds(timeout_ms_.load(std::memory_order_relaxed)));
  options->group_name = name_;
  options->global_ranks_in_group.assign(ranks_.begin(), ranks_.end());
  return options;
}

at::Tensor TorchBackend::allocateTensor(long size, at::TensorOptions options) {
  return in_torch_words([&] {
    const at::Tensor model = at::empty({0}, options);
    Tensor memory = alloc_shared(Shape{size}, dtype_of(model));
    return at::from_blob(memory.data(), {size}, [memory](void*) {}, options);
  });
}

void TorchBackend::setTimeout(std::chrono::milliseconds timeout) { timeout_ms_.store(timeout.count(), std::memory_order_relaxed); }

c10d::ErrorType TorchBackend::getError() {
  const Status failure = ledger_->failure();
  switch (failure.code()) {
    case ErrorCode::ok: return c10d::ErrorType::SUCCESS;
    case ErrorCode::timeout: return c10d::ErrorType::TIMEOUT;
    case ErrorCode::peer_lost:
    case ErrorCode::revoked: return c10d::ErrorType::REMOTE_ERROR;
    default: return c10d::ErrorType::COMM_ERROR;
  }
}

void TorchBackend::abort() {
  GroupHandle group;
  {
    std::lock_guard lock(mutex_);
    group = group_;
  }
  if (!group.is_member()) return;
  try {
    distributed::abort(group, "the process group was aborted");
    ledger_->note(Status(ErrorCode::revoked, "the process group was aborted"));
  } catch (const Error& error) {  // somebody else was first, or the group is gone: as good
    ledger_->note(error.status());
    if (!breaks_group(error.code()) && error.code() != ErrorCode::state) throw_in_torch(error.status());
  }
}

// Letters are not waited for: a receive that nobody answers would hold everything up, and nobody does with Gloo either.
void TorchBackend::shutdown() {
  in_torch_words([] { throw_if_error(outside_interrupt_check()); });  // in a signal's handler it would wait for the call below it
  if (&CompletionPool::instance() == pool_) {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    try {
      ledger_->wait_for_collectives();
    } catch (...) {  // somebody does not want to wait
      leave();
      throw;
    }
  }
  leave();
}

// The World is left with the last of its groups. A forked child leaves nothing: its parent is in there.
void TorchBackend::leave() {
  if (&CompletionPool::instance() != pool_) return;
  GroupHandle group = GroupHandle::outside();
  std::unique_ptr<Membership> membership;
  {
    std::lock_guard lock(mutex_);
    std::swap(group, group_);
    membership.swap(membership_);
  }
  try {
    if (group.is_member()) distributed::destroy_process_group(group);
  } catch (const Error&) {  // the World was left before: its groups are gone with it
  }
}

// By the members only, as torch calls it; the ranks are those of this group.
c10::intrusive_ptr<c10d::Backend> TorchBackend::split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  const auto me = std::find(ranks.begin(), ranks.end(), rank_);
  if (me == ranks.end()) return nullptr;
  GroupRequest request{store, static_cast<int>(me - ranks.begin()), static_cast<int>(ranks.size()), {}, options->group_name,
                       static_cast<double>(options->timeout.count()) * 1e-3};
  for (int member : ranks) request.members.push_back(in_torch_words([&] { return world_rank(member, "a rank to split off"); }));
  return c10::make_intrusive<TorchBackend>(request);
}

void TorchBackend::registerOnCompletionHook(std::function<void(std::shared_ptr<c10d::WorkInfo>)>&& hook) {
  onCompletionHook_ = hook;  // what hasHooks() looks at
  ledger_->set_hook(std::move(hook));
}

TorchBackend::Collected* TorchBackend::collected() {
  std::lock_guard lock(mutex_);
  if (collected_.empty()) return nullptr;
  const auto found = collected_.find(number_of_this_thread());
  return found == collected_.end() ? nullptr : &found->second;
}

// A start that finds another one ends that: an exception between start and end is how it usually comes about, and whoever
// tries again has been told once.
void TorchBackend::startCoalescing() {
  Collected abandoned;  // dropped without the lock
  {
    std::lock_guard lock(mutex_);
    const auto [place, is_new] = collected_.try_emplace(number_of_this_thread());
    if (is_new) return;
    std::swap(abandoned, place->second);
    collected_.erase(place);
  }
  throw_in_torch(Status(ErrorCode::state,
                        c10::str("process group \"", name_, "\": this thread collects calls already: there was a start without an end, as an ",
                                 "exception leaves it. That is ended now; ", abandoned.works.size(), " calls of it may be under way, and ",
                                 "nobody waits for them. Starts do not nest: end one before the next")));
}

TorchWork TorchBackend::endCoalescing() {
  Collected collected;
  {
    std::lock_guard lock(mutex_);
    const auto found = collected_.find(number_of_this_thread());
    if (found == collected_.end())
      throw_in_torch(Status(ErrorCode::state,
                            c10::str("process group \"", name_, "\": this thread does not collect calls; start that before")));
    std::swap(collected, found->second);
    collected_.erase(found);
  }
  return c10::make_intrusive<BatchWork>(std::move(collected.works));
}

void TorchBackend::note_collected(const TorchWork& work) {
  Collected* const mine = collected();
  if (!mine) return;
  mine->works.push_back(work);
  if (mine->works.size() < mine->tidy_at) return;
  std::erase_if(mine->works, [](const TorchWork& each) { return each->isCompleted() && each->isSuccess(); });
  mine->tidy_at = std::max<size_t>(16, 2 * mine->works.size());
}

TorchWork TorchBackend::wrap(Deed deed, std::vector<WorkPtr> works) {
  std::erase(works, nullptr);
  TorchWork work = works.empty() ? finished(std::move(deed)) : PostedWork::watch(std::move(deed), std::move(works), ledger_);
  note_collected(work);
  return work;
}

TorchWork TorchBackend::finished(Deed deed) {
  if (ledger_->has_hook()) {
    ledger_->begin();
    const auto now = std::chrono::steady_clock::now();
    const c10d::WorkInfo info = work_info(deed.kind, deed.number, deed.started, now);
    pool_->push([ledger = ledger_, info] {
      ledger->call_hook(info);
      ledger->end();
    });
  }
  return c10::make_intrusive<FinishedWork>(std::move(deed));
}

GroupHandle TorchBackend::group() const {
  std::lock_guard lock(mutex_);
  if (group_.is_member() && !closing_) return group_;
  throw StateError(Status(ErrorCode::state, c10::str("process group \"", name_, "\" was destroyed; make another one")));
}

int TorchBackend::world_rank(int64_t group_rank, const char* name) const {
  if (group_rank >= 0 && group_rank < size_) return ranks_[static_cast<size_t>(group_rank)];
  throw ArgumentError(Status(ErrorCode::argument, c10::str(name, " is rank ", group_rank, " of process group \"", name_, "\", which has ", size_, " ranks")));
}

double TorchBackend::timeout_s(std::chrono::milliseconds of_call) const {
  const int64_t milliseconds = of_call == c10d::kUnsetTimeout ? timeout_ms_.load(std::memory_order_relaxed) : of_call.count();
  return static_cast<double>(milliseconds) * 1e-3;
}

distributed::Options TorchBackend::plain(std::chrono::milliseconds timeout, bool async_op) const {
  return {group(), async_op, timeout_s(timeout)};
}

}  // namespace unisono::torch_backend
