// Letters from everybody to everybody, in both dialects: what an all_to_all moves, without its being one. See trial.hpp.
#include <algorithm>

#include "tests/support/forms.hpp"
#include "tests/support/guarded.hpp"
#include "unisono/comm_func.hpp"
#include "unisono/distributed.hpp"

namespace unisono::testing {
namespace {

// What goes to each rank, as this rank's part in the pattern of its data; lengths differ in pairs.
struct Letters {
  std::vector<GuardedPtr> given, got;
  std::vector<int64_t> starts;  // in each peer's data

  explicit Letters(const Scene& scene) {
    const int me = scene.me();
    auto start = [&](int from, int to) {
      int64_t at = 0;
      for (int before = 0; before < to; ++before) at += pair_count(scene.trial.count, from, before);
      return at;
    };
    for (int peer = 0; peer < scene.ranks(); ++peer) {
      given.push_back(guarded(scene.trial.dtype, scene.mine(), start(me, peer), pair_count(scene.trial.count, me, peer)));
      got.push_back(guarded(scene.trial.dtype, pair_count(scene.trial.count, peer, me)));
      starts.push_back(start(peer, me));
    }
  }
  void expect(const Scene& scene) const {
    for (int peer = 0; peer < scene.ranks(); ++peer) {
      if (peer == scene.me()) continue;
      const auto index = static_cast<size_t>(peer);
      got[index]->expect(scene.given(peer), starts[index], "letter from " + std::to_string(peer));
      got[index]->expect_guards("letter from " + std::to_string(peer));
    }
  }
};

Started start_batch(const Scene& scene) {
  using distributed::P2POp;
  auto letters = std::make_shared<Letters>(scene);
  std::vector<P2POp> batch;
  for (int peer = scene.ranks() - 1; peer >= 0; --peer) {
    if (peer == scene.me()) continue;
    const distributed::LetterOptions options{.group = scene.handle(), .group_peer = peer};
    batch.push_back({P2POp::Kind::irecv, letters->got[static_cast<size_t>(peer)]->view(), {}, options});
    batch.push_back({P2POp::Kind::isend, letters->given[static_cast<size_t>(peer)]->view(), {}, options});
  }
  if (scene.me() % 2) std::reverse(batch.begin(), batch.end());
  for (const WorkPtr& work : distributed::batch_isend_irecv(batch)) work->wait();
  return {nullptr, nullptr, [scene, letters] { letters->expect(scene); }};
}

// One after the other: of each pair, the lower rank sends first.
Started start_one_by_one(const Scene& scene) {
  auto letters = std::make_shared<Letters>(scene);
  for (int sum = 1; sum < 2 * scene.ranks() - 2; ++sum) {  // so that everybody comes to a pair in the same order
    const int peer = sum - scene.me();
    if (peer < 0 || peer >= scene.ranks() || peer == scene.me()) continue;
    const distributed::LetterOptions options{.group = scene.handle(), .tag = 3, .group_peer = peer};
    const auto index = static_cast<size_t>(peer);
    if (scene.me() < peer) distributed::send(letters->given[index]->view(), 0, options);
    distributed::recv(letters->got[index]->view(), {}, options);
    if (scene.me() > peer) distributed::send(letters->given[index]->view(), 0, options);
  }
  return {nullptr, nullptr, [scene, letters] { letters->expect(scene); }};
}

Started start_functional_batch(const Scene& scene) {
  using comm_func::P2POp;
  auto letters = std::make_shared<Letters>(scene);
  std::vector<P2POp> batch;
  for (int peer = 0; peer < scene.ranks(); ++peer) {
    if (peer == scene.me()) continue;
    const int rank = scene.group->world_rank(peer);
    batch.push_back({P2POp::Kind::isend, letters->given[static_cast<size_t>(peer)]->view(), rank, scene.group->name(), 5});
    batch.push_back({P2POp::Kind::irecv, letters->got[static_cast<size_t>(peer)]->view(), rank, scene.group->name(), 5});
  }
  std::vector<Tensor> outputs = comm_func::batch_isend_irecv(batch);
  return {nullptr, nullptr, [scene, letters, outputs] {
            size_t place = 1;
            for (int peer = 0; peer < scene.ranks(); ++peer) {
              if (peer == scene.me()) continue;
              const auto index = static_cast<size_t>(peer);
              letters->got[index]->expect_untouched("the tensor that only lends its shape");
              const int64_t wrong = scene.given(peer).difference(static_cast<const std::byte*>(outputs[place].data()), letters->starts[index],
                                                                 outputs[place].count());
              EXPECT_EQ(wrong, -1) << "letter from " << peer;
              place += 2;
            }
          }};
}

// clang-format off
constexpr Form forms[] = {
    // name                                                 collective     rooted reduces lists async
    {"batch_isend_irecv", Dialect::distributed, Collective::all_to_all, false, false, true, false, start_batch},
    {"send, recv", Dialect::distributed, Collective::all_to_all, false, false, true, false, start_one_by_one},
    {"batch_isend_irecv", Dialect::comm_func, Collective::all_to_all, false, false, true, false, start_functional_batch},
};
// clang-format on

}  // namespace

std::span<const Form> letter_forms() { return forms; }

}  // namespace unisono::testing
