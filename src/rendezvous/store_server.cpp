// See store_server.hpp. What becomes of one connection: store_session.cpp.
#include "rendezvous/store_server.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <list>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/all_signals_blocked.hpp"
#include "base/check.hpp"
#include "base/fork.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"
#include "rendezvous/store_connection.hpp"
#include "rendezvous/store_session.hpp"
#include "transport/ports.hpp"

namespace unisono {
namespace {

constexpr int backlog = 4096;  // the kernel's own bound may be lower
constexpr size_t most_strangers = 64;
constexpr int accepted_at_once = 64;
constexpr int64_t undisturbed_ns = 1'000'000'000;  // of a stranger that names this job: time enough to shake hands
constexpr int64_t look_again_ns = 50'000'000;
constexpr int64_t between_lines_ns = 60'000'000'000;

Status cannot_listen(const StoreAddress& address, const char* what) {
  const int error = errno;
  const std::string holder = error == EADDRINUSE ? fmt::format("; {} holds it", holder_of(Address(address.get(), address.bytes))) : "";
  return {ErrorCode::init, fmt::format("a store cannot listen at {}: {}: {}{}", address.text(), what, std::strerror(error), holder)};
}

Result<Descriptor> listen_at(const StoreAddress& address) {
  Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return cannot_listen(address, "socket");
  const int on = 1;
  setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.family() == AF_INET6) setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));  // exactly what was asked for
  if (bind(socket.number(), address.get(), address.bytes) != 0) return cannot_listen(address, "bind");
  if (listen(socket.number(), backlog) != 0) return cannot_listen(address, "listen");
  return socket;
}

// Asio makes descriptors of its own, which must not be those of standard input and output: see base/descriptor.hpp.
class StandardDescriptorsTaken {
 public:
  StandardDescriptorsTaken() {
    while (count_ < 3 && (taken_[count_] = ::open("/dev/null", O_RDWR | O_CLOEXEC)) >= 0 && taken_[count_] <= STDERR_FILENO) ++count_;
    if (count_ < 3 && taken_[count_] >= 0) ::close(taken_[count_]);
  }
  ~StandardDescriptorsTaken() {
    for (int index = 0; index < count_; ++index) ::close(taken_[index]);
  }
  StandardDescriptorsTaken(const StandardDescriptorsTaken&) = delete;

 private:
  int taken_[3] = {-1, -1, -1};
  int count_ = 0;
};

// One line at once, and then at most one a minute, however many there are to write.
class RareLine {
 public:
  void write(const Log& log, const std::string& text) {
    const int64_t now = now_ns();
    if (written_ns_ != 0 && now - written_ns_ < between_lines_ns) {
      ++kept_back_;
      return;
    }
    log.warning(kept_back_ == 0 ? text : fmt::format("{} (and {} more like it before)", text, kept_back_));
    written_ns_ = now;
    kept_back_ = 0;
  }

 private:
  int64_t written_ns_ = 0;
  int kept_back_ = 0;
};

}  // namespace

struct StoreServer::Hall : StoreSessions {
  explicit Hall(StoreServerOptions given);
  Status open();
  void run();
  void stop();

  void known(StoreSession& session, const StoreHello& hello) override;
  void ended(StoreSession& session, const Status& why) override;
  void changed() override;

  void await_guests();
  void await_room();
  void let_in();
  bool somebody_waits() const;
  bool make_room();
  void say_refused(const StoreSession& session, const Status& why);

  StoreServerOptions options;
  StoreAddress address;
  int listener = -1;
  asio::posix::stream_descriptor door{io};  // owns the listener
  asio::steady_timer rest{io};
  bool is_listening = false, is_resting = false;
  uint64_t last_id = 0;
  std::map<uint64_t, std::shared_ptr<StoreSession>> sessions;
  std::list<StoreSession*> strangers;  // in the order in which they came
  RareLine noise, wrong, shortage;
  ForkMark fork_mark;
  std::thread thread;

  std::mutex mutex;
  std::condition_variable came;
  int users = 0;
  std::map<uint64_t, int> present;  // those who are known: session → rank
};

StoreServer::Hall::Hall(StoreServerOptions given) : options(std::move(given)) {
  trust = options.trust;
  table = StoreTable(options.caps);
  limits = {options.stranger_s, options.queued_bytes};
}

Status StoreServer::Hall::open() {
  Status last(ErrorCode::init, "a store was given no address to listen at");
  for (const StoreAddress& candidate : options.addresses) {
    auto socket = listen_at(candidate);
    last = socket.status();
    if (!last.ok()) continue;
    listener = socket->number();
    address = address_of_socket(listener);
    asio::error_code fault;
    door.assign(listener, fault);
    if (fault) return {ErrorCode::resource, fmt::format("the store at {} cannot be watched: {}", address.text(), fault.message())};
    socket->release();
    break;
  }
  RETURN_IF_ERROR(last);
  if (getrandom(&welcome.epoch, sizeof(welcome.epoch), 0) != sizeof(welcome.epoch)) return {ErrorCode::resource, "the system gives no random number"};
  try {
    const AllSignalsBlocked blocked;
    thread = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return {ErrorCode::resource, fmt::format("no thread for the store at {}: {}", address.text(), error.what())};
  }
  return Status::success();
}

// Goes on where memory has run out. Nothing else may be thrown here.
void StoreServer::Hall::run() {
  asio::executor_work_guard<asio::io_context::executor_type> stays(io.get_executor());
  for (bool goes_on = true; goes_on;) {
    try {
      if (!is_listening && !is_resting) await_guests();
      io.run();
      goes_on = false;
    } catch (const std::bad_alloc&) {
      constexpr timespec a_moment{0, 10'000'000};
      nanosleep(&a_moment, nullptr);
    } catch (const std::exception& error) {
      options.log.write(LogLevel::error, fmt::format("the store at {} met a bug and stops: {}", address.text(), error.what()));
      goes_on = false;
    }
  }
  shutdown(listener, SHUT_RDWR);  // a forked child may hold it, too
  while (!sessions.empty()) {
    sessions.begin()->second->close();
    sessions.erase(sessions.begin());
  }
}

void StoreServer::Hall::await_guests() {
  door.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& fault) {
    is_listening = false;
    if (!fault) let_in();
  });
  is_listening = true;
}

// Until somebody has left, or for a moment.
void StoreServer::Hall::await_room() {
  if (is_resting) return;
  is_resting = true;
  rest.expires_after(std::chrono::nanoseconds(look_again_ns));
  rest.async_wait([this](const asio::error_code&) {
    is_resting = false;
    let_in();
  });
}

void StoreServer::Hall::let_in() {
  for (int left = accepted_at_once; left > 0; --left) {
    if (strangers.size() >= most_strangers && !somebody_waits()) break;
    if (strangers.size() >= most_strangers && !make_room()) return await_room();
    Descriptor socket(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const int error = errno;
      if (error == EAGAIN || error == EINVAL) break;
      if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) continue;  // that one is gone already
      shortage.write(options.log, fmt::format("the store at {} cannot let anybody in: {}; whoever comes waits", address.text(), std::strerror(error)));
      return await_room();
    }
    prepare_store_socket(socket.number());
    const auto session = std::make_shared<StoreSession>(*this, ++last_id, std::move(socket));
    sessions.emplace(session->id(), session);
    strangers.push_back(session.get());
    if (!session->start()) ended(*session, {ErrorCode::resource, "it cannot be watched"});
  }
  if (!is_listening) await_guests();
}

bool StoreServer::Hall::somebody_waits() const {
  pollfd waiting{listener, POLLIN, 0};
  return poll(&waiting, 1, 0) > 0;
}

// Sends one stranger away. False: all of them have named this job a moment ago.
bool StoreServer::Hall::make_room() {
  const bool all_name_us = std::ranges::all_of(strangers, &StoreSession::shows_our_job);
  std::map<std::string, int> from;
  for (const StoreSession* stranger : strangers) ++from[stranger->address().network()];
  StoreSession* leaves = nullptr;
  int most = 0;
  for (StoreSession* stranger : strangers) {
    if (!all_name_us && stranger->shows_our_job()) continue;
    if (all_name_us && now_ns() - stranger->since_ns() < undisturbed_ns) continue;
    const int count = from[stranger->address().network()];
    if (count <= most) continue;
    most = count;
    leaves = stranger;
  }
  if (!leaves) return false;
  ended(*leaves, {ErrorCode::resource, "too many strangers at once"});
  return true;
}

void StoreServer::Hall::known(StoreSession& session, const StoreHello& hello) {
  strangers.remove(&session);
  if (is_resting) rest.cancel();
  const std::lock_guard lock(mutex);
  present[session.id()] = hello.rank;
  users += hello.is_new_user;
  came.notify_all();
}

void StoreServer::Hall::ended(StoreSession& session, const Status& why) {
  const auto kept = sessions.find(session.id());
  if (kept == sessions.end()) return;
  const std::shared_ptr<StoreSession> stays = kept->second;  // until this is done
  sessions.erase(kept);
  strangers.remove(&session);
  table.forget(session.id());
  session.close();
  if (is_resting) rest.cancel();
  say_refused(session, why);
  const std::lock_guard lock(mutex);
  present.erase(session.id());
  came.notify_all();
}

void StoreServer::Hall::say_refused(const StoreSession& session, const Status& why) {
  if (why.code() == ErrorCode::peer_lost) return;  // it left by itself
  const bool is_ours = session.shows_our_job() || why.code() == ErrorCode::auth;
  (is_ours ? wrong : noise).write(options.log, fmt::format("the store at {} refused {}: {}", address.text(), session.address().text(), why.message()));
}

// The same keys have the same answer, which is made once.
void StoreServer::Hall::changed() {
  const std::vector<StoreTable::Woken> woken = table.take_woken();
  StoreTable::Values of;
  std::shared_ptr<const std::string> frame;
  for (const StoreTable::Woken& waiter : woken) {
    const auto session = sessions.find(waiter.waiter);
    if (session == sessions.end()) continue;
    if (!frame || waiter.values != of) {
      auto written = waiter.values ? values_frame(*waiter.values) : Result<std::string>(Status(ErrorCode::resource, "there is more in these keys than one answer holds"));
      frame = std::make_shared<const std::string>(written.ok() ? std::move(*written) : refused_frame(written.status()));
      of = waiter.values;
    }
    session->second->answer(frame);
  }
}

void StoreServer::Hall::stop() {
  asio::post(io, [this] { io.stop(); });
  thread.join();
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(StoreServerOptions options) try {
  const StandardDescriptorsTaken taken;
  auto hall = std::make_unique<Hall>(std::move(options));
  RETURN_IF_ERROR(hall->open());
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(hall)));
} catch (const std::system_error& error) {
  return Status(ErrorCode::resource, fmt::format("a store cannot be made: {}", error.what()));
}

StoreServer::StoreServer(std::unique_ptr<Hall> hall) : hall_(std::move(hall)) {}

// In a forked child the thread does not exist, and Asio would take the parent's descriptors out of what the parent watches.
StoreServer::~StoreServer() {
  if (hall_->fork_mark.forked()) {
    ::close(hall_->listener);
    hall_->thread.detach();
    static_cast<void>(hall_.release());
  } else {
    hall_->stop();
  }
}

const StoreAddress& StoreServer::address() const { return hall_->address; }

void StoreServer::await_left(const Deadline& deadline) {
  std::unique_lock lock(hall_->mutex);
  auto nobody_else = [this] { return std::ranges::all_of(hall_->present, [](const auto& one) { return one.second == 0; }); };
  hall_->came.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(deadline.remaining_ns(), 0)), nobody_else);
}

Status StoreServer::await_users(int count, const Deadline& deadline, double timeout_s) {
  InterruptWatch interrupts;
  std::unique_lock lock(hall_->mutex);
  while (hall_->users < count) {
    if (deadline.passed())
      return {ErrorCode::timeout, fmt::format("waited {} s at {} for {} users of the store; {} came", timeout_s, hall_->address.text(), count, hall_->users)};
    constexpr int64_t slice_ns = 100'000'000;
    hall_->came.wait_for(lock, std::chrono::nanoseconds(std::clamp<int64_t>(deadline.remaining_ns(), 0, slice_ns)));
    lock.unlock();
    const bool interrupted = interrupts.tripped();
    lock.lock();
    if (interrupted) return {ErrorCode::revoked, fmt::format("interrupted while waiting for {} users of the store at {}", count, hall_->address.text())};
  }
  return Status::success();
}

}  // namespace unisono
