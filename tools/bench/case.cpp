// What is called and what it should give; see case.hpp.
#include "tools/bench/case.hpp"

#include <algorithm>

#include "unisono/comm_func.hpp"

namespace unisono::tools {
namespace {

bool has_pieces(Collective collective) {
  return collective == Collective::all_gather || collective == Collective::reduce_scatter || collective == Collective::scatter;
}

std::vector<TensorView> pieces_of(std::vector<float>& data, int pieces) {
  std::vector<TensorView> views;
  size_t each = data.size() / static_cast<size_t>(pieces);
  for (int piece = 0; piece < pieces; ++piece) views.push_back(view(std::span(data).subspan(static_cast<size_t>(piece) * each, each)));
  return views;
}

// Pair neighbours, carry the odd one up: as the kernels add.
float tree_sum(std::vector<float> numbers) {
  while (numbers.size() > 1) {
    std::vector<float> next;
    for (size_t index = 0; index + 1 < numbers.size(); index += 2) next.push_back(numbers[index] + numbers[index + 1]);
    if (numbers.size() % 2) next.push_back(numbers.back());
    numbers.swap(next);
  }
  return numbers[0];
}

bool is_scan(Collective collective) { return collective == Collective::scan || collective == Collective::exscan; }

// Everybody's result; `first` is what rank 0 has after an exscan.
std::vector<float> scanned(const std::vector<float>& numbers, Collective collective, float first) {
  std::vector<float> results;
  for (size_t rank = 0; rank < numbers.size(); ++rank) {
    const size_t ranks = rank + (collective == Collective::scan ? 1 : 0);
    results.push_back(ranks == 0 ? first : tree_sum({numbers.begin(), numbers.begin() + static_cast<ptrdiff_t>(ranks)}));
  }
  return results;
}

}  // namespace

double bus_factor(Collective collective, int ranks) {
  double n = ranks;
  if (collective == Collective::all_reduce) return 2 * (n - 1) / n;
  return has_pieces(collective) ? (n - 1) / n : 1;
}

Case::Case(const CaseRequest& request, int rank, int ranks)
    : collective_(request.collective), dialect_(request.dialect), rank_(rank), ranks_(ranks) {
  int64_t total = std::max<int64_t>(request.bytes / 4, collective_ == Collective::barrier ? 0 : 1);
  if (has_pieces(collective_)) total = (total + ranks - 1) / ranks * ranks;
  count_ = total;
  auto piece = static_cast<size_t>(total / ranks), whole = static_cast<size_t>(total);
  input_.resize(collective_ == Collective::all_gather ? piece : whole);
  output_.resize(collective_ == Collective::reduce_scatter || collective_ == Collective::scatter ? piece : whole);
  refresh();
}

void Case::refresh() {
  auto mine = static_cast<float>(rank_ + 1);
  std::fill(input_.begin(), input_.end(), mine);
  if (collective_ == Collective::reduce || collective_ == Collective::broadcast || in_place())
    std::fill(output_.begin(), output_.end(), mine);
  calls_ = 0;
}

void Case::call(int number) {
  last_root_ = number % ranks_;
  if (calls_ == 0) first_root_ = last_root_;
  if (dialect_ == "comm_func")
    call_comm_func(last_root_);
  else
    call_distributed(last_root_);
  ++calls_;
}

void Case::call_distributed(int root) {
  switch (collective_) {
    case Collective::all_reduce: distributed::all_reduce(view(output_)); return;
    case Collective::all_gather: distributed::all_gather_into_tensor(view(output_), view(input_)); return;
    case Collective::reduce_scatter: distributed::reduce_scatter_tensor(view(output_), view(input_)); return;
    case Collective::reduce: distributed::reduce(view(output_), root); return;
    case Collective::scan: distributed::scan(view(output_)); return;
    case Collective::exscan: distributed::exscan(view(output_)); return;
    case Collective::broadcast: distributed::broadcast(view(output_), {.src = root}); return;
    case Collective::scatter: {
      std::vector<TensorView> list;
      if (root == rank_) list = pieces_of(input_, ranks_);
      distributed::scatter(view(output_), list, {.src = root});
      return;
    }
    default: distributed::barrier(); return;
  }
}

void Case::call_comm_func(int root) {
  switch (collective_) {
    case Collective::all_reduce: result_ = comm_func::all_reduce(view(input_)).first; return;
    case Collective::all_gather: result_ = comm_func::all_gather_into_tensor(view(input_)).first; return;
    case Collective::reduce_scatter: result_ = comm_func::reduce_scatter_tensor(view(input_)).first; return;
    case Collective::reduce: result_ = comm_func::reduce(view(input_), root); return;
    case Collective::scan: result_ = comm_func::scan(view(input_)).first; return;
    case Collective::exscan: result_ = comm_func::exscan(view(input_)).first; return;
    case Collective::broadcast: result_ = comm_func::broadcast(view(input_), root); return;
    case Collective::scatter: result_ = comm_func::scatter_tensor(view(input_), root); return;
    default: comm_func::barrier(); return;
  }
}

// What stands in this rank's result (of all_gather: in one rank's part of it) after the calls since the last refresh. Tensors that are both input and output change
// from call to call: there, the same calls are made on one number a rank, added in the kernels' order.
float Case::expected(int part) const {
  const bool functional = dialect_ == "comm_func";
  std::vector<float> numbers;
  for (int rank = 0; rank < ranks_; ++rank) numbers.push_back(static_cast<float>(rank + 1));
  const float root = numbers[static_cast<size_t>(last_root_)], first_root = numbers[static_cast<size_t>(first_root_)];
  switch (collective_) {
    case Collective::reduce_scatter: return tree_sum(numbers);
    case Collective::all_gather: return numbers[static_cast<size_t>(part)];
    case Collective::scatter: return root;
    case Collective::broadcast: return functional ? root : first_root;  // once all hold the first root's, nothing changes
    default: break;
  }
  if (functional && is_scan(collective_)) return scanned(numbers, collective_, 0)[static_cast<size_t>(rank_)];
  if (functional) return collective_ == Collective::all_reduce || rank_ == last_root_ ? tree_sum(numbers) : 0.0f;
  for (int call = 0; call < calls_; ++call) {
    float sum = tree_sum(numbers);
    if (is_scan(collective_))
      numbers = scanned(numbers, collective_, numbers[0]);
    else if (collective_ == Collective::all_reduce)
      std::fill(numbers.begin(), numbers.end(), sum);
    else
      numbers[static_cast<size_t>((first_root_ + call) % ranks_)] = sum;
  }
  return numbers[static_cast<size_t>(rank_)];
}

int64_t Case::wrong() const {
  if (collective_ == Collective::barrier || calls_ == 0) return 0;
  const bool functional = dialect_ == "comm_func";
  const float* values = functional ? static_cast<const float*>(result_.data()) : output_.data();
  const int64_t count = functional ? result_.count() : static_cast<int64_t>(output_.size());
  const int parts = collective_ == Collective::all_gather ? ranks_ : 1;
  int64_t wrong = 0;
  for (int part = 0; part < parts; ++part) {
    const float* from = values + part * (count / parts);
    const float wanted = expected(part);
    wrong += std::count_if(from, from + count / parts, [wanted](float value) { return !(value == wanted); });
  }
  return wrong;
}

}  // namespace unisono::tools
