// An asynchronous call: what is to be done, what must stay alive for it, and how it ended.
//
// Who writes: the poster fills it before it is queued; then only the holder of the group's runner token, which ends
// `completion_` last. Order: that is a release after the status, and asking whether it is over an acquire before it.
#pragma once

#include <memory>

#include "engine/call.hpp"
#include "group/completion.hpp"
#include "group/standing_call.hpp"
#include "unisono/work.hpp"

namespace unisono {

class Group;

class CallWork final : public Work {
 public:
  CallWork(std::shared_ptr<Group> group, Call call, std::shared_ptr<void> keep_alive)
      : group_(std::move(group)), call_(std::move(call)), keep_alive_(std::move(keep_alive)) {}
  // One call of a standing one: that, or what comes before it.
  CallWork(std::shared_ptr<Group> group, std::shared_ptr<StandingCall> standing, const Call& which)
      : group_(std::move(group)), standing_(std::move(standing)), standing_call_(&which) {}

  bool wait(std::optional<double> timeout_s) override;
  bool is_completed() const override { return completion_.is_over(); }
  bool is_success() const override { return is_completed() && status_.ok(); }
  Status exception() const override { return is_completed() ? status_ : Status(); }
  void on_completion(std::function<void()> function) override { completion_.then(std::move(function)); }

  const Call& call() const { return standing_ ? *standing_call_ : call_; }
  Decision* standing_decision() const {  // null: none is kept
    return standing_ && !standing_->before ? &standing_->decision : nullptr;
  }
  bool is_refusal() const { return !refusal_.ok(); }
  const Status& refusal() const { return refusal_; }
  void refuse(const Status& why) { refusal_ = why; }
  void complete(const Status& status);

  // The call before it that belongs to the same function: where that failed, this one is not begun.
  void follow(std::shared_ptr<CallWork> first) { first_ = std::move(first); }
  Status prerequisite() const { return first_ ? first_->status_ : Status(); }

 private:
  std::shared_ptr<Group> group_;
  Call call_;
  std::shared_ptr<StandingCall> standing_;  // instead of call_
  const Call* standing_call_ = nullptr;
  std::shared_ptr<void> keep_alive_;
  std::shared_ptr<CallWork> first_;
  Status refusal_;  // set when the arguments were refused: the call only takes its number and says so
  Status status_;
  Completion completion_;
};

}  // namespace unisono
