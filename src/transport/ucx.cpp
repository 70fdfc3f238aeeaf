// See ucx_engine.hpp. One worker serves the whole process, under one mutex; UCX calls back while it is turned, so under it as well.
#include "transport/ucx_engine.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/all_signals_blocked.hpp"
#include "base/standard_descriptors.hpp"

namespace unisono {
namespace {

constexpr int64_t left_alone_ns = 10'000'000;  // after so long without a turn of anybody's the control thread turns
constexpr int64_t refused_rest_ns = 2'000'000;  // between turns where UCX cannot say when something happens
constexpr int64_t ucx_idle_ns = 1'000'000'000;     // and after so long gives memory back
constexpr uint64_t farewell_tag = 0;          // of messages between the processes themselves; that of a stream is as good as never 0
constexpr int most_turns_at_once = 64;

bool is_ucx_error(const void* pointer) { return reinterpret_cast<intptr_t>(pointer) < 0 && reinterpret_cast<intptr_t>(pointer) >= ucx_abi::last_code; }
ucx_abi::Code ucx_code_of(const void* pointer) { return static_cast<ucx_abi::Code>(reinterpret_cast<intptr_t>(pointer)); }

}  // namespace

Status UcxEngine::start() {
  const ucx_abi::WorkerParameters parameters{.filled = ucx_abi::WorkerParameters::has_threads, .threads = ucx_abi::serialized, .cores = {}, .events = 0, .user_data = nullptr, .event_descriptor = -1, .flags = 0, .name = nullptr, .alignment = 0, .client = 0};
  ucx_abi::Code code = library_.create_worker(context_, &parameters, &worker_);
  if (code == ucx_abi::success) code = library_.get_descriptor(worker_, &descriptor_);
  ucx_abi::Address* address = nullptr;
  size_t bytes = 0;
  if (code == ucx_abi::success) code = library_.get_address(worker_, &address, &bytes);
  if (code != ucx_abi::success) return {ErrorCode::init, library_.text_of_code(code)};
  address_ = version_ + '\n' + std::string(reinterpret_cast<const char*>(address), bytes);
  library_.release_address(worker_, address);
  return watch_worker();
}

Status UcxEngine::watch_worker() {
  watch_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  timer_ = Descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  epoll_event clock{EPOLLIN, {.fd = timer_.number()}}, worker{EPOLLONESHOT, {.fd = descriptor_}};
  const bool all = watch_ && timer_ && epoll_ctl(watch_.number(), EPOLL_CTL_ADD, timer_.number(), &clock) == 0 && epoll_ctl(watch_.number(), EPOLL_CTL_ADD, descriptor_, &worker) == 0;
  return all ? Status::success() : Status(ErrorCode::resource, "no descriptor is left to watch it by");
}

// The descriptor tells of what comes from now on. False: something has come, or is still to be sent, for which it must be turned.
bool UcxEngine::arm_worker() {
  if (is_watched_) return true;
  if (library_.arm(worker_) != ucx_abi::success) return false;
  epoll_event worker{EPOLLIN | EPOLLONESHOT, {.fd = descriptor_}};
  is_watched_ = epoll_ctl(watch_.number(), EPOLL_CTL_MOD, descriptor_, &worker) == 0;
  return is_watched_;
}

void UcxEngine::wake_by(int64_t at_ns) {
  if (at_ns >= wakes_at_ns_) return;
  wakes_at_ns_ = at_ns;
  itimerspec at = {};
  at.it_value = {at_ns / 1'000'000'000, at_ns % 1'000'000'000};
  timerfd_settime(timer_.number(), TFD_TIMER_ABSTIME, &at, nullptr);
}

bool UcxEngine::move() {
  int turns = 0;
  while (turns < most_turns_at_once && library_.progress(worker_) > 0) ++turns;
  return turns > 0;
}

void UcxEngine::turn() {
  turned_at_ns_ = now_ns();
  if (!is_watched_) wake_by(turned_at_ns_ + left_alone_ns);
  move();
}

Result<std::shared_ptr<Fabric::Peer>> UcxEngine::reach(const std::string& address) {
  std::lock_guard lock(mutex_);
  if (is_closed()) return Status(ErrorCode::peer_lost, "UCX was closed");
  auto peer = reach_here(address);
  if (!peer.ok()) return peer.status();
  return std::shared_ptr<Peer>(*peer);
}

Result<std::shared_ptr<UcxPeer>> UcxEngine::reach_here(const std::string& address) {
  if (const auto known = peers_.find(address); known != peers_.end()) return known->second;
  if (!address.starts_with(version_ + '\n')) return told_why("the other has another version of UCX");
  const StandardDescriptorsTaken taken;
  const AllSignalsBlocked blocked;  // for the threads that UCX may start
  auto peer = std::make_shared<UcxPeer>(library_);
  ucx_abi::EndpointParameters parameters = {};
  parameters.filled = ucx_abi::EndpointParameters::has_address | ucx_abi::EndpointParameters::has_error_mode | ucx_abi::EndpointParameters::has_error_handler;
  parameters.address = reinterpret_cast<const ucx_abi::Address*>(address.data() + version_.size() + 1);
  parameters.error_mode = ucx_abi::EndpointParameters::tells_of_failures;
  parameters.failed = failed;
  parameters.argument = peer.get();
  ucx_abi::Code code = library_.create_endpoint(worker_, &parameters, &peer->endpoint);
  if (code == ucx_abi::unreachable) {  // its shared memory cannot tell of failures; the way beside the fabric does
    parameters.error_mode = 0;
    code = library_.create_endpoint(worker_, &parameters, &peer->endpoint);
  }
  if (code == ucx_abi::success) {
    peers_.emplace(address, peer);
    return peer;
  }
  return told_why(code == ucx_abi::unreachable ? "this machine and another have no device in common" : library_.text_of_code(code));
}

Status UcxEngine::told_why(const std::string& why) {
  if (!std::exchange(has_told_, true)) use_.log.warning(fmt::format("UCX has no way to another host ({}): TCP carries what goes there; `unisono doctor --fabric` shows what UCX finds", why));
  return {ErrorCode::init, why};
}

std::shared_ptr<UcxMessage> UcxEngine::take() {
  std::shared_ptr<UcxMessage> message;
  if (pool_.empty()) {
    message = std::make_shared<UcxMessage>();
    message->owner = this;
    return message;
  }
  message = std::move(pool_.back());
  pool_.pop_back();
  message->state = FabricMessage::State::flying;
  return message;
}

// Takes no memory: UCX may be on the way here, and nothing may be thrown through it.
void UcxEngine::pool(std::shared_ptr<UcxMessage> message) {
  message->to.reset();
  if (pool_.size() < pool_.capacity()) pool_.push_back(std::move(message));
}

void UcxEngine::hold(const std::shared_ptr<UcxMessage>& message) {
  message->itself = message;
  ++flying_;
}

void UcxEngine::let_go(UcxMessage& message, FabricMessage::State state) {
  message.state = state;
  --flying_;
  auto itself = std::move(message.itself);
  if (!message.to) return;
  message.to->flying -= 1;
  pool(std::move(itself));
}

void UcxEngine::sent(void* request, ucx_abi::Code code, void* user_data) {
  auto& message = *static_cast<UcxMessage*>(user_data);
  UcxEngine& owner = *message.owner;
  if (code != ucx_abi::success && message.to->failed == ucx_abi::success) message.to->failed = code;
  owner.let_go(message, FabricMessage::State::whole);
  owner.library_.free_request(request);
}

void UcxEngine::came(void* request, ucx_abi::Code code, const ucx_abi::TagInfo*, void* user_data) {
  auto& message = *static_cast<UcxMessage*>(user_data);
  UcxEngine& owner = *message.owner;
  owner.let_go(message, code == ucx_abi::success ? FabricMessage::State::whole : FabricMessage::State::failed);
  owner.library_.free_request(request);
}

Status UcxEngine::send(Peer& peer, uint64_t tag, Channel::Sent first, Channel::Sent second) {
  std::lock_guard lock(mutex_);
  if (is_closed()) return {ErrorCode::peer_lost, "UCX was closed"};
  return send_here(dynamic_cast<UcxPeer&>(peer), tag, first, second);
}

Status UcxEngine::send_here(UcxPeer& to, uint64_t tag, Channel::Sent first, Channel::Sent second) {
  if (to.failed != ucx_abi::success) return to.state();
  auto message = take();
  std::ranges::copy(first, message->data.begin());
  std::ranges::copy(second, message->data.begin() + static_cast<ptrdiff_t>(first.size()));
  message->bytes = first.size() + second.size();
  message->to = to.shared_from_this();
  hold(message);
  to.flying += 1;
  ucx_abi::RequestParameters parameters = {};
  parameters.filled = ucx_abi::RequestParameters::has_callback | ucx_abi::RequestParameters::has_user_data;
  parameters.sent = sent;
  parameters.user_data = message.get();
  void* const request = library_.send(to.endpoint, message->data.data(), message->bytes, tag, &parameters);
  if (is_ucx_error(request)) to.failed = ucx_code_of(request);
  if (!request || is_ucx_error(request)) let_go(*message, FabricMessage::State::whole);
  turn();
  return is_ucx_error(request) ? to.state() : Status::success();
}

std::shared_ptr<FabricMessage> UcxEngine::receive(uint64_t tag) {
  std::lock_guard lock(mutex_);
  if (is_closed()) return nullptr;
  turn();
  return receive_here(tag);
}

std::shared_ptr<UcxMessage> UcxEngine::receive_here(uint64_t tag) {
  ucx_abi::TagInfo info = {};
  if (!library_.probe(worker_, tag, ~uint64_t{0}, 0, &info)) return nullptr;
  auto message = take();  // before UCX gives away what there may be no memory for
  ucx_abi::Received* const received = library_.probe(worker_, tag, ~uint64_t{0}, 1, &info);
  message->bytes = info.bytes;
  if (info.bytes > FabricMessage::most_bytes) {  // no rank of ours sends that
    message->state = FabricMessage::State::failed;
    return message;
  }
  hold(message);
  ucx_abi::RequestParameters parameters = {};
  parameters.filled = ucx_abi::RequestParameters::has_callback | ucx_abi::RequestParameters::has_user_data;
  parameters.came = came;
  parameters.user_data = message.get();
  void* const request = library_.receive(worker_, message->data.data(), message->bytes, received, &parameters);
  if (!request || is_ucx_error(request)) let_go(*message, request ? FabricMessage::State::failed : FabricMessage::State::whole);
  return message;
}

void UcxEngine::give_back(std::shared_ptr<FabricMessage> message) {
  std::lock_guard lock(mutex_);
  if (message->state != FabricMessage::State::flying) pool(std::static_pointer_cast<UcxMessage>(std::move(message)));
}

void UcxEngine::arm() {
  std::lock_guard lock(mutex_);
  if (is_closed() || arm_worker()) return;
  if (move()) return use_.ring();
  if (!arm_worker()) wake_by(now_ns() + refused_rest_ns);
}

bool UcxEngine::rang() {
  std::lock_guard lock(mutex_);
  epoll_event events[2] = {};
  uint64_t times = 0;
  const int count = epoll_wait(watch_.number(), events, 2, 0);
  if (read(timer_.number(), &times, sizeof(times)) > 0) wakes_at_ns_ = never_ns;
  const bool happened = std::any_of(events, events + std::max(count, 0), [this](const epoll_event& one) { return one.data.fd == descriptor_; });
  if (happened) is_watched_ = false;
  return happened;
}

// What a rank's own turns do while it is in a call: others may wait for it while it computes, and one that sleeps for what only turns bring.
void UcxEngine::look_after() {
  std::lock_guard lock(mutex_);
  if (is_closed()) return;
  const int64_t alone_ns = now_ns() - turned_at_ns_;
  if (alone_ns > ucx_idle_ns) pool_.clear();
  const bool moved = (is_watched_ || alone_ns >= left_alone_ns) && move();
  answer_farewells();
  if (moved) use_.ring();
  if (!is_watched_ && alone_ns < left_alone_ns) return wake_by(turned_at_ns_ + left_alone_ns);
  if (!arm_worker()) wake_by(now_ns() + refused_rest_ns);
}

// Who leaves asks whether all that it has sent is in this process. It is: messages from one process come in order. A farewell holds the tag of the answer, and where that goes.
void UcxEngine::answer_farewells() {
  while (const auto farewell = receive_here(farewell_tag)) {
    uint64_t tag = 0;
    if (farewell->state != FabricMessage::State::whole || farewell->bytes <= sizeof(tag)) continue;
    std::memcpy(&tag, farewell->data.data(), sizeof(tag));
    const std::string address(reinterpret_cast<const char*>(farewell->data.data()) + sizeof(tag), farewell->bytes - sizeof(tag));
    pool(farewell);
    auto peer = reach_here(address);
    if (!peer.ok()) continue;
    (*peer)->has_said_farewell = true;
    static_cast<void>(send_here(**peer, tag, {}, {}).ok());  // else it waits for as long as it does
  }
}

void UcxEngine::say_farewell(const Deadline& by) {
  std::vector<std::pair<UcxPeer*, uint64_t>> awaited;
  for (const auto& [address, peer] : peers_) {
    const uint64_t tag = awaited.size() + 1;
    if (!peer->is_awaited()) continue;
    if (send_here(*peer, farewell_tag, std::as_bytes(std::span(&tag, 1)), std::as_bytes(std::span(address_))).ok()) awaited.emplace_back(peer.get(), tag);
  }
  turn_until([&] {
    answer_farewells();
    std::erase_if(awaited, [this](const auto& one) { return !one.first->is_awaited() || receive_here(one.second); });
    return awaited.empty();
  }, by);
}

// Nothing announces that the last of it has gone.
bool UcxEngine::turn_until(const std::function<bool()>& is_done, const Deadline& by) {
  constexpr int look_again_ms = 1;
  while (!is_done()) {
    if (by.passed()) return false;
    if (library_.progress(worker_) == 0) poll(nullptr, 0, look_again_ms);
  }
  return true;
}

// What is on its way goes first, but to those whose way is lost.
bool UcxEngine::close_endpoints(const Deadline& by) {
  std::vector<void*> closing;
  for (auto& [address, peer] : peers_) {
    ucx_abi::RequestParameters parameters = {};
    parameters.filled = ucx_abi::RequestParameters::has_flags;
    parameters.flags = !peer->is_there() ? ucx_abi::RequestParameters::at_once : 0;
    void* const request = library_.close_endpoint(peer->endpoint, &parameters);
    if (request && !is_ucx_error(request)) closing.push_back(request);
  }
  const bool are_closed = turn_until([&] { return std::ranges::all_of(closing, [&](void* one) { return library_.check_request(one) != ucx_abi::in_progress; }); }, by);
  if (are_closed)
    for (void* one : closing) library_.free_request(one);
  return are_closed;
}

// Where UCX will not let go in time it is left as it is, and so is what it has hold of.
void UcxEngine::finish(const Deadline& by) {
  if (is_in_child_) return;
  std::lock_guard lock(mutex_);
  if (is_closed()) return;
  const Deadline end = earlier(by, Deadline::in_seconds(longest_finish_s));
  say_farewell(end);
  turn_until([this] { return std::ranges::all_of(peers_, [](const auto& one) { return !one.second->has_unsent() || !one.second->is_there(); }); }, end);
  watch_.reset();
  if (close_endpoints(end) && flying_ == 0) {
    library_.destroy_worker(worker_);
    library_.cleanup(context_);
  }
  worker_ = nullptr;
}

}  // namespace unisono
