// What can be timed: a Subject is called, its input refreshed and its results checked, whatever it is. The table of all there
// are is in subject.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "unisono/tensor.hpp"

namespace unisono::tools {

struct SubjectRequest {
  // all_reduce, reduce, broadcast, scans, send: the data; the others: all pieces together, as in the MPI suites
  int64_t bytes = 0;
  std::string dialect = "distributed";
  bool shared = false;  // buffers are shared tensors; of comm_func the input, since its results are its own
  bool persistent = false;  // prepared calls, of the distributed dialect
  int rank = 0, ranks = 1;
};

class Subject {
 public:
  virtual ~Subject() = default;

  virtual void call(int number) = 0;  // rooted collectives: root = number mod ranks, so that nobody runs ahead
  virtual void refresh() = 0;         // rewrites the input
  virtual int64_t wrong() const = 0;  // elements that are not what they should be after the calls made since the last refresh
  virtual int64_t count() const = 0;
};

struct SubjectKind {
  std::string_view name;
  std::unique_ptr<Subject> (*make)(const SubjectRequest& request);
  double (*bus_factor)(int ranks);  // busbw = algbw × this, as nccl-tests defines it
  bool sized = true;                // otherwise it is timed once, whatever sizes are asked for
  bool collective = true;           // otherwise it takes pairs of ranks, is not prepared, and is no part of `all`
  int ways = 1;                     // how often the data travels in one call; the time is that of one way
};

std::span<const SubjectKind> subject_kinds();
const SubjectKind* subject_named(std::string_view name);  // null when there is none

Tensor make_buffer(const SubjectRequest& request, int64_t count);  // zeros, float32, shared if asked for
inline std::span<float> numbers_of(const Tensor& tensor) {
  return {static_cast<float*>(tensor.data()), static_cast<size_t>(tensor.count())};
}

}  // namespace unisono::tools
