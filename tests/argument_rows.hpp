// The wrong calls that argument_test.cpp makes: rank 1 of 3 makes them, unless a row says otherwise.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/calls.hpp"
#include "unisono/comm_func.hpp"

namespace unisono::testing {

struct Refusal {
  std::string name;
  Collective kind;                 // which the others call rightly
  std::vector<std::string> words;  // of the refusal's text: the argument, and what is wrong with it
  std::function<void(TestWorld&, Scratch&)> wrong_call;
  int rank = 1;
};

std::vector<Refusal> tensor_refusals();
std::vector<Refusal> list_refusals();
std::vector<Refusal> overlap_refusals();
std::vector<Refusal> root_refusals();
std::vector<Refusal> operation_refusals();
std::vector<Refusal> comm_func_refusals();

}  // namespace unisono::testing
