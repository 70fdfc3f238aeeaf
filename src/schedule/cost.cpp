// Every rank has its own time; an await or a receive moves it to when the other side was ready. The rank whose time is least goes first, so
// that ranks come to a link that they share in the order in which they would. See cost.hpp.
#include "schedule/cost.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.hpp"
#include "schedule/messages.hpp"

namespace unisono {
namespace {

struct Moment {
  double time_ns = -1;  // not yet
  int round = 0;

  bool happened() const { return time_ns >= 0; }
};

struct Walker {
  size_t step = 0;
  Moment now{0, 0};
  bool blocked = false;  // since its last step was tried
  double ring_free_ns = 0;
  double sent_bytes = 0, read_bytes = 0;
  std::array<Moment, max_flags> published;

  void wait_for(const Moment& other) {
    now = {std::max(now.time_ns, other.time_ns), std::max(now.round, other.round + 1)};
  }
};

// Of one host to the others.
struct HostLink {
  double out_free_ns = 0, in_free_ns = 0;
  double sent_bytes = 0;
};

class Walk {
 public:
  Walk(std::span<const Schedule> all_ranks, double chunk_bytes, const CostModel& model, int widened)
      : all_ranks_(all_ranks), bytes_(chunk_bytes), widened_(widened), model_(model), hosts_(all_ranks[0].place.hosts),
        walkers_(all_ranks.size()), links_(static_cast<size_t>(hosts_.count())) {
    Result<Messages> messages = match_messages(all_ranks);
    CHECK(messages.ok());
    messages_ = std::move(*messages);
    arrivals_.resize(messages_.all.size());
  }

  Cost walk() {
    for (int rank = next(); rank >= 0; rank = next())
      if (!perform(rank)) walkers_[static_cast<size_t>(rank)].blocked = true;
    Cost cost;
    for (const HostLink& link : links_) cost.link_bytes = std::max<int64_t>(cost.link_bytes, std::llround(link.sent_bytes));
    for (size_t rank = 0; rank < walkers_.size(); ++rank) {
      const Walker& walker = walkers_[rank];
      CHECK(walker.step == all_ranks_[rank].steps.size());
      cost.time_ns = std::max(cost.time_ns, walker.now.time_ns);
      cost.rounds = std::max(cost.rounds, walker.now.round);
      cost.sent_bytes = std::max<int64_t>(cost.sent_bytes, std::llround(walker.sent_bytes));
      cost.read_bytes = std::max<int64_t>(cost.read_bytes, std::llround(walker.read_bytes));
    }
    return cost;
  }

 private:
  // The rank that can go on and whose time is least; -1 where none can.
  int next() const {
    int least = -1;
    for (int rank = 0; rank < static_cast<int>(walkers_.size()); ++rank) {
      if (walkers_[rank].blocked || walkers_[rank].step == all_ranks_[rank].steps.size()) continue;
      if (least < 0 || walkers_[rank].now.time_ns < walkers_[least].now.time_ns) least = rank;
    }
    return least;
  }

  // Performs the rank's next step; false while it has to wait.
  bool perform(int rank) {
    Walker& me = walkers_[rank];
    const Step& step = all_ranks_[rank].steps[me.step];
    switch (step.kind) {
      case StepKind::send:
        post(rank);
        break;
      case StepKind::receive:
      case StepKind::receive_reduce:
        if (!arrivals_[message_of(rank)].happened()) return false;
        me.wait_for(arrivals_[message_of(rank)]);
        if (step.kind == StepKind::receive_reduce) me.now.time_ns += bytes_of(step.target) * model_.reduce_ns_per_byte;
        break;
      case StepKind::copy:
        if (!is_onto_itself(step)) me.now.time_ns += std::max(bytes_of(step.source), bytes_of(step.target)) * model_.copy_ns_per_byte;
        break;
      case StepKind::reduce:
        me.now.time_ns += bytes_of(step.target) * model_.reduce_ns_per_byte;
        break;
      case StepKind::publish:
        me.published[step.flag] = me.now;
        for (Walker& walker : walkers_) walker.blocked = false;
        break;
      case StepKind::await:
        if (!await(rank, step)) return false;
        break;
      case StepKind::read_peer:
        read(me, bytes_of(step.source));
        break;
      case StepKind::reduce_peers:
        combine(me, Team(all_ranks_[rank], step), step);
        break;
    }
    ++me.step;
    return true;
  }

  double bytes_of(ChunkRef chunk) const {
    if (chunk.buffer == Buffer::none) return 0;
    return holds_partials(all_ranks_[0], chunk) ? bytes_ * widened_ : bytes_;
  }
  bool is_onto_itself(const Step& step) const {  // a partial that is the output
    return widened_ == 1 && is_in_output(step.source) && is_in_output(step.target) && step.source.chunk == step.target.chunk;
  }

  void read(Walker& me, double bytes) {
    me.now.time_ns += bytes * model_.peer_read_ns_per_byte;
    me.read_bytes += bytes;
  }

  void combine(Walker& me, const Team& team, const Step& step) {
    const double operands = team.size(), own = step.own.buffer != Buffer::none;
    if (step.source.buffer != Buffer::gathered) read(me, (operands - own) * bytes_of(step.source));
    // The first operand has to be moved even where there is nobody to add.
    me.now.time_ns += bytes_of(step.target) * (operands > 1 ? (operands - 1) * model_.reduce_ns_per_byte : model_.copy_ns_per_byte);
  }

  void post(int rank) {
    Walker& me = walkers_[rank];
    const Step& step = all_ranks_[rank].steps[me.step];
    const double bytes = bytes_of(step.source);
    me.sent_bytes += bytes;
    arrivals_[message_of(rank)] = {hosts_.share(rank, step.peer) ? through_ring(me, bytes) : through_link(rank, step.peer, bytes), me.now.round};
    walkers_[step.peer].blocked = false;
  }

  // Each returns when the message has arrived.
  double through_ring(Walker& me, double bytes) {
    me.ring_free_ns = std::max(me.now.time_ns, me.ring_free_ns) + bytes * model_.ring_ns_per_byte;
    return me.ring_free_ns + model_.ring_ns;
  }
  double through_link(int from, int to, double bytes) {
    HostLink &out = links_[static_cast<size_t>(hosts_.of(from))], &in = links_[static_cast<size_t>(hosts_.of(to))];
    const double needed_ns = bytes * model_.link_ns_per_byte;
    out.out_free_ns = std::max(walkers_[from].now.time_ns, out.out_free_ns) + needed_ns;
    out.sent_bytes += bytes;
    in.in_free_ns = std::max(out.out_free_ns, in.in_free_ns + needed_ns);  // it comes in while it goes out, unless another comes in
    return in.in_free_ns + model_.link_ns;
  }

  bool await(int rank, const Step& step) {
    const Team team(all_ranks_[rank], step);
    for (int index = 0; index < team.size(); ++index)
      if (team[index] != rank && !walkers_[team[index]].published[step.flag].happened()) return false;
    for (int index = 0; index < team.size(); ++index) {
      if (team[index] == rank) continue;
      const Moment& moment = walkers_[team[index]].published[step.flag];
      walkers_[rank].wait_for({moment.time_ns + model_.flag_ns, moment.round});
    }
    return true;
  }

  size_t message_of(int rank) const { return messages_.of_step[rank][walkers_[rank].step]; }

  std::span<const Schedule> all_ranks_;
  double bytes_;  // of one chunk
  int widened_;
  CostModel model_;
  Hosts hosts_;
  Messages messages_;
  std::vector<Moment> arrivals_;  // per message
  std::vector<Walker> walkers_;
  std::vector<HostLink> links_;  // by host
};

}  // namespace

Cost cost(std::span<const Schedule> all_ranks, int64_t bytes, const CostModel& model, int widened) {
  // Where a collective works in pieces, its schedules have one chunk of data: the piece.
  return Walk(all_ranks, static_cast<double>(bytes) / all_ranks[0].chunks, model, widened).walk();
}

}  // namespace unisono
