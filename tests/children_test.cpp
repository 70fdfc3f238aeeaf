// The harness itself: what a child process answers for.
#include "tests/support/children.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace unisono::testing {
namespace {

// Ends a process of its own with what `body` says, whatever has failed in it.
void expect_true_in_a_child(const std::function<bool()>& body) {
  expect_all_succeeded(Children(1, [&](int) { _exit(body() ? 0 : 1); }).wait());
}

TEST(Child, that_failed_says_so) {
  expect_true_in_a_child([] { return !Children(1, [](int) { ADD_FAILURE() << "on purpose"; }).wait()[0].succeeded(); });
  expect_true_in_a_child([] { return !run_processes(1, Worlds::test_settings(), [](TestWorld&) { ADD_FAILURE() << "on purpose"; })[0].succeeded(); });
}

TEST(Child, does_not_answer_for_what_failed_before_it_was_started) {
  expect_true_in_a_child([] {
    ADD_FAILURE() << "on purpose";
    return Children(1, [](int) {}).wait()[0].succeeded();
  });
  expect_true_in_a_child([] {
    ADD_FAILURE() << "on purpose";
    return run_processes(1, Worlds::test_settings(), [](TestWorld&) {})[0].succeeded();
  });
}

}  // namespace
}  // namespace unisono::testing
