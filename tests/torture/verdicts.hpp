// What the outcomes of a program must be: of every action on every rank, whether nobody dies or somebody does.
#pragma once

#include "tests/torture/actor.hpp"

namespace unisono::testing {

void expect_outcomes(const Program& program, const Outcomes& outcomes, const Stage& stage);

}  // namespace unisono::testing
