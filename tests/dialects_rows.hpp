// The rows of docs/dialects.md as tests: a row's id, and what asserts its statement. dialects_test.cpp runs them all and
// holds the table and the two pages together; the rows of each section are in dialects_rows_<section>.cpp.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/test_world.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {

struct Row {
  std::string_view id;
  void (*live)(TestWorld&) = nullptr;  // on each of three ranks, as threads and as processes
  void (*alone)() = nullptr;           // or once: for types and defaults, and for rows that start worlds of their own
};

// One table a section of the page.
std::span<const Row> all_reduce_rows();
std::span<const Row> all_gather_rows();
std::span<const Row> reduce_scatter_rows();
std::span<const Row> reduce_rows();
std::span<const Row> scatter_rows();
std::span<const Row> broadcast_rows();
std::span<const Row> tensor_rows();
std::span<const Row> correction_rows();
std::span<const Row> async_rows();
std::span<const Row> number_rows();
std::span<const Row> error_rows();
std::span<const Row> better_rows();

using Ints = std::vector<int32_t>;
using Floats = std::vector<float>;

// The call throws exactly this type, and its text has these words.
template <typename Expected>
void expect_error(const std::function<void()>& call, const std::vector<std::string>& words = {}) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Expected& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << "no \"" << word << "\" in: " << error.what();
  } catch (const std::exception& other) {
    ADD_FAILURE() << "another error: " << other.what();
  }
}

// One rank's arguments are refused: an ArgumentError there, a PeerArgumentError naming it on the others, and the group
// goes on. `word` is in both texts.
void expect_refusal(TestWorld& world, int refuser, const std::function<void()>& call, const std::string& word);
// Everybody's are: an ArgumentError with these words on every rank of the group, and the group goes on.
void expect_all_refuse(const std::function<void()>& call, const std::vector<std::string>& words, const GroupHandle& group = {});
// A MismatchError with these words on every rank, and the group goes on.
void expect_mismatch(const std::function<void()>& call, const std::vector<std::string>& words);

// ---- One small call of each function, for the rows about parameters that all functions share.

struct How {                            // what a sample call is told
  int me = 0;                           // the world's number of this rank
  std::vector<int> members = {};        // of the group, in its order
  GroupHandle group = {};               // the group for distributed
  std::string name = comm_func::world;  // the group for comm_func
  bool async_op = false;
  std::optional<double> timeout_s = {};
};

struct Buffers {
  Ints input, output, before;  // `before`: what the call found in the output
  std::vector<TensorView> list;
  Tensor result;  // comm_func's
};

struct Pending {
  bool given = false;  // whether there was a Work or a CommHandle
  std::function<void()> wait;
};

// Rank r gives 10 r + 1; the root is the group's first member.
struct Sample {
  Pending (*call)(const How& how, Buffers& buffers) = nullptr;
  Ints (*expected)(const How& how) = nullptr;
};

namespace samples {
extern const Sample all_reduce, all_gather, all_gather_into_tensor, reduce_scatter, reduce_scatter_tensor, reduce, scatter,
    broadcast, barrier;
namespace functional {
extern const Sample all_reduce, all_gather_into_tensor, reduce_scatter_tensor, reduce, scatter_tensor, broadcast, barrier;
}
}  // namespace samples

using Samples = std::vector<const Sample*>;

// Each makes calls on every rank and asserts one thing of all the samples.
void expect_group_followed(TestWorld& world, const Samples& samples);       // ranks {2, 0}, in that order
void expect_world_by_default(TestWorld& world, const Samples& samples);
void expect_nothing_outside(TestWorld& world, const Sample& in_place);      // nothing happens, with and without async_op
void expect_refused_outside(TestWorld& world, const Sample& functional);    // ArgumentError naming rank and group
void expect_sync_returns_nothing(TestWorld& world, const Samples& samples);
void expect_async_returns_at_once(TestWorld& world, const Samples& samples);
void expect_own_deadline(TestWorld& world, const Sample& in_place);         // timeout_s of the call
void expect_group_deadline(TestWorld& world, const Sample& functional);     // timeout_s of the group

// Fields that an options struct has, or has not.
template <typename Options>
concept HasAsyncOp = requires(Options options) { options.async_op; };
template <typename Options>
concept HasTimeout = requires(Options options) { options.timeout_s; };
template <typename Options>
concept HasDeviceIds = requires(Options options) { options.device_ids; };
template <typename Options>
concept HasGroupRoot = requires(Options options) { options.group_dst; } || requires(Options options) { options.group_src; };

inline int32_t total(const Ints& numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0); }
inline Shape shape_of(std::initializer_list<int64_t> sizes) { return Shape(sizes); }
template <typename T>
std::vector<T> repeated(int64_t count, T value) {
  return std::vector<T>(static_cast<size_t>(count), value);
}

}  // namespace unisono::testing
