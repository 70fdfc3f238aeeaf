// What clients of a TCPStore are told while their connections are cut and they are killed, in one order: each operation happened at one moment between
// its start and its end, and one without an answer at most once. Planted histories, for the checker: store_history_rows_planted.cpp.
#include "tests/support/store_history.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <thread>

#include "tests/support/cutting_relay.hpp"
#include "tests/support/noting_store_client.hpp"
#include "tests/support/scale.hpp"

namespace unisono::testing {
namespace {

using What = StoreOperation::What;

constexpr int processes = 3, victims = 2;  // the other clients are threads
constexpr std::array other_cuts = {Cut::reset, Cut::hold, Cut::swallow, Cut::swallow_answers};

// What is cut and who is killed, by how many operations have ended; asked by the relay before each of its steps.
class Script {
 public:
  Script(Dice& dice, const StoreClients& clients, const Children& children) : signs_(clients.signs()), children_(children) {
    for (int64_t at = 0; at < StoreClients::count * StoreClients::operations; at += dice.between(3, 25))
      cuts_.push_back({at + dice.between(1, 3), dice.between(1, 5), {dice.chance(40) ? Cut::reset_at_answer : dice.pick(other_cuts), dice.chance(40)}});
    victims_ = dice.some_below(processes, victims);
    for (int victim = 0; victim < victims; ++victim) kills_at_.push_back(dice.between(10, 100));
  }

  CutNow now() {
    const int64_t ended = signs_.ended;
    for (size_t kill = 0; kill < kills_at_.size() && !signs_.is_calm; ++kill)  // afterwards they may have ended, and their numbers be somebody else's
      if (ended >= kills_at_[kill] && !std::exchange(is_killed_[kill], true)) children_.kill(victims_[kill]);
    while (next_ < cuts_.size() && ended >= cuts_[next_].at) now_ = cuts_[next_++];
    return signs_.is_calm || ended >= now_.at + now_.lasts ? CutNow() : now_.cut;
  }
  bool is_victim(int client) const { return std::find(victims_.begin(), victims_.end(), client) != victims_.end(); }

 private:
  struct Event {
    int64_t at = 0, lasts = 0;
    CutNow cut;
  };
  StoreClients::Signs& signs_;
  const Children& children_;
  std::vector<Event> cuts_;
  std::vector<int> victims_;
  std::vector<int64_t> kills_at_;
  bool is_killed_[victims] = {};
  size_t next_ = 0;
  Event now_;
};

// Of the adds without an answer.
struct Tally {
  int64_t happened = 0, did_not_happen = 0, answered = 0;
  void count(const std::vector<StoreOperation>& history, const StoreOperation& sum) {
    int64_t added = 0, unanswered = 0;
    for (const StoreOperation& operation : history) {
      answered += operation.is_answered();
      if (operation.what != What::add || operation.key != StoreClients::count_key || operation.started_ns > sum.started_ns) continue;
      ++(operation.is_answered() ? added : unanswered);
    }
    happened += sum.result - added;
    did_not_happen += unanswered - (sum.result - added);
  }
};

// What each key holds; past the relay.
std::vector<StoreOperation> look_at_all(int port) {
  const auto user = user_of(port);
  std::vector<StoreOperation> looks;
  for (int key = 0; key < StoreClients::keys; ++key)
    EXPECT_EQ(perform_noted(*user, {.client = StoreClients::count + 1, .key = key}, looks.emplace_back()), ErrorCode::ok);
  return looks;
}

// While all go on and nothing is cut. When the master was gone.
int64_t end_master(MasterProcess& process, StoreClients::Signs& signs) {
  const int64_t ended = signs.ended;
  signs.is_last = true;
  EXPECT_TRUE(await([&] { return signs.ended >= ended + 10; }));
  signs.killed_ns = now_ns();
  process.kill();
  process.await_end();
  return now_ns();
}

void expect_endings(const std::vector<Ending>& endings, const Script& script) {
  for (int index = 0; index < processes; ++index) {
    const Ending& ending = endings[static_cast<size_t>(index)];
    EXPECT_TRUE(script.is_victim(index) ? WIFSIGNALED(ending.status) : ending.succeeded()) << "client " << index << " said:\n" << ending.output;
  }
}

void play(uint64_t seed, Tally& tally) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Dice dice(seed);
  MasterProcess process;
  const StoreClients clients;
  StoreClients::Signs& signs = clients.signs();
  CuttingRelay relay(process.port());
  Children children(processes, [&](int index) { NotingStoreClient(clients, index, seed).run(relay.port()); });
  Script script(dice, clients, children);
  relay.start([&] { return script.now(); });
  std::vector<std::thread> others;
  for (int number = processes; number < StoreClients::count; ++number)
    others.emplace_back([&, number] { NotingStoreClient(clients, number, seed).run(relay.port()); });
  for (int number = 0; number < StoreClients::count; ++number)
    EXPECT_TRUE(script.is_victim(number) || await([&] { return signs.finished[number] != 0; })) << "client " << number;
  signs.is_calm = true;
  const std::vector<StoreOperation> looks = look_at_all(process.port());
  const int64_t gone_ns = end_master(process, signs);
  for (std::thread& other : others) other.join();
  expect_endings(children.wait(), script);
  relay.stop();

  std::vector<StoreOperation> history = clients.history();
  tally.count(history, looks[StoreClients::count_key]);
  for (const StoreOperation& operation : history) EXPECT_FALSE(operation.started_ns > gone_ns && operation.is_answered()) << text_of(operation);
  history.insert(history.end(), looks.begin(), looks.end());
  const std::string fault = not_linearizable(history);
  EXPECT_TRUE(fault.empty()) << fault;
}

TEST(StoreHistories, of_clients_that_are_cut_off_and_killed_are_linearizable) {
  const uint64_t rounds = scale() == Scale::full ? 40 : scale() == Scale::normal ? 5 : 2;
  Tally tally;
  for (uint64_t seed = 1; seed <= rounds && !HasFailure(); ++seed) play(seed, tally);
  EXPECT_GT(tally.answered, static_cast<int64_t>(rounds) * StoreClients::operations);
  EXPECT_GT(tally.happened, 0);  // so that the test has seen both kinds
  EXPECT_GT(tally.did_not_happen, 0);
}

TEST(StoreHistories, an_add_without_an_answer_has_happened_once_or_not_at_all) {
  struct Case {
    const char* name;
    Cut cut;
    ErrorCode code;
    int64_t adds;
  };
  MasterProcess process;
  CuttingRelay relay(process.port());
  std::atomic<Cut> cut{Cut::none};
  relay.start([&] { return CutNow{cut}; });
  const auto user = user_of(relay.port()), direct = user_of(process.port());
  int64_t sum = user->add("key 0", 1);
  for (const Case& each : {Case{"reset at the answer", Cut::reset_at_answer, ErrorCode::store_lost, 1},
                           {"the answer swallowed", Cut::swallow_answers, ErrorCode::timeout, 1},
                           {"the request swallowed", Cut::swallow, ErrorCode::timeout, 0},
                           {"the request late", Cut::hold, ErrorCode::timeout, 1}}) {
    SCOPED_TRACE(each.name);
    const int64_t swallowed = relay.swallowed_bytes();
    cut = each.cut;
    StoreOperation note;
    user->set_timeout(each.code == ErrorCode::timeout ? StoreClients::impatience_s : 60);
    EXPECT_EQ(error_name(perform_noted(*user, {.what = What::add, .value = 1}, note)), error_name(each.code));
    const bool swallows = each.cut == Cut::swallow || each.cut == Cut::swallow_answers;
    EXPECT_TRUE(!swallows || await([&] { return relay.swallowed_bytes() > swallowed; }));
    cut = Cut::none;
    user->set_timeout(60);
    sum += each.adds;
    EXPECT_TRUE(await([&] { return direct->add("key 0", 0) >= sum; }, 5));  // what was held comes late
    ASSERT_EQ(user->add("key 0", 0), sum);
  }
}

}  // namespace
}  // namespace unisono::testing
