// Who is missing where the ranks of machines meet, and who came and is gone. What an agent has seen of its own ranks stands in the store; of an agent that was
// killed itself nobody could write that. Where rank 0 serves the store, the server sees that the agent's connection has ended. Of a store that is somebody
// else's, agents give a sign every second, and whoever is about to give up looks for a while whose sign stays the same.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "rendezvous/roster_talk.hpp"

namespace unisono {
namespace {

using distributed::StoreAnswer;
using Kind = distributed::StoreRequest::Kind;

constexpr int64_t silent_ns = 2'000'000'000;

}  // namespace

Status Roster::Talk::look_who_is_missing(const std::vector<std::string>& awaited) {
  const bool are_seats = awaited.front() == key("seats");
  Requests requests;
  for (const std::string& wanted : awaited) requests.push_back({.kind = are_seats ? Kind::get : Kind::check, .key = wanted});
  auto answers = ask(requests);
  if (!answers.ok()) return answers.status();
  Missing missing;
  std::vector<Seat> seats;
  for (size_t index = 0; index < answers->size(); ++index) {
    const StoreAnswer& answer = (*answers)[index];
    const auto number = static_cast<int>(index);
    if (!answer.found) missing.numbers.push_back(number);
    if (!answer.found || !are_seats) continue;
    if (const auto seat = Seat::parse(answer.value); seat && seat->rank == number) seats.push_back(*seat);
    if (const auto seat = Seat::parse_ended(answer.value); seat && seat->rank == number) missing.add(number, fmt::format("rank {} ({}) came and has ended", number, seat->who()));
  }
  RETURN_IF_ERROR(look_after_agents(seats, missing));
  {
    std::lock_guard lock(mutex_);
    missing_ = std::move(missing);
  }
  tell();
  return Status::success();
}

// The ranks of one machine come and go with their agent: those that live find another at once, and their seats say so.
Status Roster::Talk::look_after_agents(const std::vector<Seat>& seats, Missing& missing) {
  std::set<int> agents;
  for (const Seat& seat : seats)
    if (seat.agent != rank_) agents.insert(seat.agent);
  auto lost = lost_agents({agents.begin(), agents.end()});
  if (!lost.ok()) return lost.status();
  for (const Seat& seat : seats) {
    const auto how = lost->find(seat.agent);
    if (how == lost->end()) continue;
    if (seat.rank == seat.agent) missing.add(seat.rank, fmt::format("rank {} ({}) came, and {}", seat.rank, seat.who(), how->second));
    else missing.add(seat.rank, fmt::format("rank {} ({}) came with rank {}", seat.rank, seat.who(), seat.agent));
  }
  return Status::success();
}

// Which of these are not there any more, and how that is known.
Result<std::map<int, std::string>> Roster::Talk::lost_agents(const std::vector<int>& agents) {
  Requests requests;
  for (int agent : agents) requests.push_back({.kind = Kind::get, .key = key(meeting_.ends_with_meeting ? "away" : "signs", agent)});
  auto answers = ask(requests);
  if (!answers.ok()) return answers.status();
  std::map<int, std::string> lost;
  for (size_t index = 0; index < agents.size(); ++index) {
    const StoreAnswer& answer = (*answers)[index];
    if (meeting_.ends_with_meeting) {
      if (answer.found) lost[agents[index]] = "its connection to the store has ended";
      continue;
    }
    Sighting& sighting = sightings_[agents[index]];
    if (sighting.since_ns == 0 || sighting.sign != answer.value) sighting = {answer.value.substr(0, most_entry_bytes), now_ns()};
    const int64_t since_ns = now_ns() - sighting.since_ns;
    if (since_ns >= silent_ns) lost[agents[index]] = fmt::format("has not been heard of for {:.0f} s", static_cast<double>(since_ns) * 1e-9);
  }
  return lost;
}

}  // namespace unisono
