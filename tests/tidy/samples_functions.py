"""A small project with a page of functions: see samples.py. A line that ends with `//!` is a fault."""

FUNCTIONS = {
    "docs/functions.md": """
# Functions
| `elsewhere(a)` | [none_test](../tests/none_test.cpp) |
### unisono/distributed.hpp
| function | tests |
| `all_reduce(tensor, {op, group})` | [collectives_test](../tests/collectives_test.cpp) |
| `send(tensor)` | [letters_test](../tests/letters_test.cpp) |
| `isend(tensor, dst)` | [letters_test](../tests/letters_test.cpp) | //!
| `gone(tensor)` | [letters_test](../tests/letters_test.cpp) | //!
| `recv(tensor)` | [letters_test](../tests/letters_test.cpp) | //!
| `other_name(tensor)` | [letters_test](../tests/letters_test.cpp) |
| `scan(tensor)` | [letters_test](../tests/letters_test.cpp) |
| `Store(path)` | [letters_test](../tests/letters_test.cpp) |
| `Store::get(key)` | [letters_test](../tests/letters_test.cpp) |
| `Store::get_all(keys)` | [none_test](../tests/none_test.cpp) | //!
### unisono/lost.hpp
| `lost()` | [letters_test](../tests/letters_test.cpp) | //!
""",
    "include/unisono/distributed.hpp": """
namespace unisono::distributed {
class Store;
struct Options { int op = 0; std::vector<int> sizes = {}; };
inline const int world = start(3);
WorkPtr all_reduce(TensorView tensor, const Options& options = {});
void send(TensorView tensor);
WorkPtr isend(TensorView tensor);
WorkPtr scan(TensorView tensor);  //!
WorkPtr forgotten(TensorView tensor);  //!
Rank recv(TensorView tensor);
inline WorkPtr other_name(TensorView tensor) { return scan(tensor); }
constexpr bool is_forgotten() { return true; }  //!
class Store {
 public:
  explicit Store(const std::string& path);
  virtual ~Store() = default;
  virtual std::string get(const std::string& key) = 0;
  virtual std::vector<std::string> get_all(const std::vector<std::string>& keys) { return {}; }
  void put(int key);  //!
  void perform() override;
  bool operator==(const Store&) const = default;
  Store(const Store&) = delete;
 private:
  void hidden();
  int key_ = make(3);
};
}
""",
    "include/unisono/tensor.hpp": "int of_the_vocabulary();\n",
    "include/unisono/unisono.h": """
#ifdef __cplusplus
extern "C" {
#endif
enum { UNISONO_OK = 0 };
int unisono_forgotten(void);  //!
#ifdef __cplusplus
}
#endif
""",
    "tests/letters_test.cpp": """
send(view); isend(view); gone(view); other_name(view); scan(view); lost();
Store store("path");
store.get("key");
// recv(view)
""",
    "tests/none_test.cpp": "int get_all_of_them();\n",
    "tests/support/forms_some.cpp": "auto work = all_reduce(view);\n",
}
