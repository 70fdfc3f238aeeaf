// Starting and finishing trials; the forms themselves are in forms_*.cpp.
#include "tests/support/trial.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/forms.hpp"

namespace unisono::testing {
namespace {

std::vector<Form> collect_forms() {
  std::vector<Form> forms;
  for (std::span<const Form> part :
       {distributed_forms(), comm_func_forms(), exchange_forms(), coalesced_forms(), prepared_forms(), scan_forms(),
        letter_forms()})
    forms.insert(forms.end(), part.begin(), part.end());
  return forms;
}

const Patterns& patterns_of(const Trial& trial, int ranks) {
  return trial.form->reduces ? reducing_patterns(trial.dtype, trial.op, ranks) : moving_patterns(trial.dtype, ranks);
}

}  // namespace

std::span<const Form> all_forms() {
  static const std::vector<Form> forms = collect_forms();
  return forms;
}

bool takes(const Form& form, const ReduceOp& op) {
  const bool scans = form.collective == Collective::scan || form.collective == Collective::exscan;
  return !scans || op.kind != ReduceKind::avg;
}

const Form& form_named(std::string_view name, Dialect dialect) {
  for (const Form& form : all_forms())
    if (form.name == name && form.dialect == dialect) return form;
  ADD_FAILURE() << "there is no form " << name;
  return all_forms().front();
}

std::string Trial::text() const {
  constexpr std::string_view dialects[] = {"distributed", "comm_func"};
  std::string text = fmt::format("{}::{}{} {}[{}]", dialects[static_cast<size_t>(form->dialect)], form->name,
                                 async_op ? " (asynchronous)" : "", name_of(dtype), count);
  if (form->reduces) text += fmt::format(" {}", name_of(op.kind));
  if (form->rooted) text += fmt::format(" root {}", root);
  return text;
}

void Started::wait() const {
  if (work) work->wait();
  if (handle) handle->wait();
}

Started start(const Trial& trial, const std::shared_ptr<Group>& group) {
  Scene scene{trial, group, &patterns_of(trial, group->size())};
  Started started = trial.form->start(scene);
  const bool is_async = trial.async_op && trial.form->has_async;
  EXPECT_EQ(started.work || started.handle, is_async)
      << trial.text() << ": a Work comes back when asked for, and only then";
  auto check = [scene, check_form = std::move(started.check)] {
    SCOPED_TRACE(fmt::format("{}, rank {} of {}", scene.trial.text(), scene.me(), scene.ranks()));
    check_form();
  };
  return {started.work, started.handle, check};
}

void perform(const Trial& trial, const std::shared_ptr<Group>& group) { start(trial, group).finish(); }

void make_patterns_of(std::span<const Trial> trials, int ranks) {
  for (const Trial& trial : trials) patterns_of(trial, ranks);
}

}  // namespace unisono::testing
