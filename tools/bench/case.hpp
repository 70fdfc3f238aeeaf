// One collective at one size: its buffers, how to call it, how to refresh its input, and how to tell a wrong result.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "unisono/distributed.hpp"
#include "unisono/types.hpp"

namespace unisono::tools {

struct CaseRequest {
  Collective collective = Collective::all_reduce;
  int64_t bytes = 0;  // all_reduce, reduce, broadcast, scans: the data; the others: all pieces together, as in the MPI suites
  std::string dialect = "distributed";
};

// float32 and sum throughout. Every element of rank r's input is r + 1, so one number a rank tells what must come out.
class Case {
 public:
  Case(const CaseRequest& request, int rank, int ranks);

  void call(int number);      // rooted collectives: root = number mod ranks, so that nobody runs ahead
  void refresh();             // rewrites the input
  int64_t wrong() const;      // elements that are not what they should be after the calls made since the last refresh
  int64_t count() const { return count_; }

 private:
  bool in_place() const {
    const bool may_be = collective_ == Collective::all_reduce || collective_ == Collective::scan || collective_ == Collective::exscan;
    return may_be && dialect_ == "distributed";
  }
  void call_distributed(int root);
  void call_comm_func(int root);
  float expected(int part) const;

  Collective collective_;
  std::string dialect_;
  int rank_, ranks_;
  int64_t count_;
  int calls_ = 0, first_root_ = 0, last_root_ = 0;
  std::vector<float> input_, output_;
  Tensor result_;  // comm_func's
};

double bus_factor(Collective collective, int ranks);  // busbw = algbw × this, as nccl-tests defines it

}  // namespace unisono::tools
