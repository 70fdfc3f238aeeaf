// Standard input for the ranks: rank 0 reads ours, the others read nothing.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "unisono/status.hpp"

namespace unisono::tools {

// A file or a pipe is handed to rank 0 as it is. A terminal cannot be: rank 0 is in a process group of its own, and the
// terminal stops groups in the background that read from it. So we read it and pass it on through a pipe.
class Input {
 public:
  Status open();

  int of_rank(int rank) const;   // the descriptor to start that rank with
  void ranks_have_started();     // closes here what only they need
  int awaited() const;           // the descriptor to poll for reading, or -1
  int writable_awaited() const;  // likewise for writing
  void read_some();
  void write_some();
  void close();  // rank 0 reads no more

 private:
  Descriptor nothing_;  // /dev/null
  Descriptor read_end_, write_end_;
  std::string waiting_;
  bool is_terminal_ = false;
};

}  // namespace unisono::tools
