// The one World that both dialects of a process share, and how their parameters find a Group in it.
#pragma once

#include <memory>
#include <string>

#include "group/launch.hpp"
#include "unisono/group.hpp"

namespace unisono {

bool has_world();  // false in a forked child of a rank, which has none
std::shared_ptr<World> current_world(const char* wanted_for);  // StateError naming the function to call first
void join_default_world(const LaunchRequest& request);         // throws; finds the World there when called twice
void leave_default_world();

// For programs that hold several ranks as threads (tests do): this thread speaks as the rank that joined `world`.
class SpeakAs {
 public:
  explicit SpeakAs(std::shared_ptr<World> world);
  ~SpeakAs();
  SpeakAs(const SpeakAs&) = delete;

 private:
  std::shared_ptr<World> before_;
};

bool names_the_world(const std::string& group);
// The handle's, or the World's; null: this rank is outside. It lives for as long as this thread is in the call that asked.
Group* group_of(const GroupHandle& handle, const char* wanted_for);
std::shared_ptr<Group> group_named(const std::string& name, const char* wanted_for);  // ArgumentError: not a member

}  // namespace unisono
