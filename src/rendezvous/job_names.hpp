// What names a job where no launcher does: a file that all ranks name, or a name that they agree on through a store.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "base/descriptor.hpp"
#include "unisono/status.hpp"
#include "unisono/store.hpp"

namespace unisono {

// How init_process_group() is told to meet; a value.
struct InitMethod {
  enum class Kind { env, file, tcp };
  Kind kind = Kind::env;
  std::string path;  // of the file; of tcp://, host:port
};

// "", "env://", "tcp://host:port" and "file:///path". ArgumentError that lists what there is for anything else.
Result<InitMethod> init_method_of(const std::string& text);

// The name is the same for all ranks that name the same file, by whatever path. It is made if absent, empty, and it is left there.
// The name holds the file's inode, which no other file gets as long as somebody has this one open: hold it until the job's meeting
// place is gone, also where the file is deleted meanwhile.
struct FileJob {
  std::string name;
  Descriptor file;
};
Result<FileJob> job_of_file(const std::string& path);

struct StoreMeeting {
  int rank = 0;
  int size = 1;
  double timeout_s = 300;
  std::string added = {};  // to the world's name, by the program
};

struct StoreJob {
  std::string name;
  int64_t generation = 0;  // the how-manieth world of this store it is
};

// Under which the ranks that have this name meet.
std::string meeting_prefix(const std::string& job);

// Rank 0 draws the name, the others wait for it: InitError when it does not come. The next world of the same store has
// another one, provided that every rank counts those it has joined.
//
// A name under which somebody gave up is of no use. Rank 0 draws another; the others wait for that, or hear why when they see rank 0 take the name back. A rank that comes
// later cannot know whether it is late for the attempt that failed or early for the next, so it waits, and hears at its deadline what became of the one before.
Result<StoreJob> job_in_store(distributed::Store& store, const StoreMeeting& meeting, const std::stop_token& stop = {});
Status count_joined(distributed::Store& store, const StoreMeeting& meeting, const StoreJob& job, const std::string& running);  // what to leave of the world: a RunningWorld, or nothing
// After joining in vain, by rank 0: what was entered under that name is of no use to who tries again.
void take_name_back(distributed::Store& store, const StoreMeeting& meeting, const StoreJob& job, const Status& why);

}  // namespace unisono
