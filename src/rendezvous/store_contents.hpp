// What a store holds, and what a request does to it: the same for every kind of store.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "unisono/status.hpp"
#include "unisono/store.hpp"

namespace unisono {

// A change of one key; a value. The numbers are those of the file that FileStore writes.
struct StoreEdit {
  enum class Kind : uint32_t {
    set = 1,
    erase = 2,
    append = 3,
    users = 4,  // no key; the value is a StoreUsers
  };
  Kind kind = Kind::set;
  std::string key, value;
};

struct StoreUsers {
  int64_t attached = 0;  // who hold the store now
  int64_t finished = 0;  // who have let go of it so far
};

struct StoreContents {
  std::unordered_map<std::string, std::string> values;
  StoreUsers users;
};

// What the request is answered, and what it changes, if anything.
struct StoreDecision {
  distributed::StoreAnswer answer;
  std::optional<StoreEdit> edit;
};

bool may_change(const distributed::StoreRequest& request);
Result<StoreDecision> decide(const distributed::StoreRequest& request, const StoreContents& contents);
void enact(const StoreEdit& edit, StoreContents& contents);

// All values, or nothing where a key is missing.
std::optional<std::vector<std::string>> values_of(const std::vector<std::string>& keys, const StoreContents& contents);
// TimeoutError that names the missing keys, of so many that were asked for.
Status missing_keys(const std::vector<std::string>& missing, size_t asked_for, double timeout_s);
Status missing_keys(const std::vector<std::string>& keys, const StoreContents& contents, double timeout_s);
Status interrupted_while_waiting(const std::vector<std::string>& keys);

}  // namespace unisono
