// Who takes part in a world that may span machines, through a store that all of them reach. One process of every machine, its agent, says for
// all ranks there who they are, and learns of the others: the store serves machines, not ranks.
//
//   Entries are written in rounds, each under numbers of its own: the seats of ranks; then one digest of all seats, by which the agents agree on
//   them; then, where they are on several machines, where each rank listens; then which machines reach which; then which are ready. A round is over when all of its
//   entries are there. Whoever gives up says so instead. Whoever finds its rank claimed by another machine says that, too, and claims it all
//   the same: the other may be dead, and if it lives it will object. An agent whose rank ends while others are still awaited says so in that rank's seat, which
//   is then free.
//
// What others wrote is not believed further than it has to be: entries are short, are checked before use, and name nothing but addresses; who answers
// there has to prove that it has the job's secret.
//
// A thread of its own opens the store and talks to it, which may take its time, while the agent goes on hearing its guests. Used by one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "unisono/status.hpp"
#include "unisono/store.hpp"

namespace unisono {

// Where the agents of machines meet; a value. Without a way to open one, all ranks are on one machine.
struct MeetingStore {
  std::function<Result<std::shared_ptr<distributed::Store>>(const std::stop_token&)> open = {};  // called once, by the agent, on another thread
  std::string prefix = {};         // of the meeting's keys
  bool ends_with_meeting = false;  // rank 0 serves it, for this world alone; otherwise it is a user's, and nothing is left in it

  explicit operator bool() const { return open != nullptr; }
};

inline constexpr size_t most_entry_bytes = 1024;  // of whatever stands in the store

// One rank, as its agent tells of it; a value. Its addresses are empty as long as nobody needs them.
struct Seat {
  int size = 1;  // of the world, as that rank was told
  int rank = 0, pid = 0;
  uint64_t probe = 0;     // what its arena reads; of whoever connects to it, it asks for that
  uint64_t machine = 0;   // a number that the machine's agent drew
  std::string host = {};  // the machine's name, for errors
  int agent = 0;          // the rank that is that agent
  bool encrypt = false;      // UNISONO_ENCRYPT, which all ranks must have alike
  int sockets_per_peer = 1;  // likewise
  int fabric = 0;            // a FabricHere: all look for one, or none does
  std::string addresses = {};

  std::string text() const;
  std::string who() const;  // "pid 12 on two"
  bool is_same(const Seat& other) const { return rank == other.rank && pid == other.pid && probe == other.probe && machine == other.machine; }
  static std::optional<Seat> parse(std::string_view text);            // nothing but what text() writes
  static std::optional<std::string> version_of(std::string_view text);  // of the library that wrote it, whatever else it wrote
  std::string ended_text() const;                                       // in the same place, when that process has ended before all had come
  static std::optional<Seat> parse_ended(std::string_view text);        // nothing but what that writes
};

// Who has not come, or came and is gone; a value.
struct Missing {
  std::vector<int> numbers = {};       // of entries, in order
  std::vector<std::string> gone = {};  // of those that came, a clause for each: "rank 2 (pid 12 on two) came and has ended"

  void add(int number, std::string how);
};

// The keys of a meeting: a round of it, and the number of an entry there.
std::string meeting_key(std::string_view prefix, std::string_view round, int number);

// Why ranks cannot meet whose store is lost.
Status meeting_store_lost(const Status& why);

// What give_up() writes, and what it means, whoever wrote it.
std::string text_of_reason(const Status& why);
Status reason_to_give_up(std::string_view text);

std::string name_of_this_machine();  // as its kernel has it

class Roster {
 public:
  Roster(MeetingStore store, const Deadline& deadline, int rank);
  Roster(const Roster&) = delete;
  ~Roster();  // waits a second for what is being said, but not long beyond the deadline, and leaves behind a store that does not answer

  Status started() const { return no_thread_; }  // else it can only give up
  void claim(int rank, std::string seat);
  void withdraw(int rank);  // that was claimed: its process has ended, and another may take its place
  void propose(std::string digest);
  void enter(const std::string& round, int number, std::string text);
  void await(const std::string& round, int count);  // all of its entries; one round at a time
  // For everybody; the ranks of this machine have heard it. In a store that rank 0 serves it is heard once: who has heard it and comes again waits for the next store.
  void give_up(const Status& why, const std::vector<int>& here);
  void await_told(const Deadline& deadline);        // until that stands in the store, if it can be reached
  void finish(bool also_what_is_nobodys);           // everybody has read everything: this agent's entries go
  std::optional<std::vector<std::string>> entries();  // of the round that is awaited, once all are there
  Status state();                                     // why it cannot be: another gave up, or the store is lost
  bool is_over();                                     // the store is that of a world which was complete before this agent came, or of an attempt whose failure it has heard of
  Status failure();                                   // that one
  bool is_running();                                  // and which the agent's own rank is in: taken() is its seat
  std::string taken();                                // a seat that stood where this agent claimed one; empty: none
  std::string take_dispute();                         // the seat of an agent that found its rank taken, once
  void ask_who_is_missing();                          // once, for who waits long; shortly before the deadline it is asked anyhow
  std::optional<Missing> missing();                   // what came of it, of the round that is awaited
  int descriptor() const;                             // readable once any of them is there

 private:
  void end_talk(bool also_what_is_nobodys);  // under the mutex
  struct Talk;  // what the thread shares, which may outlive this object
  std::shared_ptr<Talk> talk_;
  std::stop_source stop_;
  std::thread thread_;
  Status no_thread_;  // why there is none: then give_up() speaks on its caller's
};

}  // namespace unisono
