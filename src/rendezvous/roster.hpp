// Who takes part in a world that may span machines, through a store that all of them reach. One process of every machine, its agent, says for
// all ranks there who they are, and learns of the others: the store serves machines, not ranks.
//
//   Entries are written in rounds, each under numbers of its own: the seats of ranks; then, where they are on several machines, where each rank
//   listens; then which machines reach which; then which are ready. A round is over when all of its entries are there. Whoever gives up says so instead.
//
// What others wrote is not believed further than it has to be: entries are short, are checked before use, and name nothing but addresses; who answers
// there has to prove that it has the job's secret.
//
// A thread of its own talks to the store, which may take its time, while the agent goes on hearing its guests. Used by one thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "unisono/status.hpp"
#include "unisono/store.hpp"

namespace unisono {

// One rank, as its agent tells of it; a value. Its addresses are empty as long as nobody needs them.
struct Seat {
  int rank = 0, pid = 0;
  uint64_t probe = 0;    // what its arena reads; of whoever connects to it, it asks for that
  uint64_t machine = 0;  // a number that the machine's agent drew
  int agent = 0;         // the rank that is that agent
  std::string addresses = {};

  std::string text() const;
  static std::optional<Seat> parse(std::string_view text);  // nothing but what text() writes
};

// As give_up() wrote it, or whoever else did.
Status reason_to_give_up(std::string_view text);

class Roster {
 public:
  Roster(std::shared_ptr<distributed::Store> store, std::string prefix, const Deadline& deadline);
  Roster(const Roster&) = delete;
  ~Roster();  // ends within the store's patience, a fraction of a second

  void enter(const std::string& round, int number, std::string text);
  void await(const std::string& round, int count);  // all of its entries; one round at a time
  void give_up(const Status& why);                  // for everybody
  std::optional<std::vector<std::string>> entries();  // of the round that is awaited, once all are there
  Status state();                                     // why it cannot be: another gave up, or the store is lost
  std::vector<int> missing();                         // numbers of entries that were not there shortly before the deadline
  int descriptor() const { return news_.number(); }   // readable once either of them is there

 private:
  struct Entry {
    std::string key, value;
  };
  void run();
  Status talk(const std::vector<Entry>& entries, const std::vector<std::string>& awaited);
  std::string key(const std::string& round, int number) const;
  Status look_who_is_missing(const std::vector<std::string>& awaited);
  void tell(Status status, std::optional<std::vector<std::string>> found);

  std::shared_ptr<distributed::Store> store_;
  std::string prefix_;
  Deadline deadline_;
  Descriptor news_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::vector<Entry> to_enter_;
  std::vector<std::string> awaited_;
  std::optional<std::vector<std::string>> found_;
  std::vector<int> missing_;
  Status state_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace unisono
