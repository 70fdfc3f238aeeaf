// UCX as a fabric: whom it reaches, what it has hold of, and the engine itself, which is ucx.cpp.
//
// Who writes: what is atomic is written under the mutex of the engine, by a stream that knows that its other end has gone, and by fork() in the child; streams read it without. Order: each stands for itself.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "transport/fabric_choice.hpp"
#include "transport/ucx_library.hpp"

namespace unisono {

class UcxPeer final : public Fabric::Peer, public std::enable_shared_from_this<UcxPeer> {
 public:
  explicit UcxPeer(const UcxLibrary& library) : library_(library) {}

  Status state() const override {
    const ucx_abi::Code code = failed;
    return code == ucx_abi::success ? Status::success() : Status(ErrorCode::peer_lost, fmt::format("UCX lost its way to it: {} (UNISONO_TRANSPORT=tcp goes without UCX)", library_.text_of_code(code)));
  }
  bool has_unsent() const override { return flying != 0; }
  void lost() override { is_gone = true; }

  ucx_abi::Endpoint* endpoint = nullptr;
  std::atomic<ucx_abi::Code> failed = ucx_abi::success;
  std::atomic<int64_t> flying = 0;
  std::atomic<bool> is_gone = false;  // its process has ended
  bool has_said_farewell = false;
  bool is_there() const { return !is_gone && failed == ucx_abi::success; }
  bool is_awaited() const { return is_there() && !has_said_farewell; }

 private:
  const UcxLibrary& library_;
};

class UcxEngine;

struct UcxMessage : FabricMessage {
  UcxEngine* owner = nullptr;
  std::shared_ptr<UcxMessage> itself;  // while UCX has hold of it
  std::shared_ptr<UcxPeer> to;         // of one that is sent
};

class UcxEngine final : public Fabric {
 public:
  UcxEngine(const UcxLibrary& library, ucx_abi::Context* context, FabricUse use, std::string version) : library_(library), context_(context), use_(std::move(use)), version_(std::move(version)) { pool_.reserve(most_pooled); }
  ~UcxEngine() override { finish(Deadline::in_seconds(longest_finish_s)); }

  Status start();
  std::string address() const override { return address_; }
  Result<std::shared_ptr<Peer>> reach(const std::string& address) override;
  Status send(Peer& peer, uint64_t tag, Channel::Sent first, Channel::Sent second) override;
  std::shared_ptr<FabricMessage> receive(uint64_t tag) override;
  void give_back(std::shared_ptr<FabricMessage> message) override;
  void arm() override;
  int descriptor() const override { return watch_.number(); }
  bool rang() override;
  void look_after() override;
  void finish(const Deadline& by) override;
  void close_in_child() override { is_in_child_ = true; }
  bool is_in_child() const override { return is_in_child_; }

 private:
  static constexpr double longest_finish_s = 2;
  static constexpr size_t most_pooled = 64;

  static void failed(void* argument, ucx_abi::Endpoint*, ucx_abi::Code code) { static_cast<UcxPeer*>(argument)->failed = code; }
  static void sent(void* request, ucx_abi::Code code, void* user_data);
  static void came(void* request, ucx_abi::Code code, const ucx_abi::TagInfo*, void* user_data);
  bool is_closed() const { return is_in_child_ || !worker_; }
  void turn();
  bool move();
  Status watch_worker();
  bool arm_worker();
  void wake_by(int64_t at_ns);
  Status told_why(const std::string& why);
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
  ucx_abi::Context* context_;
  ucx_abi::Worker* worker_ = nullptr;
  FabricUse use_;
  const std::string version_;  // 1.13: those of another do not understand each other
  std::string address_;
  int descriptor_ = -1;      // readable when something has happened, once the worker is armed
  Descriptor watch_, timer_;  // an epoll of both; a timerfd
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<UcxPeer>> peers_;
  std::vector<std::shared_ptr<UcxMessage>> pool_;
  int64_t turned_at_ns_ = 0, wakes_at_ns_ = never_ns;
  bool is_watched_ = false;  // armed: the control thread hears of what happens
  bool has_told_ = false;
  int64_t flying_ = 0;       // messages that UCX has hold of
  std::atomic<bool> is_in_child_ = false;
};

}  // namespace unisono
