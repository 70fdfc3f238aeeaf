// See machines.hpp.
#include "rendezvous/machines.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.hpp"
#include "rendezvous/guest.hpp"
#include "trust/digest.hpp"
#include "transport/fabric.hpp"

namespace unisono {
namespace {

Status something_else(int rank, std::string_view than) {
  return {ErrorCode::init, fmt::format("the store holds something else than {} rank {}", than, rank)};
}

Result<Seat> read_seat(const std::vector<std::string>& entries, int rank, const std::string& us) {
  constexpr std::string_view seat_of = "what an agent says of";
  const auto index = static_cast<size_t>(rank);
  if (index >= entries.size()) return something_else(rank, seat_of);
  const std::optional<std::string> version = Seat::version_of(entries[index]);
  if (!version) return something_else(rank, seat_of);
  if (*version != UNISONO_VERSION)
    return Status(ErrorCode::version, fmt::format("rank {} on another machine speaks {}, {} speaks {}; use one version of the library", rank, *version, us,
                                                  UNISONO_VERSION));
  const std::optional<Seat> seat = Seat::parse(entries[index]);
  if (!seat || seat->rank != rank) return something_else(rank, seat_of);
  return *seat;
}

}  // namespace

Machines::Machines(const JoinRequest& request, std::function<std::string(int rank)> process_here)
    : request_(request), process_here_(std::move(process_here)), number_of_rank_(static_cast<size_t>(request.size)),
      elsewhere_(static_cast<size_t>(request.size)), roster_(std::make_shared<Roster>(request.store, request.deadline, request.rank)) {
  if (getrandom(&mine_, sizeof(mine_), 0) != static_cast<ssize_t>(sizeof(mine_))) mine_ = static_cast<uint64_t>(now_ns());
}

std::string Machines::us() const { return fmt::format("rank {} (pid {} on {})", request_.rank, getpid(), name_); }

Status Machines::two_claim(int rank, const std::string& here, const Seat& there) const {
  return {ErrorCode::init, fmt::format("two processes call themselves rank {}: {} on {}, and {}", rank, here, name_, there.who())};
}

Status Machines::check_seat(int rank, const Seat& seat) const {
  if (seat.size != request_.size)
    return {ErrorCode::init, fmt::format("rank {} ({}) says there are {} ranks, {} says {}", rank, seat.who(), seat.size, us(), request_.size)};
  if (seat.encrypt != request_.encrypt)
    return {ErrorCode::init, fmt::format("UNISONO_ENCRYPT is {} on rank {} ({}) and {} on {}; give all ranks the same", seat.encrypt ? "on" : "off", rank, seat.who(),
                                         request_.encrypt ? "on" : "off", us())};
  if (seat.sockets_per_peer != request_.sockets_per_peer)
    return {ErrorCode::init, fmt::format("UNISONO_SOCKETS_PER_PEER is {} on rank {} ({}) and {} on {}; give all ranks the same", seat.sockets_per_peer, rank, seat.who(),
                                         request_.sockets_per_peer, us())};
  const bool they_look = seat.fabric != 0, we_look = request_.fabric != FabricHere::not_looked_for;
  if (they_look != we_look)
    return {ErrorCode::init, differs_in_fabric(fmt::format("rank {} ({})", rank, seat.who()), they_look, us())};
  const std::string here = process_here_(rank);
  if (!here.empty() && seat.machine != mine_) return two_claim(rank, here, seat);
  if (here.empty() && seat.machine == mine_) return {ErrorCode::init, fmt::format("rank {} ({}) went away while joining", rank, seat.who())};
  return Status::success();
}

Status Machines::read_seats() {
  const std::vector<std::string> entries = roster_->entries().value_or(std::vector<std::string>());
  numbers_.clear();
  std::string all;
  for (int rank = 0; rank < request_.size; ++rank) {
    const auto index = static_cast<size_t>(rank);
    auto seat = read_seat(entries, rank, us());
    if (!seat.ok()) return seat.status();
    RETURN_IF_ERROR(check_seat(rank, *seat));
    elsewhere_[index].reset();
    if (seat->machine != mine_) elsewhere_[index] = *seat;
    number_of_rank_[index] = numbers_.emplace(seat->machine, count()).first->second;
    all += seat->text() + "\n";
  }
  digest_ = digest_of(all);
  if (digest_.empty()) return {ErrorCode::internal, "OpenSSL does not offer SHA-256"};
  return Status::success();
}

Status Machines::read_addresses() {
  const std::vector<std::string> entries = roster_->entries().value_or(std::vector<std::string>());
  for (int rank = 0; rank < request_.size; ++rank) {
    std::optional<Seat>& known = elsewhere_[static_cast<size_t>(rank)];
    if (!known) continue;
    auto seat = read_seat(entries, rank, us());
    if (!seat.ok()) return seat.status();
    if (!seat->is_same(*known)) return {ErrorCode::init, fmt::format("two processes call themselves rank {}: {}, and {}", rank, known->who(), seat->who())};
    known = std::move(*seat);
  }
  return Status::success();
}

Status Machines::check_dispute() {
  const std::optional<Seat> claim = Seat::parse(roster_->take_dispute());
  if (!claim || claim->rank < 0 || claim->rank >= request_.size || claim->machine == mine_) return Status::success();
  const std::string here = process_here_(claim->rank);
  return here.empty() ? Status::success() : two_claim(claim->rank, here, *claim);
}

Status Machines::complete_without_us() const {
  const std::optional<Seat> there = Seat::parse(roster_->taken());
  const bool names_one = there && there->rank >= 0 && there->rank < request_.size;
  if (names_one && roster_->is_running())
    return {ErrorCode::init, fmt::format("job \"{}\" is already running with {} ranks, and its rank {} is {}, not {}; wait for it to end or choose another UNISONO_JOB",
                                         request_.job, request_.size, there->rank, there->who(), us())};
  if (names_one) return two_claim(there->rank, process_here_(there->rank), *there);
  return {ErrorCode::init, fmt::format("job \"{}\" is already running with {} ranks, and {} is none of them; wait for it to end or choose another UNISONO_JOB",
                                       request_.job, request_.size, us())};
}

Status Machines::store_is_old() const {
  const Status failure = roster_->failure();
  if (failure.ok()) return complete_without_us();
  return {ErrorCode::init, fmt::format("rank 0 of job \"{}\" has not come again since all heard that {}", request_.job, failure.message())};
}

// Ranks have entries of their own up to "addresses", machines from then on; an agent answers for its machine.
Status Machines::late(const std::string& round) const {
  const std::optional<Missing> missing = roster_->missing();
  if (!missing || round == "complete") return store_has_not_answered(request_);
  if (round == "seats") return not_all_came(request_, *missing);
  if (round == "addresses") return not_all_went_on(request_, missing->numbers);
  std::vector<int> agents;
  for (int rank = 0; rank < request_.size; ++rank) {
    const std::optional<Seat>& seat = elsewhere_[static_cast<size_t>(rank)];
    if (seat && seat->agent == rank && std::ranges::find(missing->numbers, number_of(rank)) != missing->numbers.end()) agents.push_back(rank);
  }
  return not_all_went_on(request_, agents);
}

void Machines::all_are_here() {
  std::ranges::fill(number_of_rank_, 0);
  std::ranges::fill(elsewhere_, std::nullopt);
  numbers_ = {{mine_, 0}};
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
  member.fabric = seat.fabric;
  member.host = number_of(rank);
  const Reach::Way& way = reach_->way_to(member.host);
  std::ranges::stable_partition(*addresses, [&](const Address& one) { return one.is_same_host(way.by); });
  member.out_of_reach = way.out_of_reach;
  member.waits_for_us = way.waits_for_us;
  member.say_addresses(text_of(*addresses));
  member.say(seat.host);
  return member;
}

Result<std::vector<Address>> Machines::addresses_of(int rank) const {
  auto addresses = addresses_in(elsewhere_[static_cast<size_t>(rank)]->addresses);
  if (addresses && !addresses->empty()) return std::move(*addresses);
  return something_else(rank, "where to find");
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

Status Machines::read_reach() { return reach_->read(roster_->entries().value_or(std::vector<std::string>())); }

}  // namespace unisono
