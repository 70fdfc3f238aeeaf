// Which ranks share a host; a value, cheap to copy. Hosts are numbered in the order of their lowest ranks, so that equal layouts are
// equal, whoever numbered them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/status.hpp"

namespace unisono {

constexpr int most_ranks = 0x7fff;  // in a world: where things are packed into words, a rank has 16 bits

class Hosts {
 public:
  Hosts() = default;                                  // one host, however many ranks there are
  explicit Hosts(std::span<const int> host_of_rank);  // in any numbers; one host if all are equal

  // "2,3": two ranks on the first host and three on the next; "2x4": two hosts of four; "0/1/0/1": the host of each rank.
  // Refused where it does not make up so many ranks, in a sentence that begins with the name of the setting.
  static Result<Hosts> parse(std::string_view setting, std::string_view text, int ranks);

  static Result<int> ranks_in(std::string_view setting, std::string_view text);  // how many ranks a layout makes

  bool one() const { return !table_; }
  int ranks() const { return table_ ? static_cast<int>(table_->host_of.size()) : 0; }  // 0 of one(), which goes for any number
  int count() const { return table_ ? static_cast<int>(table_->ranks.size()) : 1; }
  int of(int rank) const { return table_ ? table_->host_of[static_cast<size_t>(rank)] : 0; }
  bool share(int rank, int other) const { return of(rank) == of(other); }
  std::span<const int> ranks_on(int host) const { return table_->ranks[static_cast<size_t>(host)]; }  // ascending; not of one()
  int index_on_host(int rank) const;                                                                // not of one()

  Hosts among(std::span<const int> ranks) const;  // of these alone, counted from 0

  std::string text() const;  // "2,3", or "8x2" where that is shorter, or "0/1/0/1" where ranks of a host do not lie in a row; "1 host"

  bool operator==(const Hosts& other) const;

 private:
  struct Table {
    std::vector<int> host_of;
    std::vector<std::vector<int>> ranks;

    bool operator==(const Table&) const = default;
  };

  std::shared_ptr<const Table> table_;  // null: one host
};

}  // namespace unisono
