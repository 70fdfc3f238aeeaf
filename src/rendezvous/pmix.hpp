// PMIx: what mpirun, prterun and `srun --mpi=pmix` tell the ranks that they start, and pass on between them. The library is loaded where its variables are.
#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/fork.hpp"
#include "unisono/status.hpp"

namespace unisono {

// The connection of this process to whoever started it. PMIx counts who uses it: a program that calls MPI_Init before or later is undisturbed. It is opened once, and closed
// when the process exits: after the last PMIx_Finalize a process's MPI_Init fails, and one that exits without any ends the whole job. When the launcher is gone the process gets SIGTERM, as from a launcher that ends. Any thread.
class Pmix {
 public:
  // InitError: no libpmix.so.2 is to be had, or nobody answers it.
  static Result<std::shared_ptr<Pmix>> of_process(const Deadline& deadline);
  Pmix(const Pmix&) = delete;

  const std::string& job() const { return job_; }  // its namespace
  int rank() const { return rank_; }

  // What the launcher says of the job (its size) or of this rank (its place on the machine), by a key of pmix_abi.hpp.
  Result<int> number_of_job(const char* key, const Deadline& deadline) const;
  Result<int> number_of_rank(const char* key, const Deadline& deadline) const;

  // Every rank of the job calls it, as often as every other: what rank 0 says, the others are told.
  Result<std::string> told_by_rank_0(const std::string& said, const Deadline& deadline);

 private:
  struct Library;
  Pmix(std::shared_ptr<const Library> library, std::string job, int rank);
  static Result<std::shared_ptr<const Library>> load();
  static Result<std::shared_ptr<Pmix>> open();
  static void close_at_exit();

  std::shared_ptr<const Library> library_;
  std::string job_;
  int rank_;
  int told_count_ = 0;
  bool is_stuck_ = false;  // a thread waits in there, and may do so for ever
  ForkMark fork_mark_;
};

}  // namespace unisono
