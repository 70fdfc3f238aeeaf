// Standard input for the ranks: rank 0 reads ours, the others read nothing.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "unisono/status.hpp"

namespace unisono::tools {

// A file or a pipe is handed to rank 0 as it is. A terminal cannot be: rank 0 is in a process group of its own, and the
// terminal stops groups in the background that read from it. So we read it and pass it on through a pipe.
class Input {
 public:
  Status open();
  // Ours is something else: what rank 0 is to read is given to us, and we say how much of it rank 0's pipe has taken.
  Status open_given(std::function<void(size_t)> taken);
  void give(std::string_view bytes) { waiting_ += bytes; }
  void give_end();

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
  bool is_terminal_ = false, is_given_ = false, has_end_ = false;
  std::function<void(size_t)> taken_;

  Status open_pipe();
};

}  // namespace unisono::tools
