// Rank 0, or the agent of a machine, collects the others, tells each of all, and waits until everybody has mapped everybody. See join.hpp.
#include "rendezvous/host.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "base/shortage.hpp"
#include "rendezvous/guest.hpp"
#include "rendezvous/machines.hpp"

namespace unisono {
namespace {

constexpr double patience_with_latecomers_s = 0.7;  // so that whoever cannot join says so within a second
constexpr double patience_with_store_s = 0.3;       // of that
constexpr double rest_without_descriptors_s = 0.1;

class Host {
 public:
  Host(const JoinRequest& request, const JoinMessage& hello, std::span<const int> mine)
      : request_(request), hello_(hello), mine_(mine), seats_(static_cast<size_t>(request.size), nullptr) {}

  Result<Joined> run(HostTurn& turn) {
    RETURN_IF_ERROR(open(turn));
    if (turn == HostTurn::visit) return Joined();
    Status status;
    try {
      meet_agents();
      if (machines_) status = machines_->roster().started();
      if (!status.ok()) status = cannot_join(request_, status);
      if (status.ok() && machines_) machines_->claim(hello_);
      if (status.ok()) status = collect();
      if (status.ok() && turn_ == HostTurn::done) status = introduce();
      if (status.ok() && turn_ == HostTurn::done) status = until_ready();
    } catch (const std::bad_alloc&) {
      status = cannot_join(request_, out_of_memory());
    }
    const bool by_store = machines_ && !machines_->roster().state().ok();  // where whoever comes later will find the same
    if (machines_ && !status.ok() && !by_store) machines_->roster().give_up(status, ranks_here());
    tell_outcome(status);
    if (!status.ok() && !by_store) tell_latecomers(status);
    if (!status.ok()) return status;
    turn = turn_;
    if (turn == HostTurn::again) door_.close();
    if (machines_) joined_.roster = machines_->shared_roster();
    joined_.door = std::move(door_);
    return std::move(joined_);
  }

  bool decline(const Status& why) {
    HostTurn turn = HostTurn::done;
    if (!open(turn).ok() || turn == HostTurn::visit) return false;
    const Status told = cannot_join(request_, why);
    meet_agents();
    if (machines_) machines_->roster().give_up(told, ranks_here());
    if (machines_) machines_->roster().await_told(Deadline::in_seconds(patience_with_store_s));  // first: guests may take the last descriptor
    tell_outcome(told);
    tell_latecomers(told);
    return true;
  }

 private:
  // A name that is taken and refuses connections belongs to a world that was left: a forked child of its rank 0 has not yet
  // come to close its copy.
  Status open(HostTurn& turn) {
    for (int attempt = 0;; ++attempt) {
      auto outcome = listen_at(meeting_place(request_.job));
      if (!outcome.ok()) return outcome.status();
      if (outcome->attempt == Attempt::done) {
        door_ = Door(std::move(outcome->socket), request_.log);
        return Status::success();
      }
      if (request_.store) turn = HostTurn::visit;
      if (request_.store) return Status::success();
      auto holder = connect_to(meeting_place(request_.job));
      if (!holder.ok()) return holder.status();
      if (holder->attempt == Attempt::done || request_.deadline.passed()) return already_running(request_, holder->socket);
      rest(attempt);
    }
  }

  void meet_agents() {
    if (!request_.store) return;
    machines_ = std::make_unique<Machines>(request_, [this](int rank) {
      if (rank == request_.rank) return PeerIdentity{getpid(), geteuid()}.process();
      const Guest* guest = seats_[static_cast<size_t>(rank)];
      return guest ? guest->who.process() : std::string();
    });
  }

  // Where all ranks have come to this agent, no other machine need be asked.
  Status collect() {
    auto seat_one = [this](Guest& guest) { return seat(guest); };
    if (machines_) machines_->roster().await("seats", request_.size);
    while (seated() < request_.size && !(machines_ && machines_->roster().entries())) {
      if (machines_ && machines_->roster().is_running()) return machines_->complete_without_us();
      if (machines_ && machines_->roster().is_over()) return until_store_ends();
      warn();
      RETURN_IF_ERROR(wait_once(seat_one));
    }
    if (machines_ && seated() == request_.size) machines_->all_are_here();
    return machines_ && seated() < request_.size ? meet_other_machines() : Status::success();
  }

  // One line, when somebody has not come for long.
  void warn() {
    if (!warns_.passed()) return;
    if (machines_ && !std::exchange(asked_, true)) return machines_->roster().ask_who_is_missing();
    if (!machines_ || machines_->roster().missing()) warn_of(missing());
  }
  void warn_of(const Status& why) {
    request_.log.warning("still waiting: " + why.message());
    warns_ = {};
  }

  template <typename Handle>
  Status wait_once(Handle handle) {
    if (machines_ && machines_->roster().is_over()) return Status::success();  // what became of it is looked at elsewhere
    if (machines_) RETURN_IF_ERROR(machines_->roster().state());
    if (machines_) RETURN_IF_ERROR(machines_->check_dispute());
    if (request_.deadline.passed()) return missing();
    return listen_once(handle, machines_ ? machines_->roster().descriptor() : -1);
  }

  // One round of the roster, while guests are heard.
  Status until_entered(const std::string& round, int count) {
    machines_->roster().await(round_ = round, count);
    while (!machines_->roster().entries()) RETURN_IF_ERROR(wait_once([this](Guest& guest) { return hear_address(guest); }));
    return Status::success();
  }

  // What the agents of other machines say of their ranks, and that all of them have read the same. Where there are several, everybody here says
  // where it listens, and so do they.
  Status meet_other_machines() {
    RETURN_IF_ERROR(machines_->read_seats());
    machines_->roster().propose(machines_->digest());
    RETURN_IF_ERROR(until_entered("complete", 1));
    const std::string agreed = machines_->roster().entries()->front();
    if (agreed != machines_->digest()) {  // a rank was started anew between their look and ours
      RETURN_IF_ERROR(until_entered("seats", request_.size));
      RETURN_IF_ERROR(machines_->read_seats());
      if (agreed != machines_->digest()) return machines_->complete_without_us();
    }
    if (Status enough = require_connections(request_, machines_->elsewhere(), /*is_agent=*/true); !enough.ok()) return cannot_join(request_, enough);
    auto sockets = request_.listen(agreed);
    if (!sockets.ok()) return cannot_join(request_, sockets.status());
    sockets_ = *sockets;
    hello_.say_addresses(text_of(sockets_->published()));
    machines_->enter_address(hello_);
    JoinMessage listen = hello_;
    listen.kind = JoinKind::listen;
    listen.elsewhere = machines_->elsewhere();
    listen.say(agreed);
    for (const Guest* guest : seats_)
      if (guest) RETURN_IF_ERROR(tell(*guest, listen, {}));
    RETURN_IF_ERROR(until_entered("addresses", request_.size));
    RETURN_IF_ERROR(machines_->read_addresses());
    return prove_ways();
  }

  // From this machine to every other, and back.
  Status prove_ways() {
    RETURN_IF_ERROR(machines_->begin_to_reach(*sockets_));
    while (!machines_->reach().turn()) {
      if (request_.deadline.passed()) return machines_->reach().late();
      RETURN_IF_ERROR(wait_once([this](Guest& guest) { return hear_address(guest); }));
    }
    machines_->enter_reach();
    RETURN_IF_ERROR(until_entered("reach", machines_->count()));
    return machines_->read_reach();
  }

  // The store is still that of the world before, whose rank 0 has not come to end it: then there will be another, for which all try again.
  Status until_store_ends() {
    machines_->roster().await("the end", 1);
    while (machines_->roster().state().ok() && seated() < request_.size) {
      if (warns_.passed()) warn_of(machines_->store_is_old());
      if (request_.deadline.passed()) return machines_->store_is_old();
      RETURN_IF_ERROR(listen_once([this](Guest& guest) { return seat(guest); }));
    }
    if (seated() == request_.size) machines_->all_are_here();
    if (seated() < request_.size) turn_ = HostTurn::again;
    return Status::success();
  }

  Status hear_address(Guest& guest) {
    auto word = word_of(guest);
    if (!word.ok()) return word.status();
    if (!*word || (*word)->kind != JoinKind::listening || guest.listens) return Status::success();
    guest.listens = true;
    guest.hello->say_addresses((*word)->addresses);
    machines_->enter_address(*guest.hello);
    return Status::success();
  }

  std::vector<int> ranks_here() const {
    std::vector<int> ranks = {request_.rank};
    for (const Guest* guest : seats_)
      if (guest) ranks.push_back(guest->hello->rank);
    if (unable_ >= 0 && unable_ < request_.size) ranks.push_back(unable_);
    return ranks;
  }

  int seated() const { return 1 + static_cast<int>(std::ranges::count_if(seats_, [](const Guest* guest) { return guest != nullptr; })); }

  Status missing() const { return machines_ ? machines_->late(round_) : not_all_came(request_, who_is_missing(seats_, gone_)); }

  // Waits for a visitor or a word from a guest, and handles whatever came: guests first, so that they are heard whoever knocks.
  template <typename Handle>
  Status listen_once(Handle handle, int also = -1) {
    if (interrupts_.tripped()) return interrupted_while_joining(request_);
    std::vector<pollfd> polled{{resting_.passed() ? door_.number() : -1, POLLIN, 0}};
    for (const auto& guest : guests_) polled.push_back({guest->socket.number(), POLLIN, 0});
    polled.push_back({also, POLLIN, 0});
    if (sockets_) polled.push_back({sockets_->descriptor(), POLLIN, 0});
    int64_t milliseconds = std::clamp<int64_t>(request_.deadline.remaining_ns() / 1'000'000 + 1, 0, 100);
    if (poll(polled.data(), polled.size(), static_cast<int>(milliseconds)) > 0) {
      for (size_t index = 1; index <= guests_.size(); ++index)
        if (polled[index].revents) RETURN_IF_ERROR(handle(*guests_[index - 1]));
      if (polled[0].revents) welcome();
    }
    if (sockets_) sockets_->rang();  // agents of other machines knock
    dismiss_silent_guests(guests_);
    return Status::success();
  }

  void welcome() {
    admit_guests(door_, guests_);
    if (door_.is_exhausted()) resting_ = Deadline::in_seconds(rest_without_descriptors_s);
  }

  // The first word of a guest. A guest that goes away gives up its seat; one that cannot be seated ends the joining,
  // since its rank will never come right.
  Status seat(Guest& guest) {
    auto received = receive(guest.socket);
    if (!received.ok()) {
      if (guest.hello) lose(guest);
      guest.socket.reset();
      return received.status().code() == ErrorCode::resource ? received.status() : Status::success();
    }
    const JoinMessage& hello = received->message;
    if (hello.kind == JoinKind::unable) unable_ = hello.rank;
    if (hello.kind == JoinKind::unable) return unable(hello, guest.who);
    if (hello.kind != JoinKind::hello || received->descriptors.size() != 2) {
      if (!guest.hello) guest.socket.reset();
      return Status::success();
    }
    RETURN_IF_ERROR(check(hello, guest.who));
    guest.hello = hello;
    guest.arena = std::move(received->descriptors[0]);
    guest.life = std::move(received->descriptors[1]);
    seats_[static_cast<size_t>(hello.rank)] = &guest;
    gone_.erase(hello.rank);
    if (machines_ && turn_ == HostTurn::done) machines_->claim(hello);
    return Status::success();
  }

  // Who ends in silence may be started again.
  void lose(const Guest& guest) {
    const int rank = guest.hello->rank;
    seats_[static_cast<size_t>(rank)] = nullptr;
    gone_[rank] = guest.who.process();
    if (machines_ && turn_ == HostTurn::done) machines_->roster().withdraw(rank);
  }

  Status check(const JoinMessage& hello, const PeerIdentity& who) const {
    RETURN_IF_ERROR(means_the_same_world(hello, who, request_, hello_));
    const Guest* there = seats_[static_cast<size_t>(hello.rank)];
    if (!there && hello.rank != request_.rank) return Status::success();
    return {ErrorCode::init, fmt::format("two processes call themselves rank {}: {} and {}", hello.rank,
                                         (there ? there->who : PeerIdentity{getpid(), geteuid()}).process(), who.process())};
  }

  // Everybody's arena and watch to everybody on its host, rank 0 included, and word of it to the others. Of each guest three
  // descriptors are open here at any time: its socket, its life pipe, and its arena before it was handed round or its pidfd afterwards.
  Status introduce() {
    joined_.neighbours.resize(seats_.size());
    joined_.watches.resize(seats_.size());
    for (int rank = 0; rank < request_.size; ++rank)
      RETURN_IF_ERROR(machines_ && machines_->is_elsewhere(rank) ? introduce_from_elsewhere(rank) : introduce_from_here(rank));
    joined_.hosts = machines_ ? machines_->hosts() : request_.hosts;
    joined_.is_first_machine = machines_ && !machines_->is_elsewhere(0);
    return Status::success();
  }

  // Where it is, and nothing more.
  Status introduce_from_elsewhere(int rank) {
    auto member = machines_->member(rank, hello_);
    if (!member.ok()) return member.status();
    for (const Guest* to : seats_)
      if (to) RETURN_IF_ERROR(tell(*to, *member, {}));
    return admit(*member, -1, joined_);
  }

  Status introduce_from_here(int rank) {
    Guest* about = seats_[static_cast<size_t>(rank)];
    JoinMessage member = about ? *about->hello : hello_;
    member.kind = JoinKind::member;
    member.host = machines_ ? machines_->number_of(rank) : request_.hosts.of(rank);
    member.say("");  // in its hello that was the layout of pretended hosts; here it would be another machine's name
    if (about && about->who.pid > 0) member.pid = about->who.pid;
    Descriptor process = about ? process_of(*about) : Descriptor(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
    const int arena = about ? about->arena.number() : mine_[0], life = about ? about->life.number() : mine_[1];
    const int descriptors[] = {arena, life, process.number()};
    auto handed_to = [&](int other) { return std::span(descriptors).first(!request_.hosts.share(rank, other) ? 0 : process ? 3 : 2); };
    for (const Guest* to : seats_)
      if (to) RETURN_IF_ERROR(tell(*to, member, handed_to(to->hello->rank)));
    const bool is_here = request_.hosts.share(rank, request_.rank);
    RETURN_IF_ERROR(admit(member, is_here ? arena : -1, joined_));
    if (!about) return Status::success();
    about->arena.reset();
    if (is_here) joined_.watches[static_cast<size_t>(rank)] = {std::move(process), std::move(about->life)};
    if (!is_here) about->life.reset();
    return Status::success();
  }

  Status tell(const Guest& to, const JoinMessage& message, std::span<const int> descriptors) const {
    const Status sent = send(to.socket, message, descriptors, request_.deadline);
    if (sent.code() == ErrorCode::peer_lost) return went_away(to);
    if (sent.code() == ErrorCode::revoked) return interrupted_while_joining(request_);
    if (sent.code() == ErrorCode::timeout) return not_all_ready(request_, seats_);
    return sent;
  }

  Status until_ready() {
    joined_.global_barrier = hello_.flag != 0;
    int ready = 1;
    const int all = seated();
    while (ready < all) {
      if (request_.deadline.passed()) return not_all_ready(request_, seats_);
      RETURN_IF_ERROR(listen_once([&](Guest& guest) -> Status {
        auto word = word_of(guest);
        if (!word.ok() || !*word) return word.status();
        ready += !guest.ready;
        guest.ready = true;
        joined_.global_barrier &= guest.hello->flag != 0;
        return Status::success();
      }));
    }
    if (!machines_ || machines_->count() == 1) return Status::success();
    machines_->enter_ready();
    return until_entered("ready", machines_->count());
  }

  void tell_outcome(const Status& status) {
    if (!status.ok()) welcome();  // whoever is at the door hears it too
    JoinMessage message = hello_;
    message.kind = !status.ok() ? JoinKind::refuse : turn_ == HostTurn::again ? JoinKind::retry : JoinKind::go;
    message.code = static_cast<uint32_t>(status.code());
    message.flag = joined_.global_barrier;
    message.say(status.message());
    tell_guests(guests_, message, earlier(Deadline::in_seconds(patience_with_latecomers_s), request_.deadline.later_by(joining_overtime_s)));
  }

  // Ranks are not started at the same instant. Who comes when joining has failed already is told why, too, for as long as it
  // takes until all have heard it, or a second.
  void tell_latecomers(const Status& status) {
    const Deadline deadline = earlier(request_.deadline, Deadline::in_seconds(patience_with_latecomers_s));
    auto told = static_cast<int>(guests_.size());
    while (told < request_.size - 1 && wait_readable(door_.number(), deadline) == Readable::yes) {
      guests_.clear();
      tell_outcome(status);
      told += static_cast<int>(guests_.size());
    }
  }

  const JoinRequest& request_;
  JoinMessage hello_;
  std::span<const int> mine_;
  InterruptWatch interrupts_;
  Deadline warns_ = Deadline::in_seconds(request_.warn_after_s);
  bool asked_ = false;  // who is missing elsewhere, to warn
  Door door_;
  Deadline resting_{0};  // until then the door is not looked at
  Guests guests_;
  Seats seats_;
  Gone gone_;
  std::string round_ = "seats";      // that is awaited, where there is a store
  Joined joined_;
  std::unique_ptr<Machines> machines_;  // where there is a store
  HostTurn turn_ = HostTurn::done;
  int unable_ = -1;  // the rank of a guest that said why it cannot join
  Sockets* sockets_ = nullptr;          // where there are several machines
};

}  // namespace

Result<Joined> host_world(const JoinRequest& request, const JoinMessage& hello, std::span<const int> mine, HostTurn& turn) {
  return Host(request, hello, mine).run(turn);
}

bool host_declines(const JoinRequest& request, const Status& why) { return Host(request, {}, {}).decline(why); }

}  // namespace unisono
