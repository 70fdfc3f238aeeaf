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
#include "base/standard_descriptors.hpp"
#include "rendezvous/store_connection.hpp"
#include "rendezvous/store_session.hpp"
#include "transport/interfaces.hpp"
#include "transport/ports.hpp"

namespace unisono {
namespace {

constexpr int backlog = 4096;  // the kernel's own bound may be lower
constexpr int accepted_at_once = 64;
constexpr int64_t look_again_ns = 50'000'000;
constexpr int64_t between_lines_ns = 60'000'000'000;

Status cannot_listen(const Address& address, const char* what, int& error) {
  error = errno;
  const std::string holder = error == EADDRINUSE ? fmt::format("; {} holds it", holder_of(address)) : "";
  const std::string hint = error == EADDRNOTAVAIL ? fmt::format("; this machine's addresses: {}. The master, or rank 0, has to run on the machine that has it",
                                                                 text_of(interfaces_here()))
                                                   : "";
  return {ErrorCode::init, fmt::format("a store cannot listen at {}: {}: {}{}{}", address.text(), what, std::strerror(error), holder, hint)};
}

Result<Descriptor> listen_at(const Address& address, int& error) {
  Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return cannot_listen(address, "socket", error);
  const int on = 1;
  setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.family() == AF_INET6) setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));  // exactly what was asked for
  if (bind(socket.number(), address.get(), address.bytes()) != 0) return cannot_listen(address, "bind", error);
  if (listen(socket.number(), backlog) != 0) return cannot_listen(address, "listen", error);
  return socket;
}

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

  // A listener, at one address.
  struct Door {
    Door(asio::io_context& io, Descriptor socket) : listener(socket.number()), watched(io), socket(std::move(socket)) {}
    int listener;
    asio::posix::stream_descriptor watched;  // owns the listener, once it is assigned
    Descriptor socket;                       // until then
    bool is_listening = false;
  };
  Status open_door(const Address& at, int& error);
  void await_guests(Door& door);
  void await_room();
  void let_in(Door& door);
  static bool somebody_waits(const Door& door);
  bool make_room();
  void say_refused(const StoreSession& session, const Status& why);
  void note_presence(int rank, bool is_there);

  StoreServerOptions options;
  Address address;
  std::vector<Address> listens_at;
  std::list<Door> doors;
  asio::steady_timer rest{io};
  bool is_resting = false;
  uint64_t last_id = 0;
  std::map<uint64_t, std::shared_ptr<StoreSession>> sessions;
  std::list<StoreSession*> strangers;  // in the order in which they came
  size_t most = strangers_here();      // of them
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

Status StoreServer::Hall::open_door(const Address& at, int& error) {
  auto socket = listen_at(at, error);
  if (!socket.ok()) return socket.status();
  Door& door = doors.emplace_back(io, std::move(*socket));
  asio::error_code fault;
  door.watched.assign(door.listener, fault);
  if (fault) return {ErrorCode::resource, fmt::format("the store at {} cannot be watched: {}", at.text(), fault.message())};
  door.socket.release();
  return Status::success();
}

// At all of its addresses that are this machine's, by one port. A name may stand for several, and others may reach only one of them.
Status StoreServer::Hall::open() {
  Status last(ErrorCode::init, "a store was given no address to listen at");
  std::vector<Address> tried;
  for (const Address& one : options.addresses) {
    if (std::ranges::find(tried, one) != tried.end()) continue;
    tried.push_back(one);
    int error = 0;
    const bool any_port = one.port() == 0;
    last = open_door(address && any_port ? one.with_port(address.port()) : one, error);
    if (last.ok()) listens_at.push_back(Address::of_socket(doors.back().listener));
    if (last.ok() && !address) address = listens_at.front();
    const bool may_be_left_out = error == EADDRNOTAVAIL || error == EAFNOSUPPORT || (address && any_port);
    if (!last.ok() && !may_be_left_out) return last;
  }
  if (doors.empty()) return last;
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
      for (Door& door : doors)
        if (!door.is_listening && !is_resting) await_guests(door);
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
  for (const Door& door : doors) shutdown(door.listener, SHUT_RDWR);  // a forked child may hold it, too
  while (!sessions.empty()) {
    sessions.begin()->second->close();
    sessions.erase(sessions.begin());
  }
}

void StoreServer::Hall::await_guests(Door& door) {
  door.watched.async_wait(asio::posix::stream_descriptor::wait_read, [this, &door](const asio::error_code& fault) {
    door.is_listening = false;
    if (!fault) let_in(door);
  });
  door.is_listening = true;
}

// Until somebody has left, or for a moment.
void StoreServer::Hall::await_room() {
  if (is_resting) return;
  is_resting = true;
  rest.expires_after(std::chrono::nanoseconds(look_again_ns));
  rest.async_wait([this](const asio::error_code&) {
    is_resting = false;
    for (Door& door : doors)
      if (!door.is_listening) let_in(door);
  });
}

void StoreServer::Hall::let_in(Door& door) {
  for (int left = accepted_at_once; left > 0; --left) {
    if (strangers.size() >= most && !somebody_waits(door)) break;
    if (strangers.size() >= most && !make_room()) return await_room();
    Descriptor socket(accept4(door.listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const int error = errno;
      if (error == EAGAIN || error == EINVAL) break;
      if (error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM) continue;  // that one is gone already
      if (make_room()) continue;  // what a stranger holds is there for who comes next
      shortage.write(options.log, fmt::format("the store at {} cannot let anybody in: {}; whoever comes waits", address.text(), std::strerror(error)));
      return await_room();
    }
    prepare_store_socket(socket.number());
    const auto session = std::make_shared<StoreSession>(*this, ++last_id, std::move(socket));
    sessions.emplace(session->id(), session);
    strangers.push_back(session.get());
    if (!session->start()) ended(*session, {ErrorCode::resource, "it cannot be watched"});
  }
  if (!door.is_listening) await_guests(door);
}

bool StoreServer::Hall::somebody_waits(const Door& door) {
  pollfd waiting{door.listener, POLLIN, 0};
  return poll(&waiting, 1, 0) > 0;
}

// Sends one stranger away. False: all of them have named this job a moment ago.
bool StoreServer::Hall::make_room() {
  std::vector<Stranger> all;
  for (const StoreSession* stranger : strangers) all.push_back(stranger->as_stranger());
  const std::optional<size_t> leaves = one_to_send_away(all, now_ns());
  if (leaves) ended(**std::next(strangers.begin(), static_cast<ptrdiff_t>(*leaves)), {ErrorCode::resource, "too many strangers at once"});
  return leaves.has_value();
}

void StoreServer::Hall::known(StoreSession& session, const StoreHello& hello) {
  strangers.remove(&session);
  if (is_resting) rest.cancel();
  note_presence(hello.rank, true);
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
  std::optional<int> left;  // by its last connection
  {
    const std::lock_guard lock(mutex);
    if (const auto one = present.find(session.id()); one != present.end()) {
      left = one->second;
      present.erase(one);
    }
    if (left && std::ranges::any_of(present, [&](const auto& other) { return other.second == *left; })) left.reset();
    came.notify_all();
  }
  if (left) note_presence(*left, false);
}

// Others ask for it, and nobody waits for it.
void StoreServer::Hall::note_presence(int rank, bool is_there) {
  using distributed::StoreRequest;
  if (options.away_prefix.empty() || rank < 0) return;
  const auto kind = is_there ? StoreRequest::Kind::delete_key : StoreRequest::Kind::set;
  static_cast<void>(table.perform({{.kind = kind, .key = options.away_prefix + std::to_string(rank), .value = "yes"}}).ok());
  changed();
}

void StoreServer::Hall::say_refused(const StoreSession& session, const Status& why) {
  if (why.code() == ErrorCode::peer_lost) return;  // it left by itself
  const bool is_ours = session.names_our_job() || why.code() == ErrorCode::auth;
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
    for (const Hall::Door& door : hall_->doors) ::close(door.listener);
    hall_->thread.detach();
    static_cast<void>(hall_.release());
  } else {
    hall_->stop();
  }
}

const Address& StoreServer::address() const { return hall_->address; }

const std::vector<Address>& StoreServer::addresses() const { return hall_->listens_at; }

void StoreServer::note(std::string key, std::string value) {
  using distributed::StoreRequest;
  asio::post(hall_->io, [hall = hall_.get(), request = StoreRequest{.kind = StoreRequest::Kind::compare_set, .key = std::move(key), .value = std::move(value)}] {
    if (hall->table.perform({request}).ok()) hall->changed();
  });
}

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
