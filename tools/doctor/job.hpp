// `unisono doctor` as ranks of a job: they join, the lowest rank of each host tells rank 0 of its machine and measures with those of other hosts, and rank 0 prints.
#pragma once

#include "doctor/facts.hpp"

namespace unisono::tools {

struct JobOptions {
  bool as_json = false;
  double timeout_s = 60;  // of joining, and of whatever waits for others afterwards
};

int examine_job(doctor::MachineFacts facts, const JobOptions& options);  // the exit status

}  // namespace unisono::tools
