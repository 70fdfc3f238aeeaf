// Processes under a test's control: the test reads what they write while they run, signals them and waits for them, all
// against one deadline, so that a child that hangs fails a test instead of stopping it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "tests/support/test_world.hpp"

namespace unisono::testing {

// Whether an expectation failed since this was made. A forked child has its parent's failures too, which are none of its own.
class FailuresSince {
 public:
  FailuresSince();
  bool any() const;
  std::string text() const;  // what they say, as lines

 private:
  size_t before_;
};

class Children {
 public:
  // Starts `count` processes; each runs body(index) and ends with 0, or with 1 when an expectation failed in it.
  // All that it waits for has to happen within `patience_s`.
  Children(int count, const std::function<void(int)>& body, double patience_s = 40);
  ~Children();  // whoever still runs is killed
  Children(const Children&) = delete;

  int count() const { return static_cast<int>(children_.size()); }
  pid_t pid(int index) const { return at(index).pid; }
  const std::string& output(int index) const { return at(index).output; }
  void signal(int index, int number) const;
  void kill(int index) const;
  // When. Of several, all are stopped first, so that none lives to see another's death and ends in good order.
  int64_t kill_together(const std::vector<int>& indices) const;

  // Each fails the test when what it waits for has not happened within the deadline.
  void await_output(int index, const std::string& text);
  void await_asleep(int index) const;   // its main thread sleeps in the kernel
  void await_stopped(int index) const;  // by SIGSTOP
  std::vector<Ending> wait();           // until all of them have ended

 private:
  struct Child {
    pid_t pid = -1;
    Descriptor pipe;
    std::string output;
    bool reaped = false;
    Ending ending;
  };
  const Child& at(int index) const { return children_[static_cast<size_t>(index)]; }
  bool read_once();
  bool await_state(int index, const std::string& states) const;

  Deadline deadline_;
  std::vector<Child> children_;
};

// Joins as rank `rank`, runs the body as that rank and leaves. A world that could not be joined, and an exception that
// leaves the body, fail the test.
struct WorldChoice {
  int size = 1;
  std::string job = unique_job();
  Settings settings = Worlds::test_settings();
};
void as_rank(int rank, const WorldChoice& choice, const Body& body);
// The same and without leaving, as a program that forgets to.
void as_rank_that_stays(int rank, const WorldChoice& choice, const Body& body);

// Whether that thread sleeps in the kernel before patience ends.
bool await_asleep(pid_t process, pid_t thread);

// Looks again and again, every millisecond, until it is so or the deadline has passed.
bool await(const std::function<bool()>& is_so, double patience_s = 30);

void expect_all_succeeded(const std::vector<Ending>& endings);

// UNISONO_TEST_SMALL: a slice, for sanitizers. UNISONO_TEST_FULL: everything.
bool small_run();
bool full_run();

// Whether this run puts the ranks of every world onto several hosts, pretended or machines, where who only gives to others may have returned before
// they fail.
bool spans_hosts();
bool under_sanitizer();
bool under_thread_sanitizer();  // which cannot follow a fork of a process with threads

}  // namespace unisono::testing
