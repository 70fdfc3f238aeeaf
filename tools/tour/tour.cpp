// Every rank makes the same calls and shows rank 0 what it gave and got; rank 0 prints. See tour.hpp.
#include "tools/tour/tour.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>

#include "base/sizes.hpp"
#include "tools/bench/bench.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono::tools {
namespace {

using Numbers = std::vector<float>;

std::string text(const Numbers& numbers) { return fmt::format("[{}]", fmt::join(numbers, " ")); }
std::string text(const Tensor& tensor) { return text(tensor.to_vector<float>()); }

// One line a rank: what it gave, what the distributed dialect left it with, what the comm_func dialect returned.
struct Line {
  char gave[64], distributed[64], comm_func[64];
};

class Tour {
 public:
  Tour() : rank_(distributed::get_rank()), ranks_(distributed::get_world_size()) {}

  void walk() {
    if (rank_ == 0) fmt::print("Unisono on {} ranks: each collective in both dialects\n", ranks_);
    all_reduce();
    all_gather();
    reduce_scatter();
    reduce();
    scatter();
    speed();
  }

 private:
  Numbers mine(int count) const {
    Numbers numbers;
    for (int index = 0; index < count; ++index) numbers.push_back(static_cast<float>(10 * rank_ + index));
    return numbers;
  }

  void show(const char* title, const char* difference, const std::string& gave, const std::string& got, const std::string& returned) {
    Line line = {};
    gave.copy(line.gave, sizeof(line.gave) - 1);
    got.copy(line.distributed, sizeof(line.distributed) - 1);
    returned.copy(line.comm_func, sizeof(line.comm_func) - 1);
    std::vector<Line> lines(static_cast<size_t>(ranks_));
    auto bytes = static_cast<int64_t>(sizeof(Line));
    distributed::all_gather_into_tensor({lines.data(), DType::uint8, Shape{bytes * ranks_}}, {&line, DType::uint8, Shape{bytes}});
    if (rank_ != 0) return;
    fmt::print("\n{}\n  {:<5} {:<16} {:<34} {}\n", title, "rank", "gives", "distributed", "comm_func");
    for (int rank = 0; rank < ranks_; ++rank) {
      const Line& row = lines[static_cast<size_t>(rank)];
      fmt::print("  {:<5} {:<16} {:<34} {}\n", rank, row.gave, row.distributed, row.comm_func);
    }
    fmt::print("  {}\n", difference);
  }

  void all_reduce() {
    Numbers given = mine(3), tensor = given;
    distributed::all_reduce(view(tensor));
    auto [output, handle] = comm_func::all_reduce(view(given));
    show("all_reduce: everybody gets the sum",
         "distributed writes into the tensor; comm_func returns (tensor, handle) and leaves its input alone.", text(given),
         text(tensor), text(output));
  }

  void all_gather() {
    Numbers given = mine(2);
    std::vector<Numbers> list(static_cast<size_t>(ranks_), Numbers(2));
    std::vector<TensorView> views;
    for (Numbers& element : list) views.push_back(view(element));
    distributed::all_gather(views, view(given));
    auto [output, handle] = comm_func::all_gather_into_tensor(view(given));
    std::vector<std::string> texts;
    for (const Numbers& element : list) texts.push_back(text(element));
    show("all_gather / all_gather_into_tensor: everybody gets everything",
         "distributed fills a list of N tensors; comm_func returns one, dim 0 being N times as long.", text(given),
         fmt::format("{}", fmt::join(texts, " ")), text(output));
  }

  void reduce_scatter() {
    Numbers given = mine(ranks_);
    std::vector<Numbers> list;
    for (float number : given) list.push_back({number});
    std::vector<TensorView> views;
    for (Numbers& element : list) views.push_back(view(element));
    Numbers tensor(1);
    distributed::reduce_scatter(view(tensor), views);
    auto [output, handle] = comm_func::reduce_scatter_tensor(view(given));
    show("reduce_scatter / reduce_scatter_tensor: rank i gets the sum of everybody's part i",
         "distributed takes a list of N tensors; comm_func takes one whose dim 0 is divisible by N.", text(given), text(tensor),
         text(output));
  }

  void reduce() {
    Numbers given = mine(3), tensor = given;
    distributed::reduce(view(tensor), 0);
    Tensor output = comm_func::reduce(view(given), 0);
    show("reduce to rank 0: only it gets the sum",
         "distributed leaves the other ranks' tensors alone; comm_func returns zeros there, and never a handle.", text(given),
         text(tensor), text(output));
  }

  void scatter() {
    Numbers given = mine(ranks_);
    std::vector<Numbers> list;
    std::vector<TensorView> views;
    for (float number : given) list.push_back({number});
    for (Numbers& element : list)
      if (rank_ == 0) views.push_back(view(element));
    Numbers tensor(1);
    distributed::scatter(view(tensor), views);
    Tensor output = comm_func::scatter_tensor(view(given), 0);
    show("scatter / scatter_tensor from rank 0: rank i gets part i",
         "distributed takes a list, on rank 0 only; comm_func cuts one tensor, which every rank passes.",
         rank_ == 0 ? text(given) : "(not looked at)", text(tensor), text(output));
  }

  void speed() {
    BenchOptions options;
    options.ranks = ranks_;
    options.repeats = 5;
    options.seconds = 0.05;
    if (rank_ == 0) fmt::print("\nSpeed of all_reduce (float32, {} ranks), beside every rank copying as much with memcpy\n", ranks_);
    for (int64_t bytes : {4_KiB, 1_MiB, 16_MiB}) {
      BenchRow row = measure(*subject_named("all_reduce"), bytes, options);
      double copy_us = memcpy_us(bytes, 5);
      if (rank_ == 0)
        fmt::print("  {:>8}  all_reduce {:>10.1f} µs   memcpy {:>10.1f} µs   {:>6.1f} times a memcpy{}\n", readable_size(bytes), row.least_us,
                   copy_us, row.least_us / copy_us, row.wrong ? "   WRONG" : "");
    }
  }

  int rank_, ranks_;
};

}  // namespace

int run_tour_rank() {
  distributed::init_process_group();
  Tour().walk();
  distributed::destroy_process_group();
  return 0;
}

}  // namespace unisono::tools
