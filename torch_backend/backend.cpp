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
#include "unisono/shared_tensor.hpp"

namespace unisono::torch_backend {
namespace {

// The backends of this process, for its exit.
struct Living {
  std::mutex mutex;
  std::set<TorchBackend*> all;
};

Living& living() {
  static auto* const the_living = new Living;
  return *the_living;
}

}  // namespace

TorchBackend::TorchBackend(const GroupRequest& request)
    : Backend(request.group_rank, request.group_size),
      name_(request.name),
      timeout_ms_(static_cast<int64_t>(request.timeout_s * 1000)) {
  CompletionPool::instance().start();
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
  shutdown();
}

void TorchBackend::end_all_for_exit() {
  std::lock_guard lock(living().mutex);
  for (TorchBackend* backend : living().all)
    if (backend->ledger_->has_pending()) backend->shutdown();
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

void TorchBackend::abort() {
  GroupHandle group;
  {
    std::lock_guard lock(mutex_);
    group = group_;
  }
  if (group.is_member()) in_torch_words([&] { distributed::abort(group, "the process group was aborted"); });
}

// Calls that are under way fail; nobody is waited for. The World is left with the last of its groups.
void TorchBackend::shutdown() {
  GroupHandle group = GroupHandle::outside();
  std::shared_ptr<Membership> membership;
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

void TorchBackend::startCoalescing() {
  std::lock_guard lock(mutex_);
  collected_.emplace();
}

TorchWork TorchBackend::endCoalescing() {
  std::vector<TorchWork> works;
  {
    std::lock_guard lock(mutex_);
    if (collected_) works.swap(*collected_);
    collected_.reset();
  }
  return c10::make_intrusive<BatchWork>(std::move(works));
}

bool TorchBackend::collects() const {
  std::lock_guard lock(mutex_);
  return collected_.has_value();
}

void TorchBackend::note_collected(const TorchWork& work) {
  std::lock_guard lock(mutex_);
  if (collected_) collected_->push_back(work);
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
    const c10d::WorkInfo info(deed.kind, deed.number, deed.started, now, now - deed.started);
    CompletionPool::instance().push([ledger = ledger_, info] {
      ledger->call_hook(info);
      ledger->end();
    });
  }
  return c10::make_intrusive<FinishedWork>(std::move(deed));
}

GroupHandle TorchBackend::group() const {
  std::lock_guard lock(mutex_);
  if (group_.is_member()) return group_;
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
