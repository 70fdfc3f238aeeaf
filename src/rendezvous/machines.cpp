// See machines.hpp.
#include "rendezvous/machines.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>

#include "base/hash.hpp"

namespace unisono {

Machines::Machines(const JoinRequest& request)
    : request_(request), number_of_rank_(static_cast<size_t>(request.size)), elsewhere_(static_cast<size_t>(request.size)),
      roster_(request.store, fmt::format("unisono/meeting/{:016x}", hash_text(request.job)), request.deadline) {
  if (getrandom(&mine_, sizeof(mine_), 0) != static_cast<ssize_t>(sizeof(mine_))) mine_ = static_cast<uint64_t>(now_ns());
}

void Machines::enter(const std::string& round, const JoinMessage& hello) {
  roster_.enter(round, hello.rank, Seat{hello.rank, hello.pid, hello.probe, mine_, request_.rank, hello.addresses}.text());
}

Status Machines::read_seats(const std::function<std::string(int rank)>& process_here) {
  const std::vector<std::string> entries = roster_.entries().value_or(std::vector<std::string>());
  for (int rank = 0; rank < request_.size; ++rank) {
    const auto index = static_cast<size_t>(rank);
    const std::optional<Seat> seat = index < entries.size() ? Seat::parse(entries[index]) : std::nullopt;
    if (!seat || seat->rank != rank) return {ErrorCode::init, fmt::format("the store holds something else than what an agent says of rank {}", rank)};
    const std::string here = process_here(rank);
    if (!here.empty() && seat->machine != mine_)
      return {ErrorCode::init, fmt::format("two processes call themselves rank {}: {} on this machine, and pid {} on another", rank, here, seat->pid)};
    if (here.empty() && seat->machine == mine_)
      return {ErrorCode::init, fmt::format("rank {} (pid {}) went away while joining", rank, seat->pid)};
    if (here.empty()) elsewhere_[index] = seat;
    number_of_rank_[index] = numbers_.emplace(seat->machine, count()).first->second;
  }
  return Status::success();
}

Result<JoinMessage> Machines::member(int rank, const JoinMessage& like) const {
  const Seat& seat = *elsewhere_[static_cast<size_t>(rank)];
  auto addresses = addresses_of(rank);
  if (!addresses.ok()) return addresses.status();
  JoinMessage member = like;
  member.kind = JoinKind::member;
  member.rank = rank;
  member.pid = seat.pid;
  member.probe = seat.probe;
  member.host = number_of(rank);
  const Reach::Way& way = reach_->way_to(member.host);
  std::ranges::stable_partition(*addresses, [&](const Address& one) { return one.is_same_host(way.by); });
  member.out_of_reach = way.out_of_reach;
  member.waits_for_us = way.waits_for_us;
  member.say_addresses(text_of(*addresses));
  return member;
}

Result<std::vector<Address>> Machines::addresses_of(int rank) const {
  auto addresses = addresses_in(elsewhere_[static_cast<size_t>(rank)]->addresses);
  if (addresses && !addresses->empty()) return std::move(*addresses);
  return Status(ErrorCode::init, fmt::format("the store holds something else than where rank {} listens", rank));
}

// Of every other machine its agent.
Status Machines::begin_to_reach(Sockets& sockets) {
  std::vector<Reach::Other> others;
  for (int rank = 0; rank < request_.size; ++rank) {
    const std::optional<Seat>& seat = elsewhere_[static_cast<size_t>(rank)];
    if (!seat || seat->agent != rank) continue;
    auto addresses = addresses_of(rank);
    if (!addresses.ok()) return addresses.status();
    others.push_back({number_of(rank), rank, seat->probe, std::move(*addresses)});
  }
  if (static_cast<int>(others.size()) != count() - 1) return {ErrorCode::init, "the store does not say who the agents of all machines are"};
  constexpr double longest_s = 6;  // so that who cannot be reached is known within ten seconds
  const double left_s = static_cast<double>(request_.deadline.remaining_ns()) * 1e-9;
  const Reach::Self self{number_of(request_.rank), request_.rank, count(), std::min(longest_s, left_s / 2)};
  reach_ = std::make_unique<Reach>(sockets, self, std::move(others));
  return Status::success();
}

Status Machines::read_reach() { return reach_->read(roster_.entries().value_or(std::vector<std::string>())); }

}  // namespace unisono
