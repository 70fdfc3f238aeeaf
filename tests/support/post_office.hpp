// A fabric within one process: messages lie in boxes until who has their tag fetches them. A test may hold them back, and break ways.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "transport/fabric.hpp"

namespace unisono::testing {

class PostOffice {
 public:
  bool holds_back = false;  // what is fetched is flying until released
  bool delivers = true;     // what is sent can be fetched

  void put(uint64_t tag, Channel::Sent first, Channel::Sent second) {
    auto message = std::make_shared<FabricMessage>();
    message->bytes = first.size() + second.size();
    std::ranges::copy(first, message->data.begin());
    std::ranges::copy(second, message->data.begin() + static_cast<ptrdiff_t>(first.size()));
    boxes_[tag].push_back(std::move(message));
  }
  std::shared_ptr<FabricMessage> take(uint64_t tag) {
    auto& box = boxes_[tag];
    if (box.empty() || !delivers) return nullptr;
    auto message = std::move(box.front());
    box.pop_front();
    message->state = holds_back ? FabricMessage::State::flying : FabricMessage::State::whole;
    if (holds_back) flying_.push_back(message);
    return message;
  }
  void release(FabricMessage::State as) {
    for (; !flying_.empty(); flying_.pop_front()) flying_.front()->state = as;
  }
  size_t bytes_waiting() const {
    size_t bytes = 0;
    for (const auto& [tag, box] : boxes_)
      for (const auto& message : box) bytes += message->bytes;
    return bytes;
  }

 private:
  std::map<uint64_t, std::deque<std::shared_ptr<FabricMessage>>> boxes_;
  std::deque<std::shared_ptr<FabricMessage>> flying_;
};

// What one process sees of it.
class PostCounter final : public Fabric {
 public:
  PostCounter(PostOffice& office, std::string address) : office_(office), address_(std::move(address)) {}

  Status broken;           // why nothing can be sent any more
  std::string unreachable; // an address
  int armed = 0;

  std::string address() const override { return address_; }
  Result<std::shared_ptr<Peer>> reach(const std::string& address) override {
    if (address == unreachable) return Status(ErrorCode::init, "no way leads there");
    return std::shared_ptr<Peer>(std::make_shared<Other>(*this));
  }
  Status send(Peer&, uint64_t tag, Channel::Sent first, Channel::Sent second) override {
    if (broken.ok()) office_.put(tag, first, second);
    return broken;
  }
  std::shared_ptr<FabricMessage> receive(uint64_t tag) override { return office_.take(tag); }
  void give_back(std::shared_ptr<FabricMessage>) override {}
  void arm() override { ++armed; }
  int descriptor() const override { return -1; }
  bool rang() override { return false; }
  void look_after() override {}
  void finish(const Deadline&) override {}
  void close_in_child() override {}
  bool is_in_child() const override { return false; }

 private:
  struct Other final : Peer {
    explicit Other(const PostCounter& here) : here_(here) {}
    Status state() const override { return here_.broken; }
    bool has_unsent() const override { return false; }
    void lost() override {}
    const PostCounter& here_;
  };

  PostOffice& office_;
  std::string address_;
};

}  // namespace unisono::testing
