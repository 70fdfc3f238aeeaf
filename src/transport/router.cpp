// One line a transport. See router.hpp.
#include "transport/router.hpp"

#include <fmt/core.h>

#include <charconv>

#include "base/clock.hpp"
#include "transport/fabric_stream.hpp"
#include "transport/ring_stream.hpp"
#include "transport/socket_stream.hpp"
#include "transport/striped_channel.hpp"

namespace unisono {
namespace {

bool read_number(std::string_view text, uint64_t& number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// "7", "silent=100", "broken=100"
bool read_roughness(std::string_view word, Roughness& roughness) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) return read_number(word, roughness.seed);
  uint64_t bytes = 0;
  if (!read_number(word.substr(equals + 1), bytes)) return false;
  const std::string_view name = word.substr(0, equals);
  if (name == "silent") roughness.silent_after = static_cast<int64_t>(bytes);
  if (name == "broken") roughness.broken_after = static_cast<int64_t>(bytes);
  return name == "silent" || name == "broken";
}

}  // namespace

Result<StreamChoice> StreamChoice::parse(const std::string& text) {
  StreamChoice choice;
  const std::string_view all(text), name = all.substr(0, all.find(':'));
  std::string_view rest = name.size() == all.size() ? "" : all.substr(name.size() + 1);
  bool good = name == "rings" ? rest.empty() : name == "sockets" || name == "rough";
  if (name == "sockets") choice.kind = Kind::sockets;
  if (name == "rough") choice.kind = Kind::rough;
  if (name == "sockets" && !rest.empty()) {
    const auto bytes = parse_size(rest);
    good = bytes && *bytes > 0 && *bytes <= INT32_MAX;
    choice.send_buffer_bytes = bytes.value_or(0);
  }
  while (name == "rough" && good && !rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    good = read_roughness(word, choice.roughness);
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  if (good) return choice;
  return Status(ErrorCode::init, fmt::format("UNISONO_TEST_STREAMS=\"{}\" is not rings, sockets, sockets:4K, rough:7 or "
                                             "rough:7,silent=100,broken=100; correct or unset it", text));
}

bool Router::leads_through_sockets(int member) const { return !lanes_.is_here(member) || ways_.choice.kind == StreamChoice::Kind::sockets; }

std::unique_ptr<Stream> Router::make_stream(int member, int number, int of) {
  const StreamChoice::Kind kind = ways_.choice.kind;
  std::unique_ptr<Stream> smooth;
  if (!leads_through_sockets(member)) {
    smooth = std::make_unique<RingStream>(lanes_, arena_, use_, member);
  } else {
    const bool by_fabric = ways_.fabric && lanes_.member(member).has_fabric;
    const SocketUse use{.group = group_, .use = static_cast<int32_t>(use_), .sealed = by_fabric ? leads_to_fabric : 0, .number = number, .of = of};
    Neighbour other = lanes_.member(member);
    if (use_ == LinkUse::steps) other.where = with_one_connector(std::move(other.where), lanes_.me() < member);
    smooth = socket_between(*ways_.sockets, lanes_.member(lanes_.me()), other, use);
    if (by_fabric) smooth = std::make_unique<FabricStream>(*ways_.fabric, std::move(smooth));
  }
  if (kind != StreamChoice::Kind::rough) return smooth;
  Roughness roughness = ways_.choice.roughness;
  roughness.seed += static_cast<uint64_t>(1000 * lanes_.me() + 2 * member + static_cast<int>(use_) + 100'000 * number);
  return std::make_unique<RoughStream>(std::move(smooth), roughness, [this] { ring_bell(lanes_.my_head()); });
}

Whereabouts with_one_connector(Whereabouts there, bool is_lower) {
  if (there.out_of_reach || there.waits_for_us) return there;
  there.waits_for_us = is_lower;
  there.out_of_reach = !is_lower;
  return there;
}

std::unique_ptr<Stream> socket_between(Sockets& sockets, const Neighbour& me, const Neighbour& other, const SocketUse& use) {
  SocketKey mine{.token = other.token, .group = use.group, .use = use.use, .from = me.rank, .to = other.rank, .sealed = use.sealed};
  SocketKey theirs{.token = me.token, .group = use.group, .use = use.use, .from = other.rank, .to = me.rank};
  mine.number = theirs.number = use.number;
  mine.of = theirs.of = use.of;
  return std::make_unique<SocketStream>(sockets, SocketStream::Ends{mine, theirs, other.where});
}

std::unique_ptr<Channel> Router::make(int member) {
  const int count = leads_through_sockets(member) ? ways_.sockets->per_peer() : 1;
  if (count == 1) return std::make_unique<StreamChannel>(make_stream(member, 0, 1));
  std::vector<std::unique_ptr<Stream>> streams;
  for (int number = 0; number < count; ++number) streams.push_back(make_stream(member, number, count));
  return std::make_unique<StripedChannel>(std::move(streams));
}

void Router::set() {
  for (auto& channel : channels_)
    if (channel && (channel->sending() || channel->receiving())) channel->arm();
}

bool Router::awaits(int member) const {
  const auto& channel = channels_[static_cast<size_t>(member)];
  return channel && channel->receiving();
}

bool Router::is_lost(int member) const {
  const Channel* channel = channels_[static_cast<size_t>(member)].get();
  return channel && (channel->sending() || channel->receiving()) && !channel->state().ok();
}

bool Router::has_no_more(int member) {
  const auto& channel = channels_[static_cast<size_t>(member)];
  return channel && (channel->sending() || channel->receiving()) && !channel->holds_more();
}

std::optional<Router::Loss> Router::unexplained_loss(const std::function<bool(int)>& is_needed) {
  for (int member = 0; member < lanes_.members(); ++member) {
    if (!is_lost(member) || !is_needed(member)) continue;
    if (to(member).state().code() == ErrorCode::resource) return Loss{member, to(member).state()};  // nobody else can know of it
    if (lost_since_ns_ == 0) lost_since_ns_ = now_ns();
    if (now_ns() - lost_since_ns_ < for_better_news_ns) return std::nullopt;
    return Loss{member, to(member).state()};
  }
  lost_since_ns_ = 0;
  return std::nullopt;
}

void Router::drop_unfinished() {
  for (auto& channel : channels_)
    if (channel && (channel->sending() || channel->receiving())) channel->drop();
}

void Router::finish() {
  for (auto& channel : channels_)
    if (channel) channel->finish();
}

void Router::close() {
  for (auto& channel : channels_)
    if (channel) channel->close();
  if (ways_.sockets) ways_.sockets->forget(group_);
}

}  // namespace unisono
