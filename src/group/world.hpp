// Everything one process holds to speak with the others: settings, arena, neighbours, groups, and two threads: one makes
// progress on asynchronous calls, one watches for death. Thread-safe.
//
// Order: the maps and lists are under the mutex; groups_version_ is added to with release after they changed, so that the
// progress thread, which loads it with acquire, takes a fresh copy. How its sleep is ended: world_threads.cpp. Which ranks are
// readable any thread may say; nothing hangs on when the others see it.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.hpp"
#include "base/fork.hpp"
#include "base/log.hpp"
#include "group/death_watch.hpp"
#include "group/group.hpp"
#include "group/host_watch.hpp"
#include "group/making.hpp"
#include "group/remotes.hpp"
#include "planner/planner.hpp"
#include "rendezvous/join.hpp"
#include "transport/arena.hpp"
#include "transport/interfaces.hpp"
#include "transport/router.hpp"
#include "transport/waiting.hpp"
#include "trust/secret.hpp"
#include "unisono/settings.hpp"

namespace unisono {

inline constexpr std::string_view world_group_name = "unisono_world_group";

class LateVisitors;

struct WorldOptions {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string job;
  std::string launcher;
  Settings settings;
  Deadline join_by = {};          // otherwise as the settings say
  MeetingStore store = {};        // by which ranks of several machines meet; none: all are on this one
  std::function<Result<Address>()> meeting_point = {};  // towards which this machine's address is chosen; none: any
  std::string hint = {};          // for the user, where ranks are missing
  std::function<void(int rank)> note_left = {};  // told by rank 0 who has left, for whoever comes to the place where the ranks met; goes when this rank leaves
  Descriptor meeting_file = {};  // that gives the job its name; open for as long as the job may be met by that name
  std::optional<Secret> secret = {};  // handed out for this world; otherwise the process's own
  Status refusal = {};           // why this rank will not join: then it only tells the others so
};


struct GroupOptions {
  std::optional<double> timeout_s = {};  // otherwise as the world's
  int run_ahead = 0;     // calls that a rank which only gives may be ahead of the others; the same on all members
  Deadline made_by = {};  // otherwise as for a call
  std::optional<bool> reproducible = {};  // otherwise as the world's
  bool numbered = false;  // the name is one that all members make alike, new for every group
};

struct ShrinkOptions {
  std::vector<int> excluded = {};  // world ranks that are left out though they live; they take no part
  std::string name = {};           // of the smaller group; otherwise one that all members make alike
  GroupOptions group = {};
};

class World : public std::enable_shared_from_this<World> {
 public:
  static Result<std::shared_ptr<World>> join(WorldOptions options);
  ~World();
  World(const World&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const WorldOptions& options() const { return options_; }
  const Settings& settings() const { return options_.settings; }
  const Log& log() const { return log_; }
  bool forked() const { return fork_mark_.forked(); }
  // Whether this process may read that rank's private memory: tried when joining, and given up when the kernel refuses it later.
  bool may_read(int rank) const { return readable_[static_cast<size_t>(rank)].load(std::memory_order_relaxed); }
  void stop_reading(int rank) { readable_[static_cast<size_t>(rank)].store(false, std::memory_order_relaxed); }
  bool crowded() const { return policy_.crowded; }
  int cores() const { return cores_; }
  int64_t arena_taken_bytes() const { return arena_->taken_bytes(); }
  const WaitPolicy& wait_policy() const { return policy_; }
  const PlannerRules& planner_rules() const { return rules_; }
  Ways ways() const { return {streams_, sockets_.get(), fabric_.get()}; }
  const Hosts& hosts() const { return request_.hosts; }
  const Neighbour& neighbour(int rank) const { return joined_.neighbours[static_cast<size_t>(rank)]; }
  Remotes* remotes() const { return remotes_.get(); }  // null: all ranks are on this host

  std::shared_ptr<Group> world_group() const { return world_group_; }
  // Called by the members; `ranks` are in the order that gives group ranks. Waits until all of them have come.
  Result<std::shared_ptr<Group>> create_group(const std::string& name, const std::vector<int>& ranks, const GroupOptions& options = {});
  Result<std::shared_ptr<Group>> shrink_group(Group& group, const ShrinkOptions& options);  // called by those members who are left
  std::shared_ptr<Group> find_group(const std::string& name) const;  // null: there is none
  Status destroy_group(const std::string& name);
  Status check_members(const std::string& name, const std::vector<int>& ranks) const;  // ok, or why there can be no such group

  // Zeroed memory that all ranks of this machine have mapped, for as long as somebody holds it.
  Result<std::shared_ptr<std::byte>> share_memory(int64_t bytes);
  void note_waiting(const std::string& call);  // for others who ask what this rank is doing; empty: it goes on
  void close_in_child();         // in a forked child, inside fork()
  void say_exiting(int status);  // the process is about to exit without leaving
  void say_last_words(const std::string& why);  // why it is about to end: others hear it with the news that this rank is gone
  std::string last_words(int rank) const;       // " after ValueError: a bad batch", or nothing
  Seat seat_of(int rank) const;  // without its addresses
  // Where ranks are on several machines: the digest of all seats, and this rank's own. Otherwise nothing.
  std::optional<std::pair<std::string, Seat>> place_between_machines() const;
  void leave(const Deadline& by = {});  // ends membership in all groups; calls after it are StateErrors
  std::string how_lost(int rank) const;  // "" while it lives
  bool has_ended(int rank) const;        // whether its process has, also where the control thread has not come to it yet
  bool is_in_doubt(int rank) const;      // on another host, and nothing more comes from it: soon how_lost() says what became of it
  bool is_silent(int rank) const;        // its host is: what it had sent and has not come will not come
  void wake_progress();
  void wake_control();

 private:
  explicit World(WorldOptions options);
  Status open();
  Status prepare();
  Status parse_address_settings();
  Status prepare_sockets(std::vector<Address> at, std::shared_ptr<const Trust> trust);
  Result<Sockets*> listen(const std::string& world);
  std::function<void(const std::string&)> tell_of_refusals() const;
  void settle_policy();
  Status start_threads();
  Status make_world_group();
  void run_progress();
  void run_control();
  template <typename Work>
  void run_until_stopped(const char* name, Work work);
  void progress_until_stopped();
  void control_until_stopped(LateVisitors& visitors, Deadline& door_rests);
  Status watch_others();
  void member_lost(int rank, const std::string& how);
  // group/world_remotes.cpp: what ranks on other hosts tell
  void hear_remotes();
  void heard(int from, const Notice& notice);
  void heard_entry(int from, const Notice& notice);
  void heard_of_group(int from, const Notice& notice);
  bool pass_on(int from, const Notice& notice);
  void apply_early(Group& group);
  Notice left_before_it_began(uint64_t group) const;
  struct Doubt {  // about a rank on another host, until all that it told has been heard, and how it ended
    int64_t since_ns;
    bool ended = false;    // its connection has
    std::string how = {};  // as one of its host says
    std::string why = {};  // nothing opens a new one
    bool is_said = false;  // in the log
  };
  void judge_doubts();
  Doubt& doubt(int rank);
  bool may_clear_up(int rank, const Doubt& doubt) const;
  bool is_refused(int rank) const;
  // group/world_hosts.cpp: hosts that fall silent
  void look_after_hosts();
  bool is_watcher() const;
  void host_silent(int host, int seen_by);
  std::string how_silent(int host, int seen_by) const;
  void tell_owed();
  void say_goodbye(const std::string& how);
  void tell_entry(const BoardEntry& entry, const std::vector<int>& ranks);
  Group::Share progress_all(std::vector<std::shared_ptr<Group>>& groups, uint32_t& version);
  void sweep_retired();
  template <typename Tell>
  void for_each_group(Tell tell) {  // under the mutex, also those that are being or have been left
    for (auto& entry : groups_) tell(*entry.second);
    for (auto& group : leaving_) tell(*group);
    for (auto& group : retired_) tell(*group);
  }
  void look_after_idle_groups();
  Result<std::shared_ptr<Group>> try_group(const std::string& name, const std::vector<int>& ranks, const GroupOptions& options,
                                           const Status& refusal);
  GroupParts parts_of(const std::string& name, const std::vector<int>& ranks, const GroupOptions& options);
  // group/world_board.cpp
  Status prepare_group(GroupParts& parts, const GroupOptions& options);
  Status board_take_time(GroupParts& parts);
  Status board_publish(const GroupParts& parts, int64_t lane);
  void board_refuse(const GroupParts& parts, const Status& why);
  Status board_collect(GroupParts& parts, const Deadline& deadline);
  bool has_made(const GroupParts& parts, size_t member) const;
  std::atomic<uint32_t>* lane_marks(const GroupParts& parts) const;
  void sweep_failed();
  void board_give_up(GroupParts&& parts, const Status& why);
  void board_remove(const BoardKey& key, const std::vector<int>& ranks);
  ArenaHead& head() const { return *reinterpret_cast<ArenaHead*>(arena_->mapping()->data()); }

  WorldOptions options_;
  Log log_;
  ForkMark fork_mark_;
  JoinRequest request_;
  std::shared_ptr<Arena> arena_;  // shared tensors may outlive the World
  Joined joined_;
  WaitPolicy policy_;
  PlannerRules rules_;
  int cores_ = 1;
  uint64_t private_probe_ = 0;  // what neighbours try to read: see can_read_memory_of
  std::vector<std::atomic<bool>> readable_;  // by rank
  bool left_ = false;
  std::shared_ptr<Group> world_group_;
  Making making_;

  mutable std::mutex mutex_;  // guards the maps and lists below
  std::map<std::string, std::shared_ptr<Group>> groups_;
  std::vector<std::shared_ptr<Group>> leaving_;  // being left by us: what is told of them still counts
  std::vector<std::shared_ptr<Group>> retired_;  // left by us, not yet by everybody
  std::vector<GroupParts> failed_;               // tries in vain whose lanes others may still know
  std::string met_as_;                           // the digest of all seats, where ranks are on several machines
  std::vector<std::string> lost_;                // by rank: how it was lost
  std::set<int> silent_hosts_;
  std::deque<Remotes::Heard> early_;             // notices about groups that are being made here
  std::atomic<uint32_t> groups_version_{0};

  StreamChoice streams_;
  InterfacePattern interfaces_;      // that this rank may listen at
  std::vector<Address> advertised_;  // that others are told instead
  PortRange ports_;
  std::unique_ptr<Sockets> sockets_;
  std::unique_ptr<Fabric> fabric_;  // where this rank has one
  std::unique_ptr<Remotes> remotes_;
  std::unique_ptr<HostWatch> host_watch_;  // the control thread's
  std::map<int, Doubt> doubts_;  // by rank; the control thread's
  Remotes::News news_;           // that has come and not been dealt with, likewise
  std::unique_ptr<DeathWatch> death_watch_;
  Descriptor wake_;  // an eventfd that wakes the control thread
  std::atomic<bool> stopping_{false};
  enum class ProgressSleep { none, idle, on_bell };
  std::atomic<uint32_t> progress_wanted_{0};
  std::atomic<ProgressSleep> progress_sleep_{ProgressSleep::none};
  std::thread progress_thread_, control_thread_;
};

}  // namespace unisono
