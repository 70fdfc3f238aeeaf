// At which addresses other ranks have shown that they are there, and whether their kernels refuse connections there since: who is refused again and again at
// an address where the rank was before, or at all of them, listens no more. A process that is stopped does not refuse, nor does a machine that is silent; a box on
// the way may, once.
//
// Not thread-safe: sockets.cpp's.
#pragma once

#include <map>
#include <vector>

#include "transport/address.hpp"

namespace unisono {

class Proofs {
 public:
  static constexpr int64_t again_after_ns = 200'000'000;  // from one refusal to the one that counts

  void note_reached(int rank, const Address& at);     // a connection to it is open
  void note_came(int rank, const Address& from);      // one from it
  void note_answered(int rank, const Address& at);    // by the kernel there, as it seems; nobody has said yet who that is
  void note_refused(int rank, const Address& at, bool by_all, int64_t now_ns);
  void forget_refusals(int rank) { refused_.erase(rank); }

  bool is_refused(int rank) const { return refused_.contains(rank); }  // at least once
  bool is_refused_again(int rank) const;
  std::vector<Address> in_order(int rank, std::vector<Address> addresses) const;  // where it was reached first

 private:
  struct Refused {
    int64_t first_ns, last_ns;
  };
  bool was_there(int rank, const Address& at) const;

  std::map<int, Address> reached_, came_from_;  // by rank
  std::map<int, Refused> refused_;
};

}  // namespace unisono
