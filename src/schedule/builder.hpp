// Writes a Schedule with verbs, so that an algorithm reads like its description.
//
//   Builder plan(Collective::all_reduce, "one_shot", me);
//   plan.copy(input(0), stage(0));
//   plan.publish(0);
//   plan.await(everyone, 0);
//   plan.reduce_peers(input(0), stage(0), output(0));
//   return plan.finish(/*stage_slots=*/1);
#pragma once

#include <string_view>
#include <vector>

#include "schedule/schedule.hpp"

namespace unisono {

constexpr ChunkRef input(int chunk) { return {Buffer::input, chunk}; }
constexpr ChunkRef output(int chunk) { return {Buffer::output, chunk}; }
constexpr ChunkRef scratch(int chunk) { return {Buffer::scratch, chunk}; }
constexpr ChunkRef stage(int slot) { return {Buffer::stage, slot}; }
constexpr ChunkRef partial(int chunk) { return {Buffer::partial, chunk}; }
constexpr ChunkRef gathered(int rank) { return {Buffer::gathered, rank}; }
inline constexpr ChunkRef all_gathered{Buffer::gathered, 0};  // as a source: that of each rank
inline constexpr ChunkRef nothing{};  // what a message without bytes carries: that it was sent

enum class Sum { partial, complete };  // whether everybody's part is in it

// How reduce_peers combines: of whom, whether what they show is as it was given, and what comes of it.
struct Combining {
  int team = everyone;
  bool scales = true;
  Sum sum = Sum::complete;
};

class Builder {
 public:
  Builder(Collective collective, std::string_view algorithm, Place place, int chunks = 1);

  void send(int peer, ChunkRef source);
  void receive(int peer, ChunkRef target);
  void receive_reduce(int peer, ChunkRef target, Sum sum = Sum::partial);
  void copy(ChunkRef source, ChunkRef target);
  void contribute(ChunkRef source, ChunkRef target);  // a copy of the input, as a part of a sum
  void reduce(ChunkRef source, ChunkRef target, Sum sum = Sum::partial);
  void publish(int flag);
  void await(int peer, int flag);  // a rank, or `everyone`
  void await_team(int team, int flag);
  void read_peer(int peer, ChunkRef source, ChunkRef target);
  void reduce_peers(ChunkRef own, ChunkRef source, ChunkRef target, Combining how = {});  // `own` is nothing where I am not in the team

  void carry_partials() { schedule_.partials = true; }  // scratch and partial(k) hold what is not rounded before it is copied elsewhere

  // The number of a team of these ranks, which ascend; `everyone` where they are all.
  int team(std::vector<int> ranks);

  // Hands the schedule over. `stage_slots`, and how many of them hold partials, is said here because it has to be the same on all
  // ranks, also on those that use fewer. A rank that is alone has nobody to show anything to: staging and flags are left out.
  Schedule finish(int stage_slots = 0, int partial_slots = 0);

 private:
  void add(const Step& step) { schedule_.steps.push_back(step); }

  Schedule schedule_;
};

}  // namespace unisono
