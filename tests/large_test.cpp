// More than 2^31 elements and more than 4 GiB. The tensors are larger than this machine's memory may be: a few MiB are mapped
// again and again, one after the other, so what is in them repeats, and only what leaves it as it is can be checked.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/scale.hpp"
#include "tests/support/test_world.hpp"

namespace unisono {
namespace {

using testing::for_each_world;
using testing::Kind;
using testing::ranks;
using testing::TestWorld;

constexpr int64_t window_bytes = 64 << 20;

class Repeated {
 public:
  explicit Repeated(int64_t bytes) : bytes_((bytes + window_bytes - 1) / window_bytes * window_bytes) {
    const int file = memfd_create("repeated", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, window_bytes) != 0) throw std::runtime_error("no memory to repeat");
    void* place = mmap(nullptr, static_cast<size_t>(bytes_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) throw std::runtime_error("no addresses");
    data_ = static_cast<uint8_t*>(place);
    for (int64_t at = 0; at < bytes_; at += window_bytes)
      if (mmap(data_ + at, window_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        throw std::runtime_error("no more mappings");
    close(file);
  }
  ~Repeated() { munmap(data_, static_cast<size_t>(bytes_)); }
  Repeated(const Repeated&) = delete;

  uint8_t* data() const { return data_; }
  void fill(uint8_t seed) const {
    for (int64_t index = 0; index < window_bytes; ++index) data_[index] = static_cast<uint8_t>(seed + index % 251);
  }
  void expect(uint8_t seed, const char* what) const {
    for (int64_t index = 0; index < window_bytes; ++index)
      ASSERT_EQ(data_[index], static_cast<uint8_t>(seed + index % 251)) << what << " at " << index;
  }
  TensorView bytes(int64_t count) const { return {data_, DType::uint8, Shape{count}}; }

 private:
  int64_t bytes_;
  uint8_t* data_;
};

constexpr int64_t beyond_31_bits = (int64_t{1} << 31) + 5, beyond_4_gib = (int64_t{4} << 30) + 12'345;

// The maximum of what is there and what was there before is what is there: repeating it changes nothing.
TEST(Large, all_reduce_of_more_than_two_to_the_31_elements) {
  for_each_world(ranks(2).with(Kind::processes), [](TestWorld& world) {
    Repeated data(beyond_31_bits);
    data.fill(world.rank() == 0 ? 3 : 0);
    if (world.rank() == 1) std::fill_n(data.data(), window_bytes, uint8_t{0});
    distributed::all_reduce(data.bytes(beyond_31_bits), {.op = ReduceOp::max});
    data.expect(3, "the maximum");
  });
}

TEST(Large, letters_of_more_than_4_gib) {
  for_each_world(ranks(2).with(Kind::processes), [](TestWorld& world) {
    Repeated data(beyond_4_gib);
    data.fill(world.rank() == 0 ? 9 : 0);
    if (world.rank() == 0)
      distributed::send(data.bytes(beyond_4_gib), 1);
    else
      distributed::recv(data.bytes(beyond_4_gib), 0);
    data.expect(9, "the letter");
  });
}

TEST(Large, broadcast_and_gathering_of_more_than_4_gib) {
  if (testing::scale() != testing::Scale::full) GTEST_SKIP() << "with UNISONO_TEST_FULL=1";
  for (const char* reads : {"auto", "off"})
    for_each_world(ranks({2, 3}).with(Kind::processes).with([&](Settings& settings) { settings.peer_reads = reads; }), [](TestWorld& world) {
      Repeated whole(3 * beyond_31_bits), part(beyond_31_bits);
      whole.fill(world.rank() == 1 ? 5 : 0);
      distributed::broadcast(whole.bytes(beyond_4_gib), {.src = 1});
      whole.expect(5, "broadcast");
      part.fill(7);  // of all ranks: the windows of the output lie one upon the other
      const int64_t each = window_bytes * 33;
      Repeated gathered(each * world.ranks());
      distributed::all_gather_into_tensor(gathered.bytes(each * world.ranks()), part.bytes(each));
      gathered.expect(7, "all_gather");
      Repeated exchanged(each * world.ranks());
      distributed::all_to_all_single(exchanged.bytes(each * world.ranks()), gathered.bytes(each * world.ranks()));
      exchanged.expect(7, "all_to_all");
      distributed::reduce_scatter_tensor(part.bytes(each), exchanged.bytes(each * world.ranks()), {.op = ReduceOp::band});
      part.expect(7, "reduce_scatter");
    });
}

}  // namespace
}  // namespace unisono
