"""What each check must find and must leave alone. A line that ends with `//!` is a fault; every other line is fine.

A sample is {path: text}; the marks are taken off before the check sees the text.
"""
from tidy import builds, checks, documents, functions, walls
from tidy.samples_functions import FUNCTIONS

LONG = "\n".join(f"  step({index});" for index in range(80))

SAMPLES = {
    walls.check_include_walls: {
        "src/transport/ring.hpp": """
#include "base/check.hpp"
#include "schedule/step.hpp"  //!
#include <thread>
""",
        "src/algorithms/ring.cpp": """
#include <vector>
#include "schedule/step.hpp"
#include "transport/ring.hpp"  //!
#include <chrono>              //!
#include <sys/socket.h>        //!
""",
        "src/base/log.cpp": """
#include <fmt/format.h>
#include "kernels/kernels.hpp"  //!
#include "log.hpp"              //!
#include <hwy/highway.h>        //!
#include "hwy/highway.h"        //!
// #include "kernels/kernels.hpp"
""",
        "src/engine/run.cpp": """
#include "kernels/kernels.hpp"
#include "engine/run.hpp"
#include "planner/planner.hpp"  //!
""",
        "src/dialects/distributed.cpp": """
#include "group/group.hpp"
#include "engine/run.hpp"  //!
""",
        "src/group/group.cpp": """
#include "planner/planner.hpp"
#include "tools/bench.hpp"  //!
#include "unisono/group.hpp"
""",
        "src/surprise/new.cpp": "//!\n",
        "include/unisono/group.hpp": """
#include <memory>
#include "unisono/status.hpp"
#include "base/check.hpp"  //!
#include <fmt/format.h>    //!
#include <sys/types.h>     //!
""",
        "include/unisono/unisono.h": """
#include <stdint.h>
#include <vector>                //!
#include <sys/types.h>           //!
""",
        "tools/bench.cpp": """
#include <CLI/CLI.hpp>
#include "tools/bench.hpp"
#include "engine/run.hpp"
""",
        "tests/run_test.cpp": """
#include <gtest/gtest.h>
#include "engine/run.hpp"
#include "tests/support/world.hpp"
#include "tools/bench.hpp"
""",
    },
    checks.check_file_length: {
        "src/base/long.cpp": "int line();\n" * 400 + "int line(); //!\n",
        "src/base/just_right.cpp": "int line();\n" * 400,
        "docs/long.md": "a line\n" * 900,
    },
    checks.check_function_length: {
        "src/base/long.cpp": f"""
namespace unisono {{
namespace {{
const char* braces = "{{{{{{";  // {{ in a comment
constexpr Row rows[] = {{
{LONG}
}};
class Long {{
{LONG}
  explicit Long(int a) : a_{{a}}, b_(a) {{  //!
{LONG}
  }}
  bool operator()(int a, int b) const noexcept {{ //!
{LONG}
  }}
}};
template <typename T>                        //!
  requires(sizeof(T) > 4)
auto long_function(T value, std::map<int, T> map = {{}}) -> Result<T> {{
{LONG}
}}
void short_function() {{ if (true) {{ return; }} }}
#ifdef X
void either() {{
#else
void or_else() {{
#endif
}}
enum class Many {{
{LONG}
}};
}}  // namespace
}}  // namespace unisono
""",
        "tests/long_test.cpp": f"TEST(Suite, a_sentence) {{ //!\n{LONG}\n}}\nstruct World {{\n{LONG}\n}};\n",
    },
    checks.check_parameter_count: {
        "src/base/many.cpp": """
void six(int a, int b, int c, int d, int e, int f) {} //!
void five(int a, std::map<int, int> b, std::function<void(int, int, int)> c, int d = f(1, 2), int e = 3) {}
int call = six(1, 2, 3, 4, 5, 6);
void declared_elsewhere(int a, int b, int c, int d, int e, int f);
template <typename A, typename B, typename C, typename D, typename E, typename F>
void none() { six(1, 2, 3, 4, 5, 6); }
struct Six {
  Six(int a, int b, int c, int d, int e, int f) : a_(a) {} //!
  bool operator<(const Six& other) const { return true; }
  void operator()(int a, int b, int c, int d, int e, int f) {} //!
};
void Six::method(int a, int b, int c,  //!
                 int d, int e, int f) const {}
void none(void) {}
auto lambda = [](int a, int b, int c, int d, int e, int f) { return a; };
""",
        "src/dialects/c_collectives.cpp": """
int unisono_six(int a, int b, int c, int d, int e, int f) { return a; }
int helper_of_six(int a, int b, int c, int d, int e, int f) { return a; } //!
""",
    },
    checks.check_macros: {
        "src/base/check.hpp": """
#define CHECK(condition) \\
  do {} while (false)
#define FAULT_POINT(name)
#define MINE 1  //!
""",
        "src/group/group.cpp": """
#define CHECK(x)         //!
#  define HELPER(x) x    //!
HWY_ATTR void f();       //!
// #define X
""",
        "include/unisono/unisono.h": """
#define UNISONO_UNISONO_H
#define UNISONO_VERSION_MAJOR 0
#define UNISONO_MAXIMUM 3        //!
""",
        "include/unisono/group.hpp": "#define UNISONO_VERSION_MAJOR 0 //!\n",
        "tests/c_api/ranks.h": """
#define UNISONO_TESTS_C_API_RANKS_H
#define EXPECT(x) //!
""",
        "src/kernels/sum.cpp": """
#define HWY_TARGET_INCLUDE "kernels/sum.cpp"
HWY_BEFORE_NAMESPACE();
""",
    },
    checks.check_goto: {
        "src/base/jump.cpp": """
goto end;  //!
// goto is a word
print("goto");
int goto_count;
""",
    },
    checks.check_owning_pointers: {
        "src/dialects/default_world.cpp": "static World* world = new World;\n",
        "src/base/own.cpp": """#include <new>
int* a = new int; //!
delete a; //!
Own(const Own&) = delete;
new (place) Line();
return std::unique_ptr<Arena>(new Arena(std::move(descriptor)));
std::shared_ptr<World> world(new World(options));
auto* b = new (std::nothrow) Line(); //!
void* c = malloc(3); //!
std::free(c); //!
return free(c); //!
lane.free(3);
lanes->free(3);
void free(int lane);
Status Lanes::free(int lane) {}
// a new day, delete it
int new_count, free_count;
void* operator new(size_t bytes);
""",
        "tests/own_test.cpp": "int* a = new int;\n",
    },
    walls.check_protocol: {
        "src/group/members.hpp": "lanes_.word(me(), call).store(word, std::memory_order_release);\n",
        "src/group/queue.cpp": """
queued_.fetch_add(1, std::memory_order_seq_cst);  //!
lanes_.wake_peers();                              //!
LaneControl& control = members_.control();        //!
queued_ += 1;
members_.wake_others();
airplanes_.land();
""",
    },
    walls.check_link_steps: {
        "src/engine/run_links.cpp": """
router_.to(lanes_.member(peer).rank);
lanes_.wake_peers();                          //!
lanes_.control(peer).flags[0].load();         //!
std::atomic_thread_fence(std::memory_order_acquire);  //!
""",
    },
    checks.check_environment: {
        "src/base/environment.cpp": 'auto home = getenv("HOME");\n',
        "src/group/group.cpp": """
auto home = std::getenv("HOME");  //!
extern char** environ;            //!
Environment environment;
setenv(1);
""",
        "tests/live_test.cpp": 'auto home = ::getenv("HOME"); //!\n',
    },
    checks.check_dtype_switches: {
        "src/kernels/reduce.cpp": "case DType::int8: break;\n",
        "src/group/group.cpp": """
case DType::int8: break;            //!
case unisono::DType::int16: break;  //!
using enum DType;                   //!
if (dtype == DType::int8) {}
return in_case(DType::int8);
""",
    },
    checks.check_globals: {
        "src/dialects/default_world.cpp": "World* world = nullptr;\n",
        "src/base/global.cpp": """
namespace unisono {
namespace {
int counter = 0; //!
std::atomic<int> hits{0}; //!
std::map<std::string, int> cache; //!
thread_local int depth; //!
const char* current = nullptr; //!
Settings settings; //!
int table[3] = {1, 2, 3}; //!
const char* const name = "x";
constexpr int limit = 3;
const std::map<int, int*> map{{1, nullptr}};
constexpr Rule rules[] = {{1, 2}, {3, 4}};
inline constexpr ReduceOp ReduceOp::sum{1, 1.0};
using Rank = int;
struct Forward;
enum class Later : int;
extern template class Result<int>;
static int helper(int a);
Status function(int a, int b);
template <typename T> T identity(T value) { return value; }
static_assert(sizeof(int) == 4);
struct Value { int field = 0; std::string name; };
class Counter {
  static int shared_; //!
  static constexpr int fixed = 1;
  static const ReduceOp sum, avg;
  static Status success() { return {}; }
  int own_ = 0;
};
void function() {
  static int calls = 0; //!
  static const int once = start();
  static constexpr int table[] = {1};
  thread_local std::string text; //!
  int local = 0;
  [[maybe_unused]] auto x = static_cast<int>(local);
}
}  // namespace
}  // namespace unisono
""",
        "tests/global_test.cpp": "int counter = 0;\n",
    },
    checks.check_sleeps: {
        "tests/slow_test.cpp": """
std::this_thread::sleep_for(1s);  //!
usleep(3);                        //!
::sleep(3);                       //!
sleep(1);                         //!
rank.sleep(3);
// sleep_for
""",
        "src/base/clock.cpp": "nanosleep(&time, nullptr);\n",
    },
    checks.check_atomics_are_argued: {
        "src/transport/bare.hpp": "// A counter.\nstd::atomic<int> counter; //!\nstd::atomic<int> other;\n",
        "src/transport/argued.hpp": "// A counter.\n// Who writes: the sender.\nstd::atomic<int> counter;\n",
        "src/transport/ordered.hpp": "// Order: release, then acquire.\nstd::atomic_ref<int> counter(x);\n",
        "src/transport/late.hpp": "\n" * 50 + "// Who writes: nobody.\nstd::atomic<int> counter; //!\n",
    },
    checks.check_unfinished_marks: {
        "src/base/undone.cpp": "// TO" + "DO: write it //!\nint to_do;\nauto name = \"/tmp/x.XXXXXX\";\n",
        "README.md": "FIX" + "ME //!\n",
    },
    documents.check_links: {
        "README.md": """
# Title
[good](docs/page.md) and [bad](docs/none.md) //!
[web](https://example.org/none) and `[code](none.md)`
[heading](docs/page.md#two-words-and-more) and [none](docs/page.md#three) //!
[here](#title) and [a directory](docs)
```
[fenced](none.md)
```
""",
        "docs/page.md": """
# One
## Two words, and `more`
[up](../README.md#title) [中](#中文)
[wrong](README.md) //!
## 中文
""",
    },
    documents.check_readme_snippets: {
        "README.md": """
<!-- test: program.cpp -->
```cpp
int x;
```

```cpp //!
int y;
```
``` //!
what
```
```text
prints
```
""",
        "docs/c.md": "<!-- test: main.c -->\n```c\nint x;\n```\n\n```c //!\nint z;\n```\n",
        "docs/page.md": "```cpp\nint z;\n```\n",
    },
    functions.check_functions_have_rows: FUNCTIONS,
    builds.check_sources_are_built: {
        "src/base/built.cpp": "int a;\n",
        "src/base/forgotten.cpp": "int b; //!\n",
        "tests/install/main.cpp": "int main() {}\n",
    },
    builds.check_headers_stand_alone: {
        "src/base/built.cpp": '#include "base/built.hpp"\n',
        "src/base/built.hpp": "#pragma once\nstd::string a_build_would_have_failed();\n",
        "src/base/whole.hpp": "#pragma once\n#include <string>\nstd::string text();\nstruct Whole {};\n",
        "src/base/user.hpp": '#pragma once\n#include "base/whole.hpp"\nstd::string text(Whole);\n',
        "src/base/lame.hpp": "#pragma once //!\nstd::string text();\n",
        "src/base/unguarded.hpp": "struct Unguarded {}; //!\n",
        "include/unisono/inward.hpp": '#pragma once //!\n#include "base/whole.hpp"\n',
    },
}
