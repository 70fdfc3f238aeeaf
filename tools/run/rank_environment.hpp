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

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string address = "127.0.0.1";  // where ranks meet
};

Environment rank_environment(Environment environment, const Job& job, Place place);

}  // namespace unisono::tools
