// What a Roster and its thread share. The functions are the thread's, but for key() and post(). See roster.hpp.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include "base/descriptor.hpp"
#include "base/fork.hpp"
#include "rendezvous/roster.hpp"

namespace unisono {

struct Roster::Talk {
  enum class Manner { set, claim, propose, remove, withdraw };
  struct Entry {
    Manner manner;
    std::string key, value = {};
  };
  using Answers = std::vector<distributed::StoreAnswer>;
  using Requests = std::vector<distributed::StoreRequest>;

  Talk(MeetingStore meeting, const Deadline& deadline, int rank);

  std::string key(std::string_view round, int number = 0) const { return meeting_key(meeting_.prefix, round, number); }
  void post(std::vector<Entry> entries);
  void run(const std::stop_token& stop);
  Status talk(const std::vector<Entry>& entries, const std::vector<std::string>& awaited);
  Result<Answers> ask(const Requests& requests);  // InitError where the store is lost
  Status open(const std::stop_token& stop);
  Status look_whether_it_runs(const std::stop_token& stop);
  Status write(const std::vector<Entry>& entries);
  Status insist(const Entry& claim, std::string found);
  Status look();
  Status await(const std::vector<std::string>& awaited);
  Status check_decided(const std::vector<std::string>& keys);
  void rest(const std::vector<std::string>& awaited);
  Status hear_reason(const std::string& text);
  void tell();

  // roster_missing.cpp
  Status look_who_is_missing(const std::vector<std::string>& awaited);
  Status look_after_agents(const std::vector<Seat>& seats, Missing& missing);
  Result<std::map<int, std::string>> lost_agents(const std::vector<int>& agents);

  MeetingStore meeting_;  // how to open the store is the thread's, and goes with it: it may be what holds a store that this process serves
  const Deadline deadline_;
  const int rank_;  // of the agent
  const Descriptor news_;
  const ForkMark fork_mark_;

  struct Sighting {
    std::string sign;
    int64_t since_ns = 0;
  };
  std::shared_ptr<distributed::Store> store_;  // the thread's, as what follows
  double look_s_;
  int64_t signs_given_ = 0;           // that this agent is there
  Deadline gives_sign_{0};            // again
  std::map<int, Sighting> sightings_;  // of other agents, by rank

  std::mutex mutex_;  // guards what follows
  std::condition_variable wanted_, changed_;
  std::vector<Entry> to_enter_;
  std::vector<std::string> awaited_, entered_;
  std::map<int, std::string> claimed_;  // by rank, its seat as this agent said it last
  std::optional<std::vector<std::string>> found_;
  std::optional<Missing> missing_;
  std::string taken_, dispute_, last_dispute_;
  Status state_, failure_;
  bool is_open_ = false, is_over_ = false, is_running_ = false, stops_ = false, has_ended_ = false, asks_who_is_missing_ = false;
};

}  // namespace unisono
