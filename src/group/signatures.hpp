// What the 32 bits of a signature that travel with a call's data stand for.
//
// Different calls may have the same hash. So the first time that a group meets a signature, its members compare what they
// announced in full; from then on the hash stands for exactly that, and comparing words is enough. Another signature with the
// same hash is given another one. All members learn the same signatures in the same calls, so they give out the same hashes; the
// one exception is a rank that ran ahead into a call that then failed, which may see one mismatch too many, once in 2^32.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "group/announcement.hpp"

namespace unisono {

class Signatures {
 public:
  struct Mark {
    uint32_t hash = 0;
    bool known = false;  // to all members, in full
  };
  Mark mark_of(const Announcement& announcement) const;
  void make_room();  // for one more: done before a call is announced, since afterwards nothing may fail on one rank alone
  void learn(uint32_t hash, const Announcement& announcement);
  // What was known in another era is not any more: there are too many, and all of them were forgotten.
  uint32_t era() const { return era_; }

 private:
  using Known = std::unordered_map<uint32_t, Announcement>;
  Known known_;
  Known::node_type room_;
  uint32_t era_ = 1;
};

}  // namespace unisono
