// Letting in and turning away; see door.hpp. Used by host.cpp while ranks meet and by late_visitors.cpp afterwards.
#include "rendezvous/door.hpp"

#include <fmt/core.h>
#include <sys/eventfd.h>

namespace unisono {
namespace {

constexpr int most_at_once = 64;
constexpr double between_lines_s = 60;

Descriptor spare_descriptor() { return Descriptor(eventfd(0, EFD_CLOEXEC)); }

}  // namespace

Door::Door(Descriptor listener, Log log) : listener_(std::move(listener)), spare_(spare_descriptor()), log_(log) {}

std::vector<Visitor> Door::admit() {
  std::vector<Visitor> visitors;
  crowded_ = exhausted_ = false;
  if (!spare_) spare_ = spare_descriptor();
  for (int count = 0; count < most_at_once; ++count) {
    SocketOutcome accepted = accept_from(listener_);
    if (accepted.attempt == Attempt::unavailable) return visitors;
    if (accepted.attempt == Attempt::exhausted) {
      turn_away_one_without_descriptor();
      exhausted_ = true;
      return visitors;
    }
    auto who = identity_of(accepted.socket);
    if (!who.ok()) continue;
    if (who->uid == geteuid())
      visitors.push_back({std::move(accepted.socket), *who});
    else
      turn_away(*who);
  }
  crowded_ = true;
  return visitors;
}

void Door::turn_away(const PeerIdentity& who) {
  ++turned_away_;
  if (!silent_until_.passed()) return;
  log_.warning(fmt::format("refused {} at the meeting place, {}of uid {} ({}); the next line about this comes in a minute at the earliest",
                           turned_away_ == 1 ? "a visitor" : fmt::format("{} visitors", turned_away_),
                           turned_away_ == 1 ? "" : "the last ", who.uid, who.process()));
  turned_away_ = 0;
  silent_until_ = Deadline::in_seconds(between_lines_s);
}

// A rank of ours that meets this tries again until its deadline.
void Door::turn_away_one_without_descriptor() {
  spare_.reset();
  accept_from(listener_).socket.reset();
  spare_ = spare_descriptor();
}

void Door::close() {
  stop_listening(listener_);
  close_in_child();
}

void Door::close_in_child() {
  listener_.reset();
  spare_.reset();
}

}  // namespace unisono
