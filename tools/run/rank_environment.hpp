// What a rank finds in its environment: the launcher's own, plus what env:// and launch_info read.
#pragma once

#include <string>

#include "unisono/settings.hpp"

namespace unisono::tools {

struct Job {
  std::string name;  // no other launch has the same
  int port = 0;      // for programs that open a store of their own, as torch's env:// does; nothing of ours binds it
};

Job new_job();

// Below those that Linux hands out by itself, so that nobody takes it who does not ask for it by number; at random, so that jobs side by side seldom meet.
int random_port();

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string address = "127.0.0.1";  // where ranks meet
};

Environment rank_environment(Environment environment, const Job& job, Place place);

}  // namespace unisono::tools
