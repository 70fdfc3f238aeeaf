// One host of a job: the ssh that leads to it, what is still to be told to its launcher, and what that says.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "tools/run/host_list.hpp"
#include "tools/run/orders.hpp"
#include "tools/run/output.hpp"
#include "tools/run/process.hpp"

namespace unisono::tools {

class RemoteHost {
 public:
  RemoteHost(HostShare share, int first_rank, Sink& out, Sink& err) : share_(std::move(share)), first_rank_(first_rank), out_(out), err_(err) {}
  ~RemoteHost();
  RemoteHost(const RemoteHost&) = delete;

  const HostShare& share() const { return share_; }
  int first_rank() const { return first_rank_; }
  void on_answer(std::function<void(const Answer&)> heard) { heard_ = std::move(heard); }

  // Starts ssh. ArgumentError: there is no such client.
  Status begin(const std::vector<std::string>& ssh, const Signals& signals);
  bool is_ready() const { return place_.has_value(); }           // its launcher has said so
  bool is_late() const { return !is_ready() && !is_over() && ready_by_.passed(); }
  bool has_told_failure() const { return has_told_failure_; }
  const Answer& place() const { return *place_; }
  bool is_over() const { return process_.pid == 0 || (ending_ && !output_->is_open() && !error_->is_open()); }

  void tell(const Order& order);
  void close_orders();
  void kill();
  Ending note_end();  // its ssh has ended

  RankStream& output() { return *output_; }
  RankStream& error() { return *error_; }
  int process_descriptor() const { return ending_ ? -1 : process_.handle.number(); }
  int orders_descriptor() const { return orders_.number(); }
  bool has_orders_waiting() const { return orders_ && !unsent_.empty(); }
  void write_some();

 private:
  void forget();
  bool take_line(std::string_view line);

  const HostShare share_;
  const int first_rank_;
  Sink &out_, &err_;
  std::function<void(const Answer&)> heard_;
  Process process_;
  Descriptor orders_;   // its standard input
  std::string unsent_;
  size_t sent_ = 0;     // of that
  Deadline ready_by_;
  bool has_told_failure_ = false;
  std::optional<RankStream> output_, error_;
  std::optional<Answer> place_;
  std::optional<Ending> ending_;
};

}  // namespace unisono::tools
