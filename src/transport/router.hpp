// The channels from one member of a group to the others, for one use, each made when it is first asked for. Which transport leads to
// which member is decided here and nowhere else.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "transport/channel.hpp"
#include "transport/fabric.hpp"
#include "transport/lanes.hpp"
#include "transport/rough_stream.hpp"
#include "transport/sockets.hpp"
#include "transport/stream.hpp"
#include "transport/waiting.hpp"

namespace unisono {

// What channels within a host move their bytes with; all but rings is for tests. Between hosts it is sockets, and rough ones where
// this says so. A value.
struct StreamChoice {
  enum class Kind { rings, sockets, rough };

  Kind kind = Kind::rings;
  int64_t send_buffer_bytes = 0;  // of sockets; 0: as the kernel has it
  Roughness roughness = {};

  static Result<StreamChoice> parse(const std::string& text);  // "rings", "sockets", "sockets:4K", "rough:7", "rough:7,silent=100,broken=100"
};

struct Ways {
  StreamChoice choice;
  Sockets* sockets = nullptr;  // where the choice, or a member on another host, needs them
  Fabric* fabric = nullptr;    // where this rank has one
};

// The stream to another rank through a socket.
struct SocketUse {
  uint64_t group = 0;  // 0: the two processes'
  int32_t use = 0;
  int32_t sealed = 0;  // 1: stays in TLS, where there is trust; 2: and leads to a fabric
  int32_t number = 0, of = 1;  // of several for the same
};
std::unique_ptr<Stream> socket_between(Sockets& sockets, const Neighbour& me, const Neighbour& other, const SocketUse& use);
// Of two ranks that both come to use a connection the lower opens it, unless only the other can: where each opened one there would be two, and the
// kernels would acknowledge by packets of their own what data of the other direction acknowledges for nothing.
Whereabouts with_one_connector(Whereabouts there, bool is_lower);

class Router final : public Alarm {
 public:
  Router(Lanes& lanes, Arena& arena, LinkUse use, const Ways& ways = {})
      : lanes_(lanes), arena_(arena), use_(use), ways_(ways), channels_(static_cast<size_t>(lanes.members())) {}
  Router(const Router&) = delete;
  void met(uint64_t group) { group_ = group; }  // a number that its members alone have

  Channel& to(int member) {
    std::unique_ptr<Channel>& channel = channels_[static_cast<size_t>(member)];
    if (!channel) [[unlikely]]
      channel = make(member);
    return *channel;
  }
  void set() override;     // Alarm: of all channels in which something is posted
  Alarm* alarm() { return ways_.choice.kind == StreamChoice::Kind::rings && !lanes_.spans_hosts() ? nullptr : this; }
  void drop_unfinished();  // whatever is in the middle of something: see Channel::drop
  void finish();           // all of them: see Channel::finish
  void close();            // gives back what the channels have taken; nobody may use them any more

  // A member to whom there is no way any more, though something is posted and it `is_needed`. Whoever is gone is told of from elsewhere,
  // and better: it is asked for a while first.
  struct Loss {
    int member;
    Status why;
  };
  bool awaits(int member) const;   // a receive is posted
  bool is_lost(int member) const;  // nothing more will come from there, or go, though something is posted
  bool has_no_more(int member);    // of one that is gone: nor will anything that it sent before
  std::optional<Loss> unexplained_loss(const std::function<bool(int)>& is_needed);

 private:
  bool leads_through_sockets(int member) const;
  std::unique_ptr<Channel> make(int member);
  std::unique_ptr<Stream> make_stream(int member, int number, int of);

  Lanes& lanes_;
  Arena& arena_;
  LinkUse use_;
  Ways ways_;
  uint64_t group_ = 0;
  int64_t lost_since_ns_ = 0;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace unisono
