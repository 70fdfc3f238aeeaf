// Writes random programs; see program.hpp.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "algorithms/catalogue.hpp"
#include "tests/torture/dice.hpp"
#include "tests/torture/program.hpp"

namespace unisono::testing {

class Author {
 public:
  Author(uint64_t seed, const Scope& scope) : dice_(seed), scope_(scope) { program_.seed = seed; }
  Program write();

 private:
  void choose_world();
  void choose_plan();
  void choose_victims();
  bool spans_hosts(const Circle& circle) const;
  void write_action();
  void write_call(int circle);
  void write_make();
  void write_split(int parent);
  void write_destroy(int circle);
  void write_differ(int circle);
  void write_refuse(int circle);
  void write_finish();

  Trial random_trial(int members);
  int64_t random_count(const Trial& trial, int members);
  CallChoice random_choice(int members);
  CallChoice another(const CallChoice& usual, int members);
  std::optional<int> some_circle(const std::function<bool(int)>& fits);
  std::string free_name();
  int add_circle(Circle circle);

  Dice dice_;
  Scope scope_;
  Program program_;
  std::map<Collective, const Algorithm*> algorithms_;  // those that the plan prescribes
  std::set<int> refused_on_;                           // circles where a call was refused
  int under_way_ = 0;                                  // asynchronous calls not waited for
};

}  // namespace unisono::testing
