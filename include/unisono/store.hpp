// Stores: a few keys with their values that all ranks of a job can reach, by which they find each other and agree on small
// things. What each kind is for, and what happens when one is lost: docs/stores.md. All functions may be called from any
// thread, and each happens as a whole. Errors are thrown: see status.hpp.
//
// A value is a std::string used as a row of bytes, zeros included: literals, numbers as text and other values convert to it
// by themselves, and a language binding hands it over as its own type of bytes without a copy in between.
//
// Who writes: set_timeout() writes timeout_s_. Order: relaxed, for nothing else depends on that number.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/status.hpp"

namespace unisono {
class FileLog;
struct TcpStoreMaker;
}

#pragma GCC visibility push(default)
namespace unisono::distributed {

// One thing that is asked of a store; a value. Fields that a kind does not name are not looked at.
struct StoreRequest {
  enum class Kind : uint8_t {
    get,          // key; answers found and value
    check,        // key; answers found
    set,          // key, value
    add,          // key, amount; answers number
    append,       // key, value
    compare_set,  // key, expected, value; answers value
    delete_key,   // key; answers found
    num_keys,     // answers number
  };
  Kind kind = Kind::get;
  std::string key = {};
  std::string value = {};
  std::string expected = {};
  int64_t amount = 0;
};

struct StoreAnswer {
  bool found = false;
  std::string value = {};
  int64_t number = 0;
};

// From where a store can be used; a value.
struct StoreReach {
  bool other_machines = false;  // otherwise it is for the processes of one
  std::string host = {};        // by which other machines reach it, where that is known
};

class Store {
 public:
  virtual ~Store() = default;

  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key);  // waits until the key is there; TimeoutError names it
  // Adds to a whole number that is kept as text, 0 where the key is absent, and returns the sum.
  int64_t add(const std::string& key, int64_t amount);
  // Sets `desired` where the value is `expected`, or where the key is absent and `expected` is empty. Returns the value that
  // stands afterwards; `expected` where the key is absent and stays so.
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);
  // Returns once all keys are there; TimeoutError names those that are not. Without a timeout: the store's.
  void wait(const std::vector<std::string>& keys, std::optional<double> timeout_s = {});
  bool check(const std::vector<std::string>& keys);  // whether all of them are there
  bool delete_key(const std::string& key);           // whether it was there
  int64_t num_keys();
  void append(const std::string& key, const std::string& value);  // to what is there, if anything
  std::vector<std::string> multi_get(const std::vector<std::string>& keys);  // waits until all of them are there
  void multi_set(const std::vector<std::string>& keys, const std::vector<std::string>& values);  // all at once

  virtual double timeout() const { return timeout_s_.load(std::memory_order_relaxed); }  // in seconds; 300 unless set
  virtual void set_timeout(double seconds);  // more than 0; infinity waits for as long as it takes

  // Whether ranks of several machines can meet by it. A kind that does not say so is for one machine.
  virtual StoreReach reach() const { return {}; }

  // What a kind of store is made of; the functions above say the same with exceptions.
  // Performs the requests one after the other, with nothing of others in between. An error ends them; those before it stand.
  virtual Result<std::vector<StoreAnswer>> perform(const std::vector<StoreRequest>& requests) = 0;
  // The values of all keys as they were at one moment, as soon as all are there.
  virtual Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) = 0;

 protected:
  Store() = default;
  Store(const Store&) = delete;

 private:
  std::atomic<double> timeout_s_{300};
};

// For the threads of one process.
class HashStore : public Store {
 public:
  HashStore();
  ~HashStore() override;
  Result<std::vector<StoreAnswer>> perform(const std::vector<StoreRequest>& requests) override;
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) override;

 private:
  struct Table;
  std::unique_ptr<Table> table_;
};

// A part of another store: every key gets "prefix/" in front. As in torch, the timeout is that of the other store, and
// num_keys() counts all of its keys.
class PrefixStore : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);
  const std::shared_ptr<Store>& underlying_store() const { return store_; }
  double timeout() const override { return store_->timeout(); }
  void set_timeout(double seconds) override { store_->set_timeout(seconds); }
  StoreReach reach() const override { return store_->reach(); }
  Result<std::vector<StoreAnswer>> perform(const std::vector<StoreRequest>& requests) override;
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) override;

 private:
  std::string with_prefix(const std::string& key) const { return prefix_ + "/" + key; }

  std::string prefix_;
  std::shared_ptr<Store> store_;
};

// For the processes of one machine and one user, over one file, which is made if absent. When `world_size` users have let go
// of it and nobody holds it, the last one removes the file; with -1 it stays.
class FileStore : public Store {
 public:
  // AuthError for a file of another user, ArgumentError for one that is no store, StoreLostError where it cannot be opened.
  explicit FileStore(const std::string& path, int world_size = -1);
  ~FileStore() override;
  const std::string& path() const;
  Result<std::vector<StoreAnswer>> perform(const std::vector<StoreRequest>& requests) override;
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) override;

 private:
  std::unique_ptr<FileLog> log_;
  int world_size_;
};

struct TCPStoreOptions {
  std::optional<int> world_size = {};  // how many users there will be, where that is known
  bool is_master = false;              // this user serves the keys, too, for as long as it lives
  double timeout_s = 300;              // of connecting, and from then on timeout()
  bool wait_for_workers = false;       // the master returns once `world_size` users have connected, itself among them
  std::string job = "store";           // who has another job is refused, with the same secret, too
};

// For the processes of many machines: one of them, the master, keeps the keys and listens; all speak TLS 1.3 with it, by the job's secret.
// Lost when the master is gone: StoreLostError. Bounds, faults and where the secret comes from: docs/stores.md.
class TCPStore : public Store {
 public:
  // The host is an address or a name; the master listens at exactly that address, at a free port for 0. Others wait for the master to come.
  // TimeoutError: it did not. AuthError: no secret, or another one, or another job. InitError: the master cannot listen there.
  TCPStore(const std::string& host, int port, const TCPStoreOptions& options = {});
  ~TCPStore() override;
  const std::string& host() const;  // as it was given
  int port() const;
  StoreReach reach() const override { return {true, host()}; }
  Result<std::vector<StoreAnswer>> perform(const std::vector<StoreRequest>& requests) override;
  Result<std::vector<std::string>> await_values(const std::vector<std::string>& keys, double timeout_s) override;

 private:
  friend struct unisono::TcpStoreMaker;
  struct Parts;
  explicit TCPStore(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace unisono::distributed
#pragma GCC visibility pop
