// Stripes of one stream over several connections, as none of ours sends them: heads that were changed, stripes that come twice, in another order or not at
// all, bytes that were lost on the way. Nothing is written beside the target, a receive is over only with bytes that came for its place, and whoever
// waits in vain is told.
#include <gtest/gtest.h>

#include <set>

#include "base/legible.hpp"
#include "tests/support/memory_stream.hpp"
#include "tests/torture/mutations.hpp"
#include "tests/torture/rounds.hpp"

namespace unisono::testing {
namespace {

constexpr char untouched = '\xa5';
constexpr uint64_t most_in_a_stream = 8192;  // less than the room around a target: whatever misses it is seen

struct OneStripe {
  StripeHead head;
  std::string body;
};
using ByConnection = std::vector<std::vector<OneStripe>>;

// As a sender would have cut it.
ByConnection cut(Dice& dice, const std::string& stream, int connections) {
  ByConnection stripes(static_cast<size_t>(connections));
  for (uint64_t at = 0; at < stream.size();) {
    const uint64_t bytes = std::min(static_cast<uint64_t>(dice.of_any_magnitude(9)), stream.size() - at);
    stripes[static_cast<size_t>(dice.below(connections))].push_back({{at, static_cast<uint32_t>(bytes), 0}, stream.substr(at, bytes)});
    at += bytes;
  }
  return stripes;
}

void change(Dice& dice, OneStripe& stripe) {
  switch (dice.below(4)) {
    case 0: stripe.head.at += static_cast<uint64_t>(dice.between(-3, 3)); break;
    case 1: stripe.head.at -= static_cast<uint64_t>(dice.below(1000)); break;
    case 2:  // longer or shorter, with as many bytes
      stripe.head.bytes = static_cast<uint32_t>(dice.of_any_magnitude(9));
      stripe.body = random_bytes(dice, stripe.head.bytes);
      break;
    default: {
      const std::string head = mutated_in_place(dice, bytes_of(stripe.head));
      std::memcpy(static_cast<void*>(&stripe.head), head.data(), sizeof(stripe.head));
    }
  }
}

void disturb(Dice& dice, ByConnection& stripes) {
  for (int left = dice.between(1, 3); left > 0; --left) {
    auto& from = stripes[static_cast<size_t>(dice.below(static_cast<int64_t>(stripes.size())))];
    auto& to = stripes[static_cast<size_t>(dice.below(static_cast<int64_t>(stripes.size())))];
    if (from.empty()) continue;
    const auto one = from.begin() + dice.below(static_cast<int64_t>(from.size()));
    switch (dice.below(4)) {
      case 0: change(dice, *one); break;
      case 1: from.erase(one); break;
      case 2: std::swap(*one, from.back()); break;
      default: {
        OneStripe again = *one;
        if (dice.chance(50)) change(dice, again);
        to.insert(to.begin() + dice.below(static_cast<int64_t>(to.size()) + 1), again);
      }
    }
  }
}

// Which bytes came for each place, by whatever was said to lie there. Behind a head that cannot be nothing is known.
std::vector<std::set<char>> sent_for_each_place(StripedStreams& streams, size_t places) {
  std::vector<std::set<char>> sent(places);
  for (const MemoryStream* stream : streams.all()) {
    StripeHead head;
    for (std::string_view rest = stream->bytes; rest.size() > sizeof(head);) {
      std::memcpy(static_cast<void*>(&head), rest.data(), sizeof(head));
      rest.remove_prefix(sizeof(head));
      if (head.bytes == 0 || head.bytes > most_in_a_stripe) break;
      const std::string_view body = rest.substr(0, head.bytes);
      for (uint64_t index = 0; index < body.size() && head.at < sent.size() && head.at + index < sent.size(); ++index) sent[head.at + index].insert(body[index]);
      rest.remove_prefix(body.size());
    }
  }
  return sent;
}

// Bytes come by each connection as the dice have it, until all are there.
void receive(Dice& dice, StripedStreams& streams) {
  bool all_there = true;
  for (MemoryStream* stream : streams.all()) {
    if (dice.chance(60)) stream->allowed = std::min(stream->bytes.size(), stream->allowed + static_cast<size_t>(dice.of_any_magnitude(10)));
    all_there &= stream->allowed == stream->bytes.size();
  }
  const bool moved = streams.channel().turn();
  if (all_there && !moved)
    for (MemoryStream* stream : streams.all()) stream->ends = true;
}

bool is_guarded(std::string_view place, size_t target_bytes) {
  auto is_untouched = [](std::string_view room) { return room.find_first_not_of(untouched) == room.npos; };
  return is_untouched(place.substr(0, most_in_a_stream)) && is_untouched(place.substr(most_in_a_stream + target_bytes));
}

int64_t take_stripes(uint64_t seed) {
  Dice dice(seed);
  const int connections = dice.between(1, 5);
  const std::string stream = random_bytes(dice, dice.between(1, most_in_a_stream));
  ByConnection stripes = cut(dice, stream, connections);
  const bool is_disturbed = dice.chance(80);
  if (is_disturbed) disturb(dice, stripes);
  StripedStreams streams(connections);
  int64_t count = 0;
  for (size_t number = 0; number < stripes.size(); ++number) {
    for (const OneStripe& stripe : stripes[number]) streams[number].bytes += stripe_words(stripe.head, stripe.body), ++count;
    if (is_disturbed && dice.chance(10)) streams[number].bytes = mutated(dice, streams[number].bytes);
    streams[number].allowed = 0;
  }
  const auto sent = sent_for_each_place(streams, stream.size());
  StripedChannel& channel = streams.channel();
  std::string got;
  while (got.size() < stream.size() && channel.state().ok() && !::testing::Test::HasFailure()) {
    const size_t wanted = std::min(static_cast<size_t>(dice.of_any_magnitude(11)), stream.size() - got.size());
    std::string place(wanted + 2 * most_in_a_stream, untouched);
    channel.post_receive(std::as_writable_bytes(std::span(place).subspan(most_in_a_stream, wanted)));
    const int64_t most_turns = 100'000;  // more than it takes to let every byte come
    int64_t turns = 0;
    for (; channel.receiving() && channel.state().ok() && turns < most_turns; ++turns) receive(dice, streams);
    EXPECT_LT(turns, most_turns) << "nobody says that nothing more will come";
    EXPECT_TRUE(is_guarded(place, wanted));
    if (channel.receiving()) break;
    for (size_t index = 0; index < wanted; ++index) EXPECT_TRUE(sent[got.size() + index].contains(place[most_in_a_stream + index])) << "place " << got.size() + index;
    got += place.substr(most_in_a_stream, wanted);
  }
  const Status state = channel.state();
  if (!is_disturbed) {
    EXPECT_EQ(got, stream) << state.text();
  }
  EXPECT_TRUE(got.size() == stream.size() || state.code() == ErrorCode::protocol || (is_disturbed && state.code() == ErrorCode::peer_lost)) << state.text();
  EXPECT_TRUE(is_legible(state.message())) << state.text();
  return count;
}

TEST(Frames, stripes) { run_rounds("stripes", take_stripes); }

}  // namespace
}  // namespace unisono::testing
