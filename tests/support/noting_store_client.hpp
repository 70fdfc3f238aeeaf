// Clients of a TCPStore who do what a seed says and note what they did and were told, in memory that outlives them.
//
// Who writes: each client its own operations, and Signs as said there. Order: the start of an operation is stored before its end, so that what a killed
// client leaves is true; all others would do with relaxed.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <string>

#include "tests/support/outcomes.hpp"
#include "tests/support/store_history.hpp"
#include "tests/support/store_master.hpp"
#include "tests/torture/dice.hpp"

namespace unisono::testing {

struct StoreClients {
  static constexpr int count = 6;
  static constexpr int operations = 40, most_operations = 4000;       // of each until all have finished; also with those while the end is awaited
  static constexpr int count_key = 0, compare_set_key = 1, keys = 3;  // the third is for everything
  static constexpr double impatience_s = 0.03;

  struct Signs {
    std::atomic<int> ready, finished[count];  // by the clients
    std::atomic<int64_t> ended;               // operations of all, by the clients
    std::atomic<bool> is_calm, is_last;       // by the test: nothing is cut any more; the master is about to end
    std::atomic<int64_t> killed_ns;           // the master, by the test
  };

  SharedArray<Signs> all_signs{1};
  SharedArray<StoreOperation> notes{count * most_operations};

  Signs& signs() const { return all_signs[0]; }
  std::vector<StoreOperation> history() const {
    std::vector<StoreOperation> history;
    for (int note = 0; note < count * most_operations; ++note)
      if (notes[note].started_ns != 0) history.push_back(notes[note]);
    return history;
  }
};

inline int64_t number_of(const std::string& text) { return text.empty() ? 0 : std::stoll(text); }
inline std::string text_of_number(int64_t number) { return number == 0 ? "" : std::to_string(number); }

inline int64_t perform(TCPStore& store, const StoreOperation& operation) {
  using What = StoreOperation::What;
  const std::string key = fmt::format("key {}", operation.key);
  if (operation.what == What::add) return store.add(key, operation.value);
  if (operation.what == What::compare_set) return number_of(store.compare_set(key, text_of_number(operation.expected), text_of_number(operation.value)));
  if (operation.what == What::set) return store.set(key, text_of_number(operation.value)), 0;
  if (operation.client % 2 == 0) return number_of(store.get(key));  // waits where there is nothing yet
  auto answers = store.perform({{.kind = distributed::StoreRequest::Kind::get, .key = key}});
  throw_if_error(answers.status());
  return number_of(answers->front().value);
}

// Notes the start before anything is said and the end after it was answered, for whoever finds what a killed client left.
inline ErrorCode perform_noted(TCPStore& store, const StoreOperation& operation, StoreOperation& note) try {
  note = operation;
  std::atomic_ref(note.started_ns).store(now_ns(), std::memory_order_release);
  note.result = perform(store, operation);
  std::atomic_ref(note.ended_ns).store(now_ns(), std::memory_order_release);
  return ErrorCode::ok;
} catch (const Error& error) {
  EXPECT_TRUE(error.code() == ErrorCode::store_lost || error.code() == ErrorCode::timeout) << error.what();
  return error.code();
}

class NotingStoreClient {
 public:
  NotingStoreClient(const StoreClients& all, int number, uint64_t seed) : all_(all), number_(number), dice_(seed * 100 + static_cast<uint64_t>(number)) {}

  void run(int port) {
    StoreClients::Signs& signs = all_.signs();
    store_ = user_of(port);
    store_->set_timeout(StoreClients::impatience_s);
    ++signs.ready;
    EXPECT_TRUE(await([&] { return signs.ready == StoreClients::count; }));
    while (count_ < StoreClients::operations) operate();
    signs.finished[number_] = 1;
    EXPECT_TRUE(await([&] { return signs.is_last.load(); }));
    store_->set_timeout(60);
    ErrorCode code = ErrorCode::ok;
    EXPECT_TRUE(await([&] {
      code = number_ % 2 == 0 ? operate() : wait_in_vain();
      return code != ErrorCode::ok && signs.killed_ns != 0;
    }));
    EXPECT_EQ(code, ErrorCode::store_lost);
    EXPECT_LT(seconds_since(signs.killed_ns), 2);
  }

 private:
  ErrorCode operate() {
    constexpr int most = StoreClients::most_operations;
    EXPECT_LT(count_, most);
    StoreOperation& note = all_.notes[number_ * most + count_++ % most];
    const ErrorCode code = perform_noted(*store_, drawn(), note);
    if (note.is_answered() && note.what != StoreOperation::What::set) last_seen_[note.key] = note.result;
    ++all_.signs().ended;
    return code;
  }

  StoreOperation drawn() {
    using What = StoreOperation::What;
    StoreOperation operation{.client = number_, .key = dice_.between(0, StoreClients::keys - 1)};
    const auto unique = [this] { return 1'000'000 * (number_ + 1) + 100 * count_; };
    operation.what = operation.key == StoreClients::count_key ? dice_.one_of({What::add, What::add, What::get}) :
                     operation.key == StoreClients::compare_set_key ? dice_.one_of({What::compare_set, What::compare_set, What::get}) :
                     dice_.one_of({What::add, What::set, What::compare_set, What::get});
    operation.value = operation.what == What::add ? 1 : operation.what == What::get ? 0 : unique();
    if (operation.what == What::compare_set) operation.expected = last_seen_[operation.key];
    return operation;
  }

  ErrorCode wait_in_vain() try {
    store_->wait({"never"});
    return ErrorCode::ok;
  } catch (const Error& error) {
    return error.code();
  }

  const StoreClients& all_;
  int number_, count_ = 0;
  int64_t last_seen_[StoreClients::keys] = {};
  Dice dice_;
  std::shared_ptr<TCPStore> store_;
};

}  // namespace unisono::testing
