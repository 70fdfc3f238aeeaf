// Overlaps of strided memory: exact, but for shapes that nobody has, where finding out would take too long.
#include "python/core/layouts.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace unisono::python {
namespace {

struct Dim {
  int64_t size, stride;
};

// The bytes of an array: runs of the same length, repeated along dims.
struct Runs {
  int64_t begin = 0, bytes = 0;
  std::vector<Dim> dims;  // the greatest stride last; every stride is greater than 0

  int64_t end() const {
    int64_t last = begin + bytes;
    for (const Dim& dim : dims) last += (dim.size - 1) * dim.stride;
    return last;
  }
};

bool is_empty(const Layout& layout) { return layout.shape.count() == 0; }

// Every element is a run so far. Dims whose elements are the same memory are left out: `repeats` says whether there are any.
Runs elements_of(const Layout& layout, bool& repeats) {
  Runs runs{.begin = static_cast<int64_t>(reinterpret_cast<uintptr_t>(layout.data)), .bytes = layout.element_bytes, .dims = {}};
  repeats = false;
  for (int dim = 0; dim < layout.shape.dims(); ++dim) {
    const int64_t size = layout.shape[dim], stride = layout.strides[dim];
    if (size == 1) continue;
    if (stride == 0) repeats = true;
    else runs.dims.push_back({size, std::abs(stride)});
    if (stride < 0) runs.begin += (size - 1) * stride;
  }
  std::sort(runs.dims.begin(), runs.dims.end(), [](const Dim& one, const Dim& other) { return one.stride < other.stride; });
  return runs;
}

// Runs that touch become one.
void join_runs(Runs& runs) {
  size_t joined = 0;
  for (; joined < runs.dims.size() && runs.dims[joined].stride <= runs.bytes; ++joined)
    runs.bytes += (runs.dims[joined].size - 1) * runs.dims[joined].stride;
  runs.dims.erase(runs.dims.begin(), runs.dims.begin() + static_cast<std::ptrdiff_t>(joined));
}

// All runs of either begin at the same remainder of whatever divides all strides: neighbouring columns of a matrix, say.
bool have_other_remainders(const Runs& one, const Runs& other) {
  int64_t divisor = 0;
  for (const Dim& dim : one.dims) divisor = std::gcd(divisor, dim.stride);
  for (const Dim& dim : other.dims) divisor = std::gcd(divisor, dim.stride);
  if (divisor == 0) return false;
  const int64_t ahead = ((other.begin - one.begin) % divisor + divisor) % divisor;
  return ahead >= one.bytes && ahead + other.bytes <= divisor;
}

// Takes apart what has the greater steps, and looks at those of its parts that come near the other. `patience` is how many
// comparisons may be made; beyond that they are said to overlap.
bool meet(const Runs& one, const Runs& other, int64_t& patience) {
  if (one.end() <= other.begin || other.end() <= one.begin) return false;
  if (one.dims.empty() && other.dims.empty()) return true;
  if (have_other_remainders(one, other)) return false;
  if (--patience < 0) return true;
  if (one.dims.empty() || (!other.dims.empty() && other.dims.back().stride > one.dims.back().stride))
    return meet(other, one, patience);
  Runs part = one;
  const Dim dim = part.dims.back();
  part.dims.pop_back();
  const int64_t first = (other.begin - part.end()) / dim.stride, last = (other.end() - one.begin) / dim.stride;
  for (int64_t index = std::max<int64_t>(first, 0); index <= std::min(last, dim.size - 1); ++index) {
    part.begin = one.begin + index * dim.stride;
    if (meet(part, other, patience)) return true;
  }
  return false;
}

constexpr int64_t most_comparisons = int64_t{1} << 22;

struct Squeezed {
  std::vector<int64_t> sizes, strides;
};

Squeezed squeezed(const Layout& layout) {
  Squeezed result;
  for (int dim = 0; dim < layout.shape.dims(); ++dim)
    if (layout.shape[dim] != 1) {
      result.sizes.push_back(layout.shape[dim]);
      result.strides.push_back(layout.strides[dim]);
    }
  return result;
}

}  // namespace

Layout layout_of(const TensorView& view) {
  Layout layout{.data = static_cast<const std::byte*>(view.data), .shape = view.shape,
                .element_bytes = static_cast<int64_t>(element_bytes(view.dtype))};
  int64_t stride = layout.element_bytes;
  for (int dim = view.shape.dims() - 1; dim >= 0; --dim) {
    layout.strides[dim] = stride;
    stride *= view.shape[dim];
  }
  return layout;
}

// Along each dim, beginning with the smallest steps, the first of its parts may meet none of the others.
bool overlaps_itself(const Layout& layout) {
  if (is_empty(layout)) return false;
  bool repeats = false;
  const Runs runs = elements_of(layout, repeats);
  if (repeats) return true;
  int64_t patience = most_comparisons;
  Runs first{.begin = 0, .bytes = runs.bytes, .dims = {}};
  for (const Dim& dim : runs.dims) {
    Runs joined = first;
    join_runs(joined);
    Runs another = joined;
    for (int64_t index = 1; index < dim.size && index * dim.stride < joined.end(); ++index) {
      another.begin = index * dim.stride;
      if (meet(joined, another, patience)) return true;
    }
    first.dims.push_back(dim);
  }
  return false;
}

bool overlap(const Layout& one, const Layout& other) {
  if (is_empty(one) || is_empty(other)) return false;
  bool repeats = false;
  Runs first = elements_of(one, repeats), second = elements_of(other, repeats);
  join_runs(first);
  join_runs(second);
  int64_t patience = most_comparisons;
  return meet(first, second, patience);
}

bool is_part(const Layout& part, const Layout& whole, int index) {
  const int64_t count = part.shape.count();
  if (count <= 0 || part.element_bytes != whole.element_bytes) return false;
  const Squeezed small = squeezed(part), large = squeezed(whole);
  if (whole.shape.count() == count)
    return part.data == whole.data && small.sizes == large.sizes && small.strides == large.strides;
  if (large.sizes.size() == small.sizes.size() + 1)  // stacked
    return std::equal(small.sizes.begin(), small.sizes.end(), large.sizes.begin() + 1) &&
           std::equal(small.strides.begin(), small.strides.end(), large.strides.begin() + 1) &&
           part.data == whole.data + index * large.strides[0];
  return !small.sizes.empty() && small.sizes.size() == large.sizes.size() && small.strides == large.strides &&
         std::equal(small.sizes.begin() + 1, small.sizes.end(), large.sizes.begin() + 1) &&
         part.data == whole.data + index * small.sizes[0] * large.strides[0];
}

}  // namespace unisono::python
