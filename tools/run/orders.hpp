// What the launcher of a job tells the launcher of one of its hosts, on that one's standard input, and the lines by which it is answered. Functions of bytes: who reads
// and writes them is in agent.cpp and over_ssh.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/settings.hpp"
#include "unisono/status.hpp"

namespace unisono::tools {

// sheet: all that there is to do. input: of rank 0's standard input. end_of_input: that was it. signal: its number, for all ranks. end: the ranks are to end.
enum class OrderKind : char { sheet = 'S', input = 'I', end_of_input = 'E', signal = 'K', end = 'T' };

struct Order {
  OrderKind kind = OrderKind::end;
  std::string text = {};
};

std::string bytes_of(const Order& order);

// Bytes as they come, in pieces of any size.
class OrderReader {
 public:
  void add(std::string_view bytes) { waiting_ += bytes; }
  std::optional<Order> next();
  bool is_lost() const { return is_lost_; }  // what came was no order; nothing more comes

 private:
  std::string waiting_;
  bool is_lost_ = false;
};

// What one host has to do of a job; a value.
struct Sheet {
  std::string job = {};         // its name
  std::string host = {};        // as the user calls it
  std::string folder = {};      // in which to start
  std::string secret = {};      // 64 hexadecimal digits
  std::string address = {};     // of the first host, where the ranks meet
  int port = 0;
  int first_rank = 0, ranks = 0, size = 0;
  bool keep_going = false, prefix = true;
  double grace_s = 5;
  Environment environment = {};            // of whoever has started the job
  std::vector<std::string> settings = {};  // NAME=VALUE, which go before all others
  std::vector<std::string> command = {};

  std::string text() const;
  static Result<Sheet> parse(std::string_view text);
};

// Lines from the launcher of a host, among those of its ranks: what a rank writes that could be taken for one is marked.
struct Answer {
  static constexpr char mark = '\1';

  enum class Kind { ready, taken, failed };
  Kind kind = Kind::ready;
  std::string version = {}, address = {};  // ready: whose launcher waits for its sheet, and what could be rank 0's address and port there
  int port = 0;
  int64_t taken_bytes = 0;                 // taken: of rank 0's input
  int rank = 0, status = 0;                // failed: the first that has, and what the job is to exit with

  std::string line() const;  // without its end
  static std::optional<Answer> parse(std::string_view line);
};

}  // namespace unisono::tools
