// What is called and what it should give; see case.hpp.
#include "tools/bench/case.hpp"

#include <algorithm>

namespace unisono::tools {
namespace {

constexpr int generations = 8;

bool is_any_of(Collective collective, std::initializer_list<Collective> those) {
  return std::find(those.begin(), those.end(), collective) != those.end();
}

bool gives_pieces(Collective collective) {
  return is_any_of(collective, {Collective::reduce_scatter, Collective::scatter, Collective::all_to_all});
}
bool gets_pieces(Collective collective) {
  return is_any_of(collective, {Collective::all_gather, Collective::gather, Collective::all_to_all});
}
bool is_rooted(Collective collective) {
  return is_any_of(collective, {Collective::reduce, Collective::scatter, Collective::gather, Collective::broadcast});
}
bool is_scan(Collective collective) { return is_any_of(collective, {Collective::scan, Collective::exscan}); }

std::vector<TensorView> pieces_of(const Tensor& tensor, int pieces) {
  std::vector<TensorView> views;
  const size_t each = static_cast<size_t>(tensor.count() / pieces);
  for (int piece = 0; piece < pieces; ++piece)
    views.push_back(view(numbers_of(tensor).subspan(static_cast<size_t>(piece) * each, each)));
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

Case::Case(Collective collective, const SubjectRequest& request)
    : collective_(collective), functional_(request.dialect == "comm_func") {
  buffers_.rank = request.rank;
  const int ranks = buffers_.ranks = request.ranks;
  count_ = std::max<int64_t>(request.bytes / 4, 1);
  if (gives_pieces(collective) || gets_pieces(collective)) count_ = (count_ + ranks - 1) / ranks * ranks;
  if (collective == Collective::barrier) count_ = 0;
  const bool gives_one = is_any_of(collective, {Collective::all_gather, Collective::gather});
  const bool gets_one = is_any_of(collective, {Collective::reduce_scatter, Collective::scatter});
  if (!in_place()) buffers_.input = make_buffer(request, gives_one ? count_ / ranks : count_);
  if (!functional_) buffers_.output = make_buffer(request, gets_one ? count_ / ranks : count_);
  if (collective == Collective::scatter) buffers_.pieces = pieces_of(buffers_.input, ranks);
  if (collective == Collective::gather && !functional_) buffers_.pieces = pieces_of(buffers_.output, ranks);
  const int roots = is_rooted(collective) ? ranks : 1;
  for (int root = 0; request.persistent && root < roots; ++root) prepared_.push_back(prepare(collective, buffers_, root));
  refresh();
}

bool Case::in_place() const {
  using enum Collective;
  return !functional_ && is_any_of(collective_, {all_reduce, reduce, broadcast, scan, exscan});
}

// A piece counts twice as much as a rank: to whom it goes and from whom it comes cannot be mistaken for each other.
float Case::given(int rank, int piece) const { return static_cast<float>(rank + 1 + generation_ + 2 * piece); }

void Case::refresh() {
  generation_ = (generation_ + 1) % generations;
  const int pieces = gives_pieces(collective_) ? buffers_.ranks : 1;
  const std::span<float> mine = numbers_of(in_place() ? buffers_.output : buffers_.input);
  const size_t each = mine.size() / static_cast<size_t>(pieces);
  for (int piece = 0; piece < pieces; ++piece)
    std::ranges::fill(mine.subspan(static_cast<size_t>(piece) * each, each), given(buffers_.rank, piece));
  calls_ = 0;
}

void Case::call(int number) {
  last_root_ = number % buffers_.ranks;
  if (calls_ == 0) first_root_ = last_root_;
  if (!prepared_.empty())
    prepared_[static_cast<size_t>(last_root_) % prepared_.size()].run();
  else if (functional_)
    result_ = call_comm_func(collective_, buffers_, last_root_);
  else
    call_distributed(collective_, buffers_, last_root_);
  ++calls_;
}

bool Case::has_been_root() const { return (buffers_.rank - first_root_ + buffers_.ranks) % buffers_.ranks < calls_; }

int Case::result_parts() const {
  const bool gets_nothing = collective_ == Collective::gather && functional_ && buffers_.rank != last_root_;
  return gets_pieces(collective_) && !gets_nothing ? buffers_.ranks : 1;
}

// What stands in one part of this rank's result after the calls since the last refresh.
float Case::expected(int part) const {
  const int rank = buffers_.rank;
  std::vector<float> numbers;
  for (int giver = 0; giver < buffers_.ranks; ++giver) numbers.push_back(given(giver, gives_pieces(collective_) ? rank : 0));
  switch (collective_) {
    case Collective::reduce_scatter: return tree_sum(numbers);
    case Collective::all_gather:
    case Collective::all_to_all: return numbers[static_cast<size_t>(part)];
    case Collective::gather: return functional_ && rank != last_root_ ? 0 : numbers[static_cast<size_t>(part)];
    case Collective::scatter: return numbers[static_cast<size_t>(last_root_)];
    // In place, all hold the first root's after the first call, and nothing changes any more.
    case Collective::broadcast: return numbers[static_cast<size_t>(functional_ ? last_root_ : first_root_)];
    default: break;
  }
  if (!functional_) return expected_in_place();
  if (is_scan(collective_)) return scanned(numbers, collective_, 0)[static_cast<size_t>(rank)];
  return collective_ == Collective::all_reduce || rank == last_root_ ? tree_sum(numbers) : 0.0f;
}

// Tensors that are both input and output change from call to call: the same calls, made on one number a rank and added in the
// kernels' order.
float Case::expected_in_place() const {
  std::vector<float> numbers;
  for (int giver = 0; giver < buffers_.ranks; ++giver) numbers.push_back(given(giver, 0));
  for (int call = 0; call < calls_; ++call) {
    float sum = tree_sum(numbers);
    if (is_scan(collective_))
      numbers = scanned(numbers, collective_, numbers[0]);
    else if (collective_ == Collective::all_reduce)
      std::fill(numbers.begin(), numbers.end(), sum);
    else
      numbers[static_cast<size_t>((first_root_ + call) % buffers_.ranks)] = sum;
  }
  return numbers[static_cast<size_t>(buffers_.rank)];
}

int64_t Case::wrong() const {
  if (collective_ == Collective::barrier || calls_ == 0) return 0;
  if (collective_ == Collective::gather && !functional_ && !has_been_root()) return 0;
  const std::span<const float> values = numbers_of(functional_ ? result_ : buffers_.output);
  const int parts = result_parts();
  const size_t each = values.size() / static_cast<size_t>(parts);
  int64_t wrong = 0;
  for (int part = 0; part < parts; ++part) {
    const float wanted = expected(part);
    wrong += std::ranges::count_if(values.subspan(static_cast<size_t>(part) * each, each),
                                   [wanted](float value) { return !(value == wanted); });
  }
  return wrong;
}

}  // namespace unisono::tools
