// What is concluded from refused connections; see transport/proofs.hpp.
#include "transport/proofs.hpp"

#include <gtest/gtest.h>

namespace unisono {
namespace {

const Address here = *Address::parse("10.0.0.2:4000"), there = *Address::parse("10.0.0.2:4001"), elsewhere = *Address::parse("172.17.0.1:4000");
constexpr int64_t once_ns = 1'000'000'000, soon_ns = once_ns + Proofs::again_after_ns / 2, later_ns = once_ns + Proofs::again_after_ns;

TEST(Proofs, one_refusal_is_none) {
  Proofs proofs;
  proofs.note_reached(3, here);
  proofs.note_refused(3, here, false, once_ns);
  EXPECT_TRUE(proofs.is_refused(3));
  EXPECT_FALSE(proofs.is_refused_again(3));
  proofs.note_refused(3, here, false, soon_ns);
  EXPECT_FALSE(proofs.is_refused_again(3)) << "a box on the way may do so for a moment";
  proofs.note_refused(3, here, false, later_ns);
  EXPECT_TRUE(proofs.is_refused_again(3));
  EXPECT_FALSE(proofs.is_refused(2)) << "of another rank nothing is said";
}

TEST(Proofs, only_where_the_rank_was_counts_or_everywhere) {
  Proofs proofs;
  proofs.note_reached(3, here);
  for (const int64_t now_ns : {once_ns, later_ns}) proofs.note_refused(3, elsewhere, false, now_ns);
  EXPECT_FALSE(proofs.is_refused(3)) << "this machine has a docker0 of that address itself";
  for (const int64_t now_ns : {once_ns, later_ns}) proofs.note_refused(3, elsewhere, true, now_ns);
  EXPECT_TRUE(proofs.is_refused_again(3));
}

TEST(Proofs, where_it_came_from_it_was_whatever_the_port) {
  Proofs proofs;
  proofs.note_came(3, there);
  for (const int64_t now_ns : {once_ns, later_ns}) proofs.note_refused(3, here, false, now_ns);
  EXPECT_TRUE(proofs.is_refused_again(3));
}

TEST(Proofs, whoever_is_there_after_all_begins_anew) {
  for (const auto& sign : {+[](Proofs& proofs) { proofs.note_reached(3, here); }, +[](Proofs& proofs) { proofs.note_came(3, there); },
                           +[](Proofs& proofs) { proofs.note_answered(3, here); }, +[](Proofs& proofs) { proofs.forget_refusals(3); }}) {
    Proofs proofs;
    proofs.note_reached(3, here);
    proofs.note_refused(3, here, false, once_ns);
    sign(proofs);
    EXPECT_FALSE(proofs.is_refused(3));
    proofs.note_refused(3, here, false, later_ns);
    EXPECT_FALSE(proofs.is_refused_again(3)) << "long ago is no sign of now";
  }
}

TEST(Proofs, an_answer_from_elsewhere_is_none_of_the_ranks) {
  Proofs proofs;
  proofs.note_reached(3, here);
  proofs.note_refused(3, here, false, once_ns);
  proofs.note_answered(3, elsewhere);
  EXPECT_TRUE(proofs.is_refused(3));
}

TEST(Proofs, the_address_that_worked_goes_first) {
  Proofs proofs;
  const std::vector<Address> all = {elsewhere, here};
  EXPECT_EQ(proofs.in_order(3, all), all);
  proofs.note_reached(3, here);
  EXPECT_EQ(proofs.in_order(3, all), (std::vector<Address>{here, elsewhere}));
}

}  // namespace
}  // namespace unisono
