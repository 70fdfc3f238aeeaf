// What a TCPStore's server holds: keys and values within bounds, and who waits for which of them. Knows of no connections.
//
// A waiter stands in line at one key that it misses. When that key is set it looks on from there, and at the next one that is missing
// stands in line again, so that setting a key costs nothing to those who wait for others. Used by one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/sizes.hpp"
#include "rendezvous/store_contents.hpp"

namespace unisono {

struct StoreCaps {
  size_t keys = size_t{1} << 20;
  size_t bytes = 1_GiB;  // of keys and values, and 64 for each pair
};

class StoreTable {
 public:
  using Values = std::shared_ptr<const std::vector<std::string>>;
  struct Woken {
    uint64_t waiter;
    Values values;  // the same object for all who waited for the same keys; null where there is too much of them, or no memory
  };

  explicit StoreTable(StoreCaps caps = {}) : caps_(caps) {}

  // As Store::perform; ResourceError for what goes beyond the bounds, or beyond what one frame can answer.
  Result<std::vector<distributed::StoreAnswer>> perform(const std::vector<distributed::StoreRequest>& requests);
  // The values, or nothing: then the waiter, which waits for nothing else, is among woken() once they are there.
  Result<std::optional<std::vector<std::string>>> await(uint64_t waiter, std::vector<std::string> keys);
  std::vector<uint32_t> missing(uint64_t waiter) const;  // as indices into its keys
  void forget(uint64_t waiter);                          // where it waits
  std::vector<Woken> take_woken();                       // since the last time

  int64_t bytes() const { return static_cast<int64_t>(bytes_); }

 private:
  struct Waiter {
    std::vector<std::string> keys;
    size_t at = 0;  // the key that it stands in line at
  };
  Result<size_t> bytes_after(const StoreEdit& edit) const;
  Status answerable(const std::vector<std::string>& keys) const;
  bool is_complete(Waiter& waiter) const;  // if not, `at` is what is missing
  void stand_in_line(uint64_t id, const Waiter& waiter) { lines_[waiter.keys[waiter.at]].push_back(id); }
  Values values_for(const std::vector<std::string>& keys) const;
  void look_after(const std::string& key);

  StoreCaps caps_;
  StoreContents contents_;
  size_t bytes_ = 0;
  std::unordered_map<uint64_t, Waiter> waiters_;
  std::unordered_map<std::string, std::vector<uint64_t>> lines_;  // key → who stands in line there
  std::vector<Woken> woken_;
};

}  // namespace unisono
