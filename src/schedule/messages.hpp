// Which receive takes which send: the k-th send from one rank to another belongs to the k-th receive there.
#pragma once

#include <span>
#include <vector>

#include "schedule/schedule.hpp"
#include "unisono/status.hpp"

namespace unisono {

struct Message {
  int from = 0, send_step = 0;
  int to = 0, receive_step = 0;
};

struct Messages {
  std::vector<Message> all;
  std::vector<std::vector<int>> of_step;  // [rank][step]: an index into `all`, or -1
};

// An InternalError names the first send without its receive, or receive without its send.
Result<Messages> match_messages(std::span<const Schedule> all_ranks);

// "all_reduce ring, rank 1 of 4, step 5 (send output[2] to 2): <reason>": what every verdict on schedules looks like.
Status broken(const Schedule& schedule, int step, const std::string& reason);

}  // namespace unisono
