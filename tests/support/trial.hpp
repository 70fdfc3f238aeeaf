// One call of a collective with everything around it: inputs made, guards laid, the call started, and afterwards every
// byte that may and may not have changed compared with the oracle. A form is one way of calling one function.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "group/group.hpp"
#include "tests/support/oracle.hpp"
#include "unisono/group.hpp"
#include "unisono/types.hpp"
#include "unisono/work.hpp"

namespace unisono::testing {

struct Form;

struct Trial {
  const Form* form = nullptr;
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;  // read by reductions
  int64_t count = 0;            // elements of the data, or of one piece
  int root = 0;                 // a rank of the group; read by rooted forms
  bool async_op = false;        // where the form has it

  std::string text() const;
};

// A call under way. Waiting is the caller's business; `check` is called after it and knows what must be true then.
struct Started {
  WorkPtr work;  // null unless asynchronous
  CommHandlePtr handle;
  std::function<void()> check;

  void wait() const;
  void finish() const {  // waits and checks
    wait();
    check();
  }
};

// What a form's function is given.
struct Scene {
  Trial trial;
  std::shared_ptr<Group> group;
  const Patterns* patterns;

  int me() const { return group->me(); }
  int ranks() const { return group->size(); }
  bool is_root() const { return me() == trial.root; }
  int global_root() const { return group->world_rank(trial.root); }
  GroupHandle handle() const { return GroupHandle(group); }
  const Pattern& given(int rank) const { return patterns->given[static_cast<size_t>(rank)]; }
  const Pattern& mine() const { return given(me()); }
  const Pattern& reduced() const { return *patterns->reduced; }
  const Pattern& reduced_up_to(int rank) const { return patterns->partial[static_cast<size_t>(rank)]; }
};

enum class Dialect { distributed, comm_func };

struct Form {
  std::string_view name;
  Dialect dialect;
  Collective collective;
  bool rooted, reduces, lists;
  bool has_async;
  Started (*start)(const Scene& scene);
};

std::span<const Form> all_forms();
bool takes(const Form& form, const ReduceOp& op);  // scans take no avg
const Form& form_named(std::string_view name, Dialect dialect);

Started start(const Trial& trial, const std::shared_ptr<Group>& group);
// Starts, waits and checks. Failures name the trial and the rank.
void perform(const Trial& trial, const std::shared_ptr<Group>& group);
// Makes all patterns that these trials need, so that ranks started later find them there.
void make_patterns_of(std::span<const Trial> trials, int ranks);

}  // namespace unisono::testing
