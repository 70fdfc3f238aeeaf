// Torch's stores, seen from the library; see store.hpp.
#include "torch_backend/store.hpp"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace unisono::torch_backend {
namespace {

using distributed::StoreAnswer;
using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

constexpr size_t most_bytes = size_t{32} << 20;  // of the values of one call, as of the library's own TCPStore

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::chrono::milliseconds milliseconds(double seconds) {
  constexpr double longest_s = 1e9;  // torch counts milliseconds in 64 bits and adds them to the time of day
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(std::min(seconds, longest_s) * 1000)));
}

// What torch's stores throw: DistStoreError when a wait has expired, and anything else when they are gone.
template <typename T, typename Function>
Result<T> caught(Function function) {
  try {
    return function();
  } catch (const c10::DistStoreError& error) {
    return Status(ErrorCode::timeout, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    return Status(ErrorCode::store_lost, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return Status(ErrorCode::store_lost, error.what());
  }
}

}  // namespace

double TorchStore::timeout() const { return static_cast<double>(store_->getTimeout().count()) * 1e-3; }
void TorchStore::set_timeout(double seconds) { store_->setTimeout(milliseconds(seconds)); }

distributed::StoreReach TorchStore::reach() const {
  c10::intrusive_ptr<c10d::Store> store = store_;
  while (auto* part = dynamic_cast<c10d::PrefixStore*>(store.get())) store = part->getUnderlyingStore();
  if (dynamic_cast<const c10d::FileStore*>(store.get()) || dynamic_cast<const c10d::HashStore*>(store.get())) return {};
  const auto* tcp = dynamic_cast<const c10d::TCPStore*>(store.get());
  return {true, tcp ? tcp->getHost() : std::string()};
}

StoreAnswer TorchStore::answer(const StoreRequest& request) {
  StoreAnswer answer;
  switch (request.kind) {
    case Kind::get:
      answer.found = store_->check({request.key});
      if (answer.found) answer.value = text_of(store_->get(request.key));
      break;
    case Kind::check: answer.found = store_->check({request.key}); break;
    case Kind::set: store_->set(request.key, bytes_of(request.value)); break;
    case Kind::add: answer.number = store_->add(request.key, request.amount); break;
    case Kind::append: store_->append(request.key, bytes_of(request.value)); break;
    case Kind::compare_set:
      answer.value = text_of(store_->compareSet(request.key, bytes_of(request.expected), bytes_of(request.value)));
      break;
    case Kind::delete_key: answer.found = store_->deleteKey(request.key); break;
    case Kind::num_keys: answer.number = store_->getNumKeys(); break;
  }
  return answer;
}

Result<std::vector<StoreAnswer>> TorchStore::perform(const std::vector<StoreRequest>& requests) {
  return caught<std::vector<StoreAnswer>>([&] {
    std::vector<StoreAnswer> answers;
    for (const StoreRequest& request : requests) answers.push_back(answer(request));
    return answers;
  });
}

// They are asked, after rests that grow with the time for which these keys are awaited, also by calls before this one: a wait of torch's that expires
// writes warnings into the log, and hears no Ctrl-C.
bool TorchStore::come_within(const std::vector<std::string>& keys, double timeout_s) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  constexpr double first_rest_s = 0.001, longest_rest_s = 0.25;
  const Clock::time_point start = Clock::now();
  if (awaited_ != keys) since_ = start;
  awaited_ = keys;
  while (!store_->check(keys)) {
    const double left_s = timeout_s - Seconds(Clock::now() - start).count();
    if (left_s <= 0) return false;
    std::this_thread::sleep_for(Seconds(std::min(left_s, std::clamp(Seconds(Clock::now() - since_).count() / 4, first_rest_s, longest_rest_s))));
  }
  return true;
}

Result<std::vector<std::string>> TorchStore::await_values(const std::vector<std::string>& keys, double timeout_s) {
  return caught<std::vector<std::string>>([&]() -> Result<std::vector<std::string>> {
    if (!come_within(keys, timeout_s)) return Status(ErrorCode::timeout, c10::str("waited ", timeout_s, " s for keys of torch's store, \"", keys.front(), "\" among them"));
    std::vector<std::string> values;
    size_t total = 0;
    for (const std::string& key : keys) {
      values.push_back(text_of(store_->get(key)));
      total += values.back().size();
      if (total > most_bytes) return Status(ErrorCode::resource, "the store holds more than 32 MiB under keys that were asked for, \"" + key + "\" among them");
    }
    return values;
  });
}

}  // namespace unisono::torch_backend
