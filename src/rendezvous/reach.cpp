// See reach.hpp. Used by machines.cpp.
#include "rendezvous/reach.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/legible.hpp"
#include "transport/interfaces.hpp"

namespace unisono {
namespace {

constexpr size_t most_why_bytes = 400;  // two of them fit where the error is handed on
constexpr size_t most_whys = 16;
constexpr double enough_s = 2;

// Where the other has an address that is also one of this machine (docker0 is the same everywhere), it would lead back here.
std::vector<Address> foreign_first(std::vector<Address> addresses, const std::vector<Interface>& here) {
  std::ranges::stable_partition(addresses, [&](const Address& one) {
    return std::ranges::none_of(here, [&](const Interface& ours) { return ours.address.is_same_host(one); });
  });
  return addresses;
}

std::string name_of_machine() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// Of what one machine says, why it did not reach another.
std::string why_not(std::string_view row, size_t machine) {
  const std::string begins = fmt::format("\n{} ", machine);
  const size_t at = row.find(begins);
  if (at == row.npos) return "";
  const std::string_view why = row.substr(at + begins.size());
  return legible(why.substr(0, std::min(why.find('\n'), most_why_bytes)));
}

bool can_be(std::string_view row, size_t machines) {
  if (row.size() < machines || row.size() > machines + most_whys * (most_why_bytes + 8)) return false;
  return row.substr(0, machines).find_first_not_of("+-") == row.npos && (row.size() == machines || row[machines] == '\n');
}

}  // namespace

Reach::Reach(Sockets& sockets, const Self& self, std::vector<Other> others) : sockets_(sockets), self_(self), enough_(Deadline::in_seconds(enough_s)), ways_(static_cast<size_t>(self.machines)) {
  const std::vector<Interface> here = interfaces_here();
  for (Other& other : others) {
    const SocketKey key{.token = other.token, .group = 0, .use = trial_use, .from = self.rank, .to = other.rank, .sealed = 1};
    auto connecting = std::make_unique<Connecting>(sockets, foreign_first(other.addresses, here), key, self.patience_s);
    trials_.push_back({std::move(other), std::move(connecting)});
  }
}

bool Reach::turn() {
  bool all = true;
  for (Trial& trial : trials_) {
    if (!trial.connecting) continue;
    const bool is_decided = trial.connecting->turn();
    if (!is_decided && !(enough_.passed() && sockets_.was_tried_by(trial.other.rank))) {
      trial.connecting->arm();
      if (!enough_.passed()) sockets_.wake_by(enough_.at_ns);
      all = false;
      continue;
    }
    const Status& state = trial.connecting->state();
    Way& way = ways_[static_cast<size_t>(trial.other.machine)];
    way.out_of_reach = !is_decided || !state.ok();
    if (!way.out_of_reach) way.by = trial.connecting->address();
    if (!state.ok()) trial.why = fmt::format("rank {} on {} could not reach rank {}: {}", self_.rank, name_of_machine(), trial.other.rank, state.message());
    trial.connecting.reset();
  }
  return all;
}

Status Reach::late() const {
  for (const Trial& trial : trials_)
    if (trial.connecting)
      return {ErrorCode::init, fmt::format("rank {} on {} met rank {}, but did not come to reach it in time; is that rank stopped?", self_.rank, name_of_machine(),
                                           trial.other.rank)};
  return Status::success();
}

std::string Reach::text() const {
  std::string text;
  size_t whys = 0;
  for (const Way& way : ways_) text += way.out_of_reach ? '-' : '+';
  for (const Trial& trial : trials_) {
    if (trial.why.empty() || ++whys > most_whys) continue;
    const std::string why = fmt::format("{} (interfaces there: {})", trial.why, text_of(interfaces_here()));
    text += fmt::format("\n{} {}", trial.other.machine, std::string_view(why).substr(0, most_why_bytes));
  }
  return text;
}

Status check_reach(const std::vector<std::string>& rows, int machines) {
  const auto count = static_cast<size_t>(machines);
  const bool all_can_be = rows.size() == count && std::ranges::all_of(rows, [&](const std::string& row) { return can_be(row, count); });
  if (!all_can_be) return {ErrorCode::init, "the store holds something else than which machines reach which"};
  for (size_t one = 0; one < count; ++one)
    for (size_t other = one + 1; other < count; ++other)
      if (rows[one][other] != '+' && rows[other][one] != '+')
        return {ErrorCode::init, fmt::format("two machines do not reach each other: {}; {}. Choose interfaces by UNISONO_SOCKET_IFNAME, or say by "
                                             "UNISONO_ADVERTISE by which addresses others reach a machine; is there a firewall?",
                                             why_not(rows[one], other), why_not(rows[other], one))};
  return Status::success();
}

Status Reach::read(const std::vector<std::string>& rows) {
  RETURN_IF_ERROR(check_reach(rows, self_.machines));
  for (size_t other = 0; other < ways_.size(); ++other) ways_[other].waits_for_us = rows[other][static_cast<size_t>(self_.machine)] != '+';
  return Status::success();
}

}  // namespace unisono
