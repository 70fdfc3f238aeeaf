// See proofs.hpp.
#include "transport/proofs.hpp"

#include <algorithm>

namespace unisono {

bool Proofs::was_there(int rank, const Address& at) const {
  const auto reached = reached_.find(rank), came_from = came_from_.find(rank);
  return (reached != reached_.end() && reached->second == at) || (came_from != came_from_.end() && came_from->second.is_same_host(at));
}

void Proofs::note_reached(int rank, const Address& at) {
  reached_[rank] = at;
  refused_.erase(rank);
}

void Proofs::note_came(int rank, const Address& from) {
  came_from_[rank] = from;
  refused_.erase(rank);
}

void Proofs::note_answered(int rank, const Address& at) {
  if (was_there(rank, at)) refused_.erase(rank);
}

void Proofs::note_refused(int rank, const Address& at, bool by_all, int64_t now_ns) {
  if (!by_all && !was_there(rank, at)) return;
  refused_.try_emplace(rank, Refused{now_ns, now_ns}).first->second.last_ns = now_ns;
}

bool Proofs::is_refused_again(int rank) const {
  const auto refused = refused_.find(rank);
  return refused != refused_.end() && refused->second.last_ns - refused->second.first_ns >= again_after_ns;
}

std::vector<Address> Proofs::in_order(int rank, std::vector<Address> addresses) const {
  if (const auto reached = reached_.find(rank); reached != reached_.end())
    std::ranges::stable_partition(addresses, [&](const Address& one) { return one == reached->second; });
  return addresses;
}

}  // namespace unisono
