// The search of Wing and Gong with a memory of where it has been, as Lowe describes it; see store_history.hpp.
#include "tests/support/store_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace unisono::testing {
namespace {

using What = StoreOperation::What;

constexpr size_t most_places = 1'000'000;  // that the search may have been at
constexpr size_t most_shown = 12;

struct Effect {
  int64_t value, result;
};

Effect effect_of(const StoreOperation& operation, int64_t value) {
  switch (operation.what) {
    case What::add: return {value + operation.value, value + operation.value};
    case What::set: return {operation.value, operation.result};  // which has none
    case What::get: return {value, value};
    case What::compare_set: break;
  }
  if (value == operation.expected) return {operation.value, operation.value};
  return {value, value == 0 ? operation.expected : value};
}

bool are_alike(const StoreOperation& one, const StoreOperation& other) {
  return one.what == other.what && one.value == other.value && one.expected == other.expected;
}

// Over the operations on one key.
class Search {
 public:
  explicit Search(std::vector<StoreOperation> operations) : operations_(std::move(operations)), placed_(operations_.size()) {
    std::stable_sort(operations_.begin(), operations_.end(), [](const auto& one, const auto& other) { return one.started_ns < other.started_ns; });
    left_ = fewest_left_ = static_cast<size_t>(std::count_if(operations_.begin(), operations_.end(), [](const auto& each) { return each.is_answered(); }));
  }

  std::string run() {
    if (goes_on_from(0)) return {};
    return places_.size() < most_places ? report() : fmt::format("after {} places it is not known whether it is linearizable; {}", most_places, report());
  }

 private:
  // Whether all that were answered, and are not placed yet, can follow on this value.
  bool goes_on_from(int64_t value) {
    if (left_ == 0) return true;
    if (places_.size() >= most_places || !places_.emplace(placed_, value).second) return false;
    if (places_.size() == 1 || left_ < fewest_left_) {
      fewest_left_ = left_;
      furthest_ = placed_;
      value_there_ = value;
    }
    const std::vector<size_t> next = may_be_next(placed_);
    for (size_t index : next) {  // what changes nothing can stay where it fits: no other place would be of more use to the others
      const Effect effect = effect_of(operations_[index], value);
      if (operations_[index].is_answered() && effect.value == value && effect.result == operations_[index].result) return goes_on_with(index, value);
    }
    for (bool answered : {true, false})
      for (auto index = next.begin(); index != next.end(); ++index)
        if (operations_[*index].is_answered() == answered && can_be_placed(next, index, value) &&
            goes_on_with(*index, effect_of(operations_[*index], value).value))
          return true;
    return false;
  }

  // Without an answer it is placed only where it changes something, and of those that are alike the one that started first.
  bool can_be_placed(const std::vector<size_t>& next, std::vector<size_t>::const_iterator index, int64_t value) const {
    const StoreOperation& operation = operations_[*index];
    const Effect effect = effect_of(operation, value);
    if (operation.is_answered()) return effect.result == operation.result;
    return effect.value != value && std::none_of(next.begin(), index, [&](size_t earlier) {
      return !operations_[earlier].is_answered() && are_alike(operations_[earlier], operation);
    });
  }

  bool goes_on_with(size_t index, int64_t value) {
    const size_t answers = operations_[index].is_answered() ? 1 : 0;
    placed_[index] = true;
    left_ -= answers;
    const bool goes_on = goes_on_from(value);
    placed_[index] = false;
    left_ += answers;
    return goes_on;
  }

  // Those that started before any other that is not placed had ended.
  std::vector<size_t> may_be_next(const std::vector<bool>& placed) const {
    int64_t first_end_ns = std::numeric_limits<int64_t>::max();
    std::vector<size_t> next;
    for (size_t index = 0; index < operations_.size() && operations_[index].started_ns <= first_end_ns; ++index) {
      if (placed[index]) continue;
      if (operations_[index].is_answered()) first_end_ns = std::min(first_end_ns, operations_[index].ended_ns);
      next.push_back(index);
    }
    return next;
  }

  std::string report() const {
    std::vector<size_t> next = may_be_next(furthest_);
    std::stable_partition(next.begin(), next.end(), [this](size_t index) { return operations_[index].is_answered(); });
    std::string text = fmt::format("key {}: {} of {} operations can be put in an order, which leads to {}; none of these can be the next:",
                                   operations_.front().key, std::count(furthest_.begin(), furthest_.end(), true), operations_.size(), value_there_);
    for (size_t shown = 0; shown < std::min(next.size(), most_shown); ++shown)
      text += "\n  " + text_of(operations_[next[shown]], operations_.front().started_ns);
    return next.size() > most_shown ? text + fmt::format("\n  and {} more", next.size() - most_shown) : text;
  }

  std::vector<StoreOperation> operations_;  // by when they started
  std::vector<bool> placed_, furthest_;
  size_t left_ = 0, fewest_left_ = 0;  // of those that were answered
  int64_t value_there_ = 0;            // at the furthest
  std::set<std::pair<std::vector<bool>, int64_t>> places_;
};

}  // namespace

std::string text_of(const StoreOperation& operation, int64_t origin_ns) {
  std::string text = fmt::format("client {}: ", operation.client);
  switch (operation.what) {
    case What::add: text += fmt::format("add({})", operation.value); break;
    case What::set: text += fmt::format("set({})", operation.value); break;
    case What::get: text += "get()"; break;
    case What::compare_set: text += fmt::format("compare_set({}, {})", operation.expected, operation.value); break;
  }
  const int64_t started_ns = operation.started_ns - origin_ns;
  if (!operation.is_answered()) return text + fmt::format(", from {} ns, without an answer", started_ns);
  if (operation.what != What::set) text += fmt::format(" = {}", operation.result);
  return text + fmt::format(", from {} to {} ns", started_ns, operation.ended_ns - origin_ns);
}

std::string not_linearizable(const std::vector<StoreOperation>& history) {
  std::map<int, std::vector<StoreOperation>> by_key;
  for (const StoreOperation& operation : history)
    if (operation.is_answered() || operation.what != What::get) by_key[operation.key].push_back(operation);
  std::string text;
  for (auto& [key, operations] : by_key) {
    const std::string fault = Search(std::move(operations)).run();
    if (!fault.empty()) text += (text.empty() ? "" : "\n") + fault;
  }
  return text;
}

}  // namespace unisono::testing
