// See ucx.hpp. One worker serves the whole process, under one mutex; UCX calls back while it is turned, so under it as well.
//
// Who writes: what is atomic is written under the mutex, and by a stream that knows that its other end has gone; streams read it without. Order: each stands for itself.
#include "transport/ucx.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "base/standard_descriptors.hpp"
#include "transport/ucx_library.hpp"

namespace unisono {
namespace {

namespace abi = ucx_abi;

constexpr const char* where_to_get_it = "install libucx0 (Debian) or `pip install libucx-cu12`, and where it lies elsewhere name it by UNISONO_UCX_LIBRARY";
constexpr int64_t left_alone_ns = 10'000'000;  // after so long without a turn of anybody's the control thread turns
constexpr int64_t idle_ns = 1'000'000'000;     // and after so long gives memory back
constexpr size_t most_pooled = 64;
constexpr uint64_t farewell_tag = 0;          // of messages between the processes themselves; that of a stream is as good as never 0
constexpr int most_turns = 64;

class UcxPeer final : public Fabric::Peer, public std::enable_shared_from_this<UcxPeer> {
 public:
  explicit UcxPeer(const UcxLibrary& library) : library_(library) {}

  Status state() const override {
    const abi::Code code = failed;
    return code == abi::success ? Status::success() : Status(ErrorCode::peer_lost, fmt::format("UCX lost its way to it: {} (UNISONO_TRANSPORT=tcp goes without UCX)", library_.text_of_code(code)));
  }
  bool has_unsent() const override { return flying != 0; }
  void lost() override { is_gone = true; }

  abi::Endpoint* endpoint = nullptr;
  std::atomic<abi::Code> failed = abi::success;
  std::atomic<int64_t> flying = 0;
  std::atomic<bool> is_gone = false;  // its process has ended
  bool has_said_farewell = false;
  bool is_there() const { return !is_gone && failed == abi::success; }
  bool is_awaited() const { return is_there() && !has_said_farewell; }

 private:
  const UcxLibrary& library_;
};

class Ucx;

struct UcxMessage : FabricMessage {
  Ucx* owner = nullptr;
  std::shared_ptr<UcxMessage> itself;  // while UCX has hold of it
  std::shared_ptr<UcxPeer> to;         // of one that is sent
};

class Ucx final : public Fabric {
 public:
  Ucx(const UcxLibrary& library, abi::Context* context, Sockets& sockets, FabricUse use) : library_(library), context_(context), sockets_(sockets), use_(std::move(use)) { pool_.reserve(most_pooled); }
  ~Ucx() override { finish(Deadline::in_seconds(longest_finish_s)); }

  Status start();
  std::string address() const override { return address_; }
  Result<std::shared_ptr<Peer>> reach(const std::string& address) override;
  Status send(Peer& peer, uint64_t tag, Channel::Sent first, Channel::Sent second) override;
  std::shared_ptr<FabricMessage> receive(uint64_t tag) override;
  void give_back(std::shared_ptr<FabricMessage> message) override;
  void arm() override;
  void look_after() override;
  void finish(const Deadline& by) override;
  void close_in_child() override { is_in_child_ = true; }
  bool is_in_child() const override { return is_in_child_; }

 private:
  static constexpr double longest_finish_s = 2;

  static void failed(void* argument, abi::Endpoint*, abi::Code code) { static_cast<UcxPeer*>(argument)->failed = code; }
  static void sent(void* request, abi::Code code, void* user_data);
  static void came(void* request, abi::Code code, const abi::TagInfo*, void* user_data);
  bool is_closed() const { return is_in_child_ || !worker_; }
  void turn();
  Result<std::shared_ptr<UcxPeer>> reach_here(const std::string& address);
  Status send_here(UcxPeer& to, uint64_t tag, Channel::Sent first, Channel::Sent second);
  std::shared_ptr<UcxMessage> receive_here(uint64_t tag);
  void answer_farewells();
  void say_farewell(const Deadline& by);
  std::shared_ptr<UcxMessage> take();
  void pool(std::shared_ptr<UcxMessage> message);
  void hold(const std::shared_ptr<UcxMessage>& message);
  void let_go(UcxMessage& message, FabricMessage::State state);
  bool turn_until(const std::function<bool()>& is_done, const Deadline& by);
  bool close_endpoints(const Deadline& by);

  const UcxLibrary library_;
  abi::Context* context_;
  abi::Worker* worker_ = nullptr;
  Sockets& sockets_;
  FabricUse use_;
  std::string address_;
  int descriptor_ = -1;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<UcxPeer>> peers_;
  std::vector<std::shared_ptr<UcxMessage>> pool_;
  int64_t turned_at_ns_ = 0;
  bool is_watched_ = false;  // by the control thread
  bool has_told_ = false;
  int64_t flying_ = 0;       // messages that UCX has hold of
  std::atomic<bool> is_in_child_ = false;
};

bool is_error(const void* pointer) { return reinterpret_cast<intptr_t>(pointer) < 0 && reinterpret_cast<intptr_t>(pointer) >= abi::last_code; }
abi::Code code_of(const void* pointer) { return static_cast<abi::Code>(reinterpret_cast<intptr_t>(pointer)); }

Status Ucx::start() {
  const abi::WorkerParameters parameters{.filled = abi::WorkerParameters::has_threads, .threads = abi::serialized, .cores = {}, .events = 0, .user_data = nullptr, .event_descriptor = -1, .flags = 0, .name = nullptr, .alignment = 0, .client = 0};
  abi::Code code = library_.create_worker(context_, &parameters, &worker_);
  if (code == abi::success) code = library_.get_descriptor(worker_, &descriptor_);
  abi::Address* address = nullptr;
  size_t bytes = 0;
  if (code == abi::success) code = library_.get_address(worker_, &address, &bytes);
  if (code != abi::success) return {ErrorCode::init, library_.text_of_code(code)};
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  library_.release_address(worker_, address);
  return Status::success();
}

void Ucx::turn() {
  turned_at_ns_ = now_ns();
  if (std::exchange(is_watched_, false)) sockets_.wake_by(turned_at_ns_ + left_alone_ns);
  for (int turns = 0; turns < most_turns && library_.progress(worker_) > 0; ++turns) continue;
}

Result<std::shared_ptr<Fabric::Peer>> Ucx::reach(const std::string& address) {
  std::lock_guard lock(mutex_);
  if (is_closed()) return Status(ErrorCode::peer_lost, "UCX was closed");
  auto peer = reach_here(address);
  if (!peer.ok()) return peer.status();
  return std::shared_ptr<Peer>(*peer);
}

Result<std::shared_ptr<UcxPeer>> Ucx::reach_here(const std::string& address) {
  if (const auto known = peers_.find(address); known != peers_.end()) return known->second;
  const StandardDescriptorsTaken taken;
  auto peer = std::make_shared<UcxPeer>(library_);
  abi::EndpointParameters parameters = {};
  parameters.filled = abi::EndpointParameters::has_address | abi::EndpointParameters::has_error_mode | abi::EndpointParameters::has_error_handler;
  parameters.address = reinterpret_cast<const abi::Address*>(address.data());
  parameters.error_mode = abi::EndpointParameters::tells_of_failures;
  parameters.failed = failed;
  parameters.argument = peer.get();
  abi::Code code = library_.create_endpoint(worker_, &parameters, &peer->endpoint);
  if (code == abi::unreachable) {  // its shared memory cannot tell of failures; the way beside the fabric does
    parameters.error_mode = 0;
    code = library_.create_endpoint(worker_, &parameters, &peer->endpoint);
  }
  if (code == abi::success) {
    peers_.emplace(address, peer);
    return peer;
  }
  const std::string why = code == abi::unreachable ? "this machine and another have no device in common" : library_.text_of_code(code);
  if (!std::exchange(has_told_, true)) use_.log.warning(fmt::format("UCX has no way to another host ({}): TCP carries what goes there; `unisono doctor --fabric` shows what UCX finds", why));
  return Status(ErrorCode::init, why);
}

std::shared_ptr<UcxMessage> Ucx::take() {
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
void Ucx::pool(std::shared_ptr<UcxMessage> message) {
  message->to.reset();
  if (pool_.size() < pool_.capacity()) pool_.push_back(std::move(message));
}

void Ucx::hold(const std::shared_ptr<UcxMessage>& message) {
  message->itself = message;
  ++flying_;
}

void Ucx::let_go(UcxMessage& message, FabricMessage::State state) {
  message.state = state;
  --flying_;
  auto itself = std::move(message.itself);
  if (!message.to) return;
  message.to->flying -= 1;
  pool(std::move(itself));
}

void Ucx::sent(void* request, abi::Code code, void* user_data) {
  auto& message = *static_cast<UcxMessage*>(user_data);
  Ucx& owner = *message.owner;
  if (code != abi::success && message.to->failed == abi::success) message.to->failed = code;
  owner.let_go(message, FabricMessage::State::whole);
  owner.library_.free_request(request);
}

void Ucx::came(void* request, abi::Code code, const abi::TagInfo*, void* user_data) {
  auto& message = *static_cast<UcxMessage*>(user_data);
  Ucx& owner = *message.owner;
  owner.let_go(message, code == abi::success ? FabricMessage::State::whole : FabricMessage::State::failed);
  owner.library_.free_request(request);
}

Status Ucx::send(Peer& peer, uint64_t tag, Channel::Sent first, Channel::Sent second) {
  std::lock_guard lock(mutex_);
  if (is_closed()) return {ErrorCode::peer_lost, "UCX was closed"};
  return send_here(dynamic_cast<UcxPeer&>(peer), tag, first, second);
}

Status Ucx::send_here(UcxPeer& to, uint64_t tag, Channel::Sent first, Channel::Sent second) {
  if (to.failed != abi::success) return to.state();
  auto message = take();
  std::ranges::copy(first, message->data.begin());
  std::ranges::copy(second, message->data.begin() + static_cast<ptrdiff_t>(first.size()));
  message->bytes = first.size() + second.size();
  message->to = to.shared_from_this();
  hold(message);
  to.flying += 1;
  abi::RequestParameters parameters = {};
  parameters.filled = abi::RequestParameters::has_callback | abi::RequestParameters::has_user_data;
  parameters.sent = sent;
  parameters.user_data = message.get();
  void* const request = library_.send(to.endpoint, message->data.data(), message->bytes, tag, &parameters);
  if (is_error(request)) to.failed = code_of(request);
  if (!request || is_error(request)) let_go(*message, FabricMessage::State::whole);
  turn();
  return is_error(request) ? to.state() : Status::success();
}

std::shared_ptr<FabricMessage> Ucx::receive(uint64_t tag) {
  std::lock_guard lock(mutex_);
  if (is_closed()) return nullptr;
  turn();
  return receive_here(tag);
}

std::shared_ptr<UcxMessage> Ucx::receive_here(uint64_t tag) {
  abi::TagInfo info = {};
  if (!library_.probe(worker_, tag, ~uint64_t{0}, 0, &info)) return nullptr;
  auto message = take();  // before UCX gives away what there may be no memory for
  abi::Received* const received = library_.probe(worker_, tag, ~uint64_t{0}, 1, &info);
  message->bytes = info.bytes;
  if (info.bytes > FabricMessage::most_bytes) {  // no rank of ours sends that
    message->state = FabricMessage::State::failed;
    return message;
  }
  hold(message);
  abi::RequestParameters parameters = {};
  parameters.filled = abi::RequestParameters::has_callback | abi::RequestParameters::has_user_data;
  parameters.came = came;
  parameters.user_data = message.get();
  void* const request = library_.receive(worker_, message->data.data(), message->bytes, received, &parameters);
  if (!request || is_error(request)) let_go(*message, request ? FabricMessage::State::failed : FabricMessage::State::whole);
  return message;
}

void Ucx::give_back(std::shared_ptr<FabricMessage> message) {
  std::lock_guard lock(mutex_);
  if (message->state != FabricMessage::State::flying) pool(std::static_pointer_cast<UcxMessage>(std::move(message)));
}

void Ucx::arm() {
  std::lock_guard lock(mutex_);
  if (is_closed()) return;
  if (library_.arm(worker_) == abi::success) return sockets_.arm(descriptor_, Sockets::readable);
  use_.ring();  // something has happened already
}

// What a rank's own turns do while it is in a call: others may wait for it while it computes.
void Ucx::look_after() {
  std::lock_guard lock(mutex_);
  if (is_closed()) return;
  answer_farewells();
  if (now_ns() - turned_at_ns_ > idle_ns) pool_.clear();
  if (!is_watched_ && now_ns() - turned_at_ns_ < left_alone_ns) return sockets_.wake_by(turned_at_ns_ + left_alone_ns);
  for (int turns = 0; turns < most_turns; ++turns) {
    if (library_.progress(worker_) > 0 || library_.arm(worker_) != abi::success) continue;
    is_watched_ = true;
    return sockets_.arm(descriptor_, Sockets::readable);
  }
  sockets_.wake_by(now_ns());
}

// Who leaves asks whether all that it has sent is in this process. It is: messages from one process come in order. A farewell holds the tag of the answer, and where that goes.
void Ucx::answer_farewells() {
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

void Ucx::say_farewell(const Deadline& by) {
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
bool Ucx::turn_until(const std::function<bool()>& is_done, const Deadline& by) {
  constexpr int look_again_ms = 1;
  while (!is_done()) {
    if (by.passed()) return false;
    if (library_.progress(worker_) == 0) poll(nullptr, 0, look_again_ms);
  }
  return true;
}

// What is on its way goes first, but to those whose way is lost.
bool Ucx::close_endpoints(const Deadline& by) {
  std::vector<void*> closing;
  for (auto& [address, peer] : peers_) {
    abi::RequestParameters parameters = {};
    parameters.filled = abi::RequestParameters::has_flags;
    parameters.flags = !peer->is_there() ? abi::RequestParameters::at_once : 0;
    void* const request = library_.close_endpoint(peer->endpoint, &parameters);
    if (request && !is_error(request)) closing.push_back(request);
  }
  const bool are_closed = turn_until([&] { return std::ranges::all_of(closing, [&](void* one) { return library_.check_request(one) != abi::in_progress; }); }, by);
  if (are_closed)
    for (void* one : closing) library_.free_request(one);
  return are_closed;
}

// Where UCX will not let go in time it is left as it is, and so is what it has hold of.
void Ucx::finish(const Deadline& by) {
  if (is_in_child_) return;
  std::lock_guard lock(mutex_);
  if (is_closed()) return;
  const Deadline end = earlier(by, Deadline::in_seconds(longest_finish_s));
  say_farewell(end);
  turn_until([this] { return std::ranges::all_of(peers_, [](const auto& one) { return !one.second->has_unsent() || !one.second->is_there(); }); }, end);
  sockets_.disarm(descriptor_);
  if (close_endpoints(end) && flying_ == 0) {
    library_.destroy_worker(worker_);
    library_.cleanup(context_);
  }
  worker_ = nullptr;
}

}  // namespace

Result<std::unique_ptr<Fabric>> open_ucx(Sockets& sockets, const FabricUse& use) {
  const StandardDescriptorsTaken taken;
  auto library = load_ucx(use.settings);
  if (!library.ok()) return Status(ErrorCode::init, fmt::format("UCX cannot be loaded ({}); {}", library.status().message(), where_to_get_it));
  auto context = make_ucx_context(*library, use.settings, use.ranks);
  if (!context.ok()) return context.status();
  auto ucx = std::make_unique<Ucx>(*library, *context, sockets, use);
  if (Status status = ucx->start(); !status.ok()) return Status(ErrorCode::init, fmt::format("UCX cannot begin: {}", status.message()));
  return std::unique_ptr<Fabric>(std::move(ucx));
}

}  // namespace unisono
