// The channels from one member of a group to the others, for one use, each made when it is first asked for. Which transport leads to
// which member is decided here and nowhere else.
#pragma once

#include <memory>
#include <vector>

#include "transport/channel.hpp"
#include "transport/lanes.hpp"

namespace unisono {

class Router {
 public:
  Router(Lanes& lanes, Arena& arena, LinkUse use)
      : lanes_(lanes), arena_(arena), use_(use), channels_(static_cast<size_t>(lanes.members())) {}
  Router(const Router&) = delete;

  Channel& to(int member) {
    std::unique_ptr<Channel>& channel = channels_[static_cast<size_t>(member)];
    if (!channel) [[unlikely]]
      channel = make(member);
    return *channel;
  }
  void drop_unfinished();  // whatever is in the middle of something: see Channel::drop
  void close();            // gives back what the channels have taken; nobody may use them any more

 private:
  std::unique_ptr<Channel> make(int member);

  Lanes& lanes_;
  Arena& arena_;
  LinkUse use_;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace unisono
