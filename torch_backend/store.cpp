// Torch's stores, seen from the library; see store.hpp.
#include "torch_backend/store.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

namespace unisono::torch_backend {
namespace {

using distributed::StoreAnswer;
using distributed::StoreRequest;
using Kind = StoreRequest::Kind;

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

Result<std::vector<std::string>> TorchStore::await_values(const std::vector<std::string>& keys, double timeout_s) {
  return caught<std::vector<std::string>>([&] {
    store_->wait(keys, milliseconds(timeout_s));
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(text_of(store_->get(key)));
    return values;
  });
}

}  // namespace unisono::torch_backend
