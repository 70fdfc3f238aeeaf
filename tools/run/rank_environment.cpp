// The other side of this file is the row "unisono run" in rendezvous/launchers.cpp.
#include "tools/run/rank_environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <random>

#include "rendezvous/launchers.hpp"

namespace unisono::tools {

int random_port() { return 20000 + static_cast<int>(std::random_device()() % 10000); }

Job new_job() {
  std::random_device random;
  return {.name = fmt::format("{}-{:08x}{:08x}", ::getpid(), random(), random()), .port = random_port()};
}

Environment rank_environment(Environment environment, const Job& job, Place place) {
  for (std::string_view sign : foreign_launch_signs()) environment.erase(std::string(sign));
  environment["UNISONO_LAUNCHER"] = "run";
  environment["UNISONO_JOB"] = job.name;
  environment["RANK"] = std::to_string(place.rank);
  environment["LOCAL_RANK"] = std::to_string(place.local_rank);
  environment["WORLD_SIZE"] = std::to_string(place.size);
  environment["LOCAL_WORLD_SIZE"] = std::to_string(place.local_size);
  environment["MASTER_ADDR"] = place.address;
  environment["MASTER_PORT"] = std::to_string(job.port);
  // Output goes through a pipe, which Python would fill before it lets go of a line.
  environment.emplace("PYTHONUNBUFFERED", "1");
  return environment;
}

}  // namespace unisono::tools
