// See store_client.hpp.
#include "rendezvous/store_client.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>

#include <algorithm>

#include "base/check.hpp"
#include "rendezvous/store_contents.hpp"

namespace unisono {
namespace {

using distributed::StoreAnswer;
using distributed::StoreRequest;

constexpr double attempt_s = 5;        // for one connection, hello and all
constexpr double first_attempt_s = 1;  // where there are several addresses, of which some may lead nowhere
constexpr double reopen_s = 1.5;       // for a server that was there before
constexpr double say_so_after_s = 5;   // that a server is awaited
constexpr double grace_s = 0.3;        // for an answer that the server sends at the deadline
constexpr size_t most_idle = 4;
constexpr int first_rest_ms = 10, longest_rest_ms = 500;

// Between half of it and all of it, so that many who were refused together do not come again together.
int with_jitter(int milliseconds) {
  uint32_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return milliseconds;
  return milliseconds / 2 + static_cast<int>(random % static_cast<uint32_t>(milliseconds / 2 + 1));
}

bool may_come_right(ErrorCode code) {
  return code == ErrorCode::store_lost || code == ErrorCode::peer_lost || code == ErrorCode::timeout;
}

class Rests {
 public:
  void rest(const Deadline& deadline) {
    const int64_t remaining_ms = std::max<int64_t>(deadline.remaining_ns(), 0) / 1'000'000;
    poll(nullptr, 0, static_cast<int>(std::min<int64_t>(with_jitter(milliseconds_), remaining_ms + 1)));
    milliseconds_ = std::min(2 * milliseconds_, longest_rest_ms);
  }

 private:
  int milliseconds_ = first_rest_ms;
};

}  // namespace

Status StoreClient::named(ErrorCode code, const std::string& message) const {
  return {code, fmt::format("the store at {}: {}", target_.name, message)};
}

// The first that answers; otherwise what all said, or what will not come right.
Result<StoreClient::Connection> StoreClient::try_addresses(const StoreCaller& caller, Patience& patience, double each_s) const {
  Status last;
  std::string all;
  for (const Address& address : target_.addresses) {
    Patience attempt{earlier(patience.deadline, Deadline::in_seconds(each_s)), patience.interrupts, patience.stop};
    auto connection = StoreConnection::open(address, caller, attempt);
    patience.interrupts = attempt.interrupts;
    if (connection.ok() || !may_come_right(connection.status().code())) return connection;
    last = connection.status();
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", address.text(), last.message());
  }
  return target_.addresses.size() == 1 ? last : Status(last.code(), all);
}

Status StoreClient::connect(const Deadline& deadline, double timeout_s) {
  Patience patience{deadline, {}, target_.stop};
  const Deadline say_so = Deadline::in_seconds(say_so_after_s);
  StoreCaller caller = target_.caller;
  caller.hello.is_new_user = true;
  Status why;  // an answer says more than none at the end
  double each_s = target_.addresses.size() > 1 ? first_attempt_s : attempt_s;
  bool said = false;
  for (Rests rests;; rests.rest(deadline)) {
    auto connection = try_addresses(caller, patience, each_s);
    each_s = attempt_s;
    if (connection.ok()) {
      epoch_ = (*connection)->welcome().epoch;
      keep(std::move(*connection));
      return Status::success();
    }
    const ErrorCode code = connection.status().code();
    if (why.ok() || code != ErrorCode::timeout) why = connection.status();
    if (code == ErrorCode::revoked || patience.interrupts.tripped() || patience.stop.stop_requested())
      return {ErrorCode::revoked, fmt::format("interrupted while waiting for the store at {}", target_.name)};
    if (!may_come_right(code)) return named(code, why.message());
    if (deadline.passed()) return {ErrorCode::timeout, fmt::format("waited {:.3g} s for the store at {}: {}", timeout_s, target_.name, why.message())};
    if (!said && say_so.passed()) {
      said = true;
      target_.log.warning(fmt::format("still waiting for the store at {}: {}", target_.name, why.message()));
    }
  }
}

// Of a server that was there once: where nobody listens any more, it is lost.
Result<StoreClient::Connection> StoreClient::reopen(Patience& patience) {
  const Deadline give_up = earlier(patience.deadline, Deadline::in_seconds(reopen_s));
  for (Rests rests;; rests.rest(give_up)) {
    Patience attempt{give_up, patience.interrupts, patience.stop};
    auto connection = try_addresses(target_.caller, attempt, attempt_s);
    patience.interrupts = attempt.interrupts;
    if (connection.ok() && (*connection)->welcome().epoch == epoch_) return connection;
    if (connection.ok()) return named(ErrorCode::store_lost, "it is gone, and another one has taken its place");
    const Status& why = connection.status();
    if (patience.deadline.passed()) return why.code() == ErrorCode::timeout ? why : Status(ErrorCode::timeout, why.message());
    if (why.code() == ErrorCode::store_lost || give_up.passed()) return named(ErrorCode::store_lost, fmt::format("it is gone ({})", why.message()));
    if (!may_come_right(why.code())) return why;
  }
}

Result<StoreClient::Connection> StoreClient::take(Patience& patience) {
  {
    const std::lock_guard lock(mutex_);
    if (fork_mark_->forked()) {  // these are the parent's
      idle_.clear();
      fork_mark_.emplace();
    }
    while (!idle_.empty()) {
      Connection connection = std::move(idle_.back());
      idle_.pop_back();
      if (connection->is_quiet()) return connection;
    }
  }
  return reopen(patience);
}

void StoreClient::keep(Connection connection) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < most_idle && !fork_mark_->forked()) idle_.push_back(std::move(connection));
}

Result<StoreFrame> StoreClient::ask(const std::string& frame, Patience& patience) {
  auto connection = take(patience);
  if (!connection.ok()) return connection.status();
  auto answer = (*connection)->ask(frame, patience);
  if (!answer.ok() && answer.status().code() == ErrorCode::peer_lost)
    return named(ErrorCode::store_lost, fmt::format("it is gone ({})", answer.status().message()));
  if (!answer.ok() && answer.status().code() == ErrorCode::protocol) return named(ErrorCode::protocol, answer.status().message());
  if (!answer.ok()) return answer.status();
  const Status refusal = answer->kind == StoreFrameKind::refused ? read_refused(answer->body) : Status::success();
  if (refusal.code() != ErrorCode::protocol) keep(std::move(*connection));  // else the server ends it, too
  if (!refusal.ok()) return refusal;
  return answer;
}

Result<std::vector<StoreAnswer>> StoreClient::perform(const std::vector<StoreRequest>& requests, double timeout_s) {
  auto frame = perform_frame(requests);
  if (!frame.ok()) return frame.status();
  Patience patience{Deadline::in_seconds(timeout_s), {}, target_.stop};
  auto answer = ask(*frame, patience);
  if (!answer.ok() && answer.status().code() == ErrorCode::timeout)
    return named(ErrorCode::timeout, fmt::format("it has not answered for {} s", timeout_s));
  if (!answer.ok() && answer.status().code() == ErrorCode::revoked) return named(ErrorCode::revoked, "interrupted while waiting for its answer");
  if (!answer.ok()) return answer.status();
  if (answer->kind != StoreFrameKind::answers) return named(ErrorCode::protocol, "its answer is of another kind than the question");
  return read_answers(answer->body, requests.size());
}

Result<std::vector<std::string>> StoreClient::await_values(const std::vector<std::string>& keys, double timeout_s) {
  const Deadline deadline = Deadline::in_seconds(timeout_s);
  auto frame = await_frame({deadline.at_ns == never_ns ? never_ns : std::max<int64_t>(deadline.remaining_ns(), 0), keys});
  if (!frame.ok()) return frame.status();
  Patience patience{Deadline::in_seconds(timeout_s + grace_s), {}, target_.stop};
  auto answer = ask(*frame, patience);
  if (!answer.ok() && answer.status().code() == ErrorCode::revoked) return interrupted_while_waiting(keys);
  if (!answer.ok() && answer.status().code() == ErrorCode::timeout)
    return named(ErrorCode::timeout, "it does not answer; " + missing_keys(keys, keys.size(), timeout_s).message());
  if (!answer.ok()) return answer.status();
  if (answer->kind == StoreFrameKind::values) return read_values(answer->body, keys.size());
  if (answer->kind != StoreFrameKind::missing) return named(ErrorCode::protocol, "its answer is of another kind than the question");
  auto indices = read_missing(answer->body, keys.size());
  if (!indices.ok()) return indices.status();
  std::vector<std::string> missing;
  for (uint32_t index : *indices) missing.push_back(keys[index]);
  return missing_keys(missing, keys.size(), timeout_s);
}

}  // namespace unisono
