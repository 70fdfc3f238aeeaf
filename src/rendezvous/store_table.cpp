// See store_table.hpp.
#include "rendezvous/store_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "rendezvous/store_frames.hpp"

namespace unisono {
namespace {

using distributed::StoreAnswer;
using distributed::StoreRequest;

constexpr size_t pair_bytes = 64;

}  // namespace

// What the store would hold; ResourceError where that is too much.
Result<size_t> StoreTable::bytes_after(const StoreEdit& edit) const {
  const auto entry = contents_.values.find(edit.key);
  const bool is_there = entry != contents_.values.end();
  const size_t before = is_there ? edit.key.size() + entry->second.size() + pair_bytes : 0;
  const size_t value = edit.value.size() + (edit.kind == StoreEdit::Kind::append && is_there ? entry->second.size() : 0);
  const size_t after = edit.kind == StoreEdit::Kind::erase ? 0 : edit.key.size() + value + pair_bytes;
  if (value > most_value_bytes)
    return Status(ErrorCode::resource, fmt::format("the value of \"{}\" would have {} bytes; the store takes {}", edit.key, value,
                                                   readable_size(most_value_bytes)));
  if (!is_there && after > 0 && contents_.values.size() >= caps_.keys)
    return Status(ErrorCode::resource, fmt::format("the store is full: it has {} keys and takes no more", contents_.values.size()));
  if (after > before && after - before > caps_.bytes - std::min(caps_.bytes, bytes_))
    return Status(ErrorCode::resource, fmt::format("the store is full: it holds {}, takes {}, and \"{}\" needs {} bytes more", readable_size(bytes()),
                                                   readable_size(static_cast<int64_t>(caps_.bytes)), edit.key, after - before));
  return bytes_ - before + after;
}

Status StoreTable::answerable(const std::vector<std::string>& keys) const {
  size_t bytes = 0;
  for (const std::string& key : keys) bytes += contents_.values.at(key).size();
  return bytes > most_frame_bytes ? too_large_an_answer(bytes) : Status::success();
}

Result<std::vector<StoreAnswer>> StoreTable::perform(const std::vector<StoreRequest>& requests) {
  std::vector<StoreAnswer> answers;
  std::vector<std::string> touched;
  Status refused;
  size_t answered_bytes = 0;
  for (const StoreRequest& request : requests) {
    auto decision = decide(request, contents_);
    refused = decision.status();
    if (refused.ok() && (answered_bytes += decision->answer.value.size()) > most_frame_bytes) refused = too_large_an_answer(answered_bytes);
    if (refused.ok() && decision->edit) {
      auto bytes = bytes_after(*decision->edit);
      refused = bytes.status();
      if (refused.ok()) {
        enact(*decision->edit, contents_);
        bytes_ = *bytes;
        if (lines_.contains(decision->edit->key)) touched.push_back(decision->edit->key);
      }
    }
    if (!refused.ok()) break;
    answers.push_back(std::move(decision->answer));
  }
  for (const std::string& key : touched) look_after(key);  // not before all of it is done
  if (!refused.ok()) return refused;
  return answers;
}

Result<std::optional<std::vector<std::string>>> StoreTable::await(uint64_t id, std::vector<std::string> keys) {
  Waiter waiter{std::move(keys)};
  if (!is_complete(waiter)) {
    Waiter& waits = waiters_[id] = std::move(waiter);
    stand_in_line(id, waits);
    return std::optional<std::vector<std::string>>();
  }
  RETURN_IF_ERROR(answerable(waiter.keys));
  return values_of(waiter.keys, contents_);
}

// From where it stood and round to there again: a key that it has passed may be gone meanwhile.
bool StoreTable::is_complete(Waiter& waiter) const {
  for (size_t looked = 0; looked < waiter.keys.size(); ++looked) {
    const size_t index = (waiter.at + looked) % waiter.keys.size();
    if (contents_.values.contains(waiter.keys[index])) continue;
    waiter.at = index;
    return false;
  }
  return true;
}

void StoreTable::look_after(const std::string& key) {
  const auto line = lines_.find(key);
  if (line == lines_.end() || !contents_.values.contains(key)) return;
  const std::vector<uint64_t> ids = std::move(line->second);
  lines_.erase(line);
  std::vector<std::string> keys;
  Values values;
  for (uint64_t id : ids) {
    Waiter& waiter = waiters_.at(id);
    if (!is_complete(waiter)) {
      stand_in_line(id, waiter);
      continue;
    }
    if (keys != waiter.keys) values = values_for(waiter.keys);
    keys = std::move(waiter.keys);
    woken_.push_back({id, values});
    waiters_.erase(id);
  }
}

StoreTable::Values StoreTable::values_for(const std::vector<std::string>& keys) const try {
  if (!answerable(keys).ok()) return nullptr;
  return std::make_shared<const std::vector<std::string>>(*values_of(keys, contents_));
} catch (const std::bad_alloc&) {
  return nullptr;
}

std::vector<uint32_t> StoreTable::missing(uint64_t id) const {
  std::vector<uint32_t> indices;
  const std::vector<std::string>& keys = waiters_.at(id).keys;
  for (uint32_t index = 0; index < keys.size(); ++index)
    if (!contents_.values.contains(keys[index])) indices.push_back(index);
  return indices;
}

void StoreTable::forget(uint64_t id) {
  const auto waiter = waiters_.find(id);
  if (waiter == waiters_.end()) return;
  const auto line = lines_.find(waiter->second.keys[waiter->second.at]);
  if (line != lines_.end() && std::erase(line->second, id) > 0 && line->second.empty()) lines_.erase(line);
  waiters_.erase(waiter);
}

std::vector<StoreTable::Woken> StoreTable::take_woken() { return std::move(woken_); }

}  // namespace unisono
