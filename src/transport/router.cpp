// One line a transport. See router.hpp.
#include "transport/router.hpp"

#include "transport/ring_stream.hpp"

namespace unisono {

std::unique_ptr<Channel> Router::make(int member) {
  return std::make_unique<StreamChannel>(std::make_unique<RingStream>(lanes_, arena_, use_, member));
}

void Router::drop_unfinished() {
  for (auto& channel : channels_)
    if (channel && (channel->sending() || channel->receiving())) channel->drop();
}

void Router::close() {
  for (auto& channel : channels_)
    if (channel) channel->close();
}

}  // namespace unisono
