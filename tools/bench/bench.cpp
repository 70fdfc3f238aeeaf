// The measuring loop and the table; see bench.hpp. Times are the slowest rank's, since that is when a call is over.
#include "tools/bench/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/clock.hpp"
#include "base/sizes.hpp"
#include "unisono/distributed.hpp"

namespace unisono::tools {
namespace {

constexpr int most_calls = 20'000;

double slowest(double value) {
  std::vector<double> values{value};
  distributed::all_reduce(view(values), {.op = ReduceOp::max});
  return values[0];
}

// Mean time of a call, in microseconds. Hot: one clock around all calls. Fresh: the clock runs inside the calls only.
double time_calls(Subject& subject, int calls, bool fresh) {
  distributed::barrier();
  int64_t start = now_ns(), inside = 0;
  for (int number = 0; number < calls; ++number) {
    if (!fresh) {
      subject.call(number);
      continue;
    }
    subject.refresh();
    distributed::barrier();
    int64_t before = now_ns();
    subject.call(number);
    inside += now_ns() - before;
  }
  if (!fresh) inside = now_ns() - start;
  return slowest(static_cast<double>(inside) * 1e-3 / calls);
}

int64_t check_one_call(Subject& subject, int number) {
  subject.refresh();
  distributed::barrier();
  subject.call(number);
  return subject.wrong();
}

std::string buffers_in_words(const BenchOptions& options) {
  const std::string_view shared = options.dialect == "comm_func" ? "shared inputs" : "shared buffers";
  return fmt::format("{} {}", options.fresh ? "fresh" : "hot", options.shared ? shared : "buffers");
}

void print_head(const BenchOptions& options) {
  fmt::print("# {} ranks, {} dialect, {}float32 sum, {}; time is the slowest rank's, of {} repeats\n", options.ranks,
             options.dialect, options.persistent ? "prepared calls, " : "", buffers_in_words(options), options.repeats);
  fmt::print("{:<15} {:>10} {:>10} {:>11} {:>11} {:>9} {:>9} {:>6} {:>12}\n", "# collective", "bytes", "count", "least µs", "median µs",
             "algbw", "busbw", "wrong", "memcpy µs");
}

std::string json_of(const BenchRow& row, const BenchOptions& options, double copy_us) {
  return fmt::format(
      "{{\"collective\": \"{}\", \"ranks\": {}, \"bytes\": {}, \"count\": {}, \"least_us\": {:.3f}, \"median_us\": {:.3f}, "
      "\"algbw_gbs\": {:.3f}, \"busbw_gbs\": {:.3f}, \"wrong\": {}, \"memcpy_us\": {:.3f}, "
      "\"fresh\": {}, \"shared\": {}, \"persistent\": {}, \"dialect\": \"{}\", \"hosts\": \"{}\"}}",
      row.name, options.ranks, row.bytes, row.count, row.least_us, row.median_us, row.algbw, row.busbw, row.wrong,
      copy_us, options.fresh, options.shared, options.persistent, options.dialect, options.hosts);
}

bool write_json(const std::string& path, const std::vector<std::string>& rows) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (!file) return false;
  fmt::print(file, "[\n  {}\n]\n", fmt::join(rows, ",\n  "));
  return std::fclose(file) == 0;
}

}  // namespace

double memcpy_us(int64_t bytes, int repeats) {
  std::vector<char> from(static_cast<size_t>(bytes), 1), to(static_cast<size_t>(bytes), 2);
  int calls = static_cast<int>(std::clamp<int64_t>((64 << 20) / std::max<int64_t>(bytes, 1), 1, 100'000));
  double least = 1e300;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    distributed::barrier();
    int64_t start = now_ns();
    for (int call = 0; call < calls; ++call) {
      std::memcpy(to.data(), from.data(), to.size());
      asm volatile("" : : "r"(to.data()) : "memory");  // the copy must not be optimised away
    }
    least = std::min(least, slowest(static_cast<double>(now_ns() - start) * 1e-3 / calls));
  }
  return least;
}

BenchRow measure(const SubjectKind& kind, int64_t bytes, const BenchOptions& options) {
  const std::unique_ptr<Subject> made =
      kind.make({.bytes = bytes, .dialect = options.dialect, .shared = options.shared, .persistent = options.persistent,
                 .rank = distributed::get_rank(), .ranks = options.ranks});
  Subject& subject = *made;
  BenchRow row{.name = kind.name, .bytes = bytes, .count = subject.count()};
  for (int number = 0; number < 2 * options.ranks; ++number) row.wrong += check_one_call(subject, number);
  double guess_us = std::max(time_calls(subject, 5, options.fresh), 0.05);
  int calls = static_cast<int>(std::clamp(options.seconds * 1e6 / guess_us, 4.0, static_cast<double>(most_calls)));
  calls = calls / options.ranks * options.ranks;  // every rank is root equally often
  if (calls == 0) calls = options.ranks;
  time_calls(subject, calls / 4 + 1, options.fresh);
  std::vector<double> times;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    subject.refresh();
    times.push_back(time_calls(subject, calls, options.fresh) / kind.ways);
    row.wrong += subject.wrong() + check_one_call(subject, repeat);
  }
  std::sort(times.begin(), times.end());
  row.least_us = times.front();
  row.median_us = times[times.size() / 2];
  row.algbw = static_cast<double>(row.bytes) / row.least_us * 1e-3;
  row.busbw = row.algbw * kind.bus_factor(options.ranks);
  std::vector<int64_t> wrong{row.wrong};
  distributed::all_reduce(view(wrong));
  row.wrong = wrong[0];
  return row;
}

int run_bench_rank(const BenchOptions& options) {
  distributed::init_process_group();
  const bool speaks = distributed::get_rank() == 0;
  if (speaks) print_head(options);
  std::vector<std::string> rows;
  int64_t wrong = 0;
  for (const SubjectKind* kind : options.subjects) {
    for (int64_t bytes : options.sizes) {
      BenchRow row = measure(*kind, bytes, options);
      double copy_us = kind->sized ? memcpy_us(bytes, 5) : 0;
      wrong += row.wrong;
      rows.push_back(json_of(row, options, copy_us));
      if (speaks)
        fmt::print("{:<15} {:>10} {:>10} {:>11.2f} {:>11.2f} {:>9.2f} {:>9.2f} {:>6} {:>12.2f}\n", row.name, bytes,
                   row.count, row.least_us, row.median_us, row.algbw, row.busbw, row.wrong, copy_us);
      std::fflush(stdout);
      if (!kind->sized) break;
    }
  }
  distributed::destroy_process_group();
  if (speaks && !options.json.empty() && !write_json(options.json, rows)) {
    fmt::print(stderr, "unisono bench: cannot write {}\n", options.json);
    return 1;
  }
  if (!speaks || wrong == 0) return 0;  // rank 0 fails for all: one that failed before it has spoken would have it ended
  fmt::print(stderr, "unisono bench: {} elements were wrong\n", wrong);
  return 1;
}

}  // namespace unisono::tools
