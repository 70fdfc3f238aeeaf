// Bytes to another rank and back by a fabric, and by another stream until both ends know how.
//
// Both say where they are on the fabric, on a connection that only members can open. Each direction begins on that connection and moves to the fabric as soon as its sender can reach
// the other there; where it cannot, it stays. So no rank waits for another to find out, and none has to know what others have. The connection stays open: its end says that the other
// is gone, and the reader tells on it how much was taken, so that no more than `window_bytes` wait at a rank that does not read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/fabric.hpp"
#include "transport/fabric_frames.hpp"
#include "transport/stream.hpp"

namespace unisono {

class FabricStream final : public Stream {
 public:
  static constexpr uint64_t window_bytes = 1 << 20;

  static constexpr double rest_comes_within_s = 2.5;  // once the way has ended: who leaves waits two seconds for the fabric

  FabricStream(Fabric& fabric, std::unique_ptr<Stream> way, double rest_within_s = rest_comes_within_s);
  ~FabricStream() override { close(); }

  Status open() override { return way_->open(); }
  void close() override;
  int64_t write(Channel::Sent first, Channel::Sent second) override;
  int64_t read(std::span<std::byte> target) override;
  void arm(bool to_write, bool to_read) override;
  void finish() override { close(); }
  bool holds_more() override { return state_.ok() && !closed_ && (heard_.moved || way_->holds_more()); }
  bool is_delivered() const override { return way_->is_delivered() && !(peer_ && peer_->has_unsent()); }
  Status state() const override { return state_; }
  bool sends_by_fabric() const { return peer_ && !moves_soon_; }
  bool hears_by_fabric() const { return heard_.moved; }

 private:
  void say(FabricFrame::Kind kind, uint64_t number, std::string_view rest = {});
  bool push_words();
  void say_hello();
  void hear();
  bool hear_head();
  void heard_all_of_hello();
  int64_t write_by_way(Channel::Sent first, Channel::Sent second);
  int64_t write_by_fabric(Channel::Sent first, Channel::Sent second);
  int64_t read_by_fabric(std::span<std::byte> target);
  void fetch();
  void look_around();
  void look_once_more();
  void judge_end(const Status& why);

  Fabric& fabric_;
  std::unique_ptr<Stream> way_;
  uint64_t tag_;  // of messages to this rank

  std::string words_;          // that wait to go by the way
  std::string head_;           // what has not gone of the head of a frame of data
  uint64_t way_left_ = 0;      // of what follows it
  bool said_hello_ = false, moves_soon_ = false;
  std::shared_ptr<Fabric::Peer> peer_;  // null: bytes go by the way
  uint64_t their_tag_ = 0;

  FabricFrame in_ = {};        // what comes by the way
  size_t in_moved_ = 0;        // of its head
  uint64_t in_left_ = 0;       // of what follows
  std::string their_address_;
  FabricHeard heard_;
  uint64_t ends_at_ = 0;       // where it has ended
  double rest_within_s_;
  Deadline rest_by_;           // once the way has ended

  std::vector<std::shared_ptr<FabricMessage>> messages_;  // that came, in order
  size_t read_of_first_ = 0;
  uint64_t came_ = 0, told_ = 0;  // bytes taken by this rank, and how many of those it has told
  unsigned looks_ = 0;            // that found nothing on the fabric
  bool looks_at_way_ = false;
  bool closed_ = false;
  Status state_;
};

}  // namespace unisono
