// See ballot.hpp, for the rules and why they hold.
#include "group/ballot.hpp"

#include <algorithm>

namespace unisono {
namespace {

constexpr uint64_t most_ballots = uint64_t{1} << 60;  // nobody comes that far; a record that says so is made up

// Ballots are numbered so that each belongs to one host, the first to the lowest.
int owner_of(uint64_t ballot, int hosts) { return static_cast<int>((ballot - 1) % static_cast<uint64_t>(hosts)); }

uint64_t own_ballot_after(uint64_t ballot, int host, int hosts) {
  const auto count = static_cast<uint64_t>(hosts);
  const uint64_t own = ballot / count * count + static_cast<uint64_t>(host) + 1;
  return own > ballot ? own : own + count;
}

void begin_number(Ballots& mine, uint64_t decided, uint64_t flags, const MemberSet& members) {
  mine.decided = decided;
  mine.flags = flags;
  mine.members = members;
  mine.promised = mine.accepted = 0;
  mine.proposal = {false, MemberSet(static_cast<int>(members.words().size()) * 64)};
}

// One topic of all records, for one look at it.
class Look {
 public:
  Look(Ballots& mine, const BallotView& view, Topic topic, const MemberSet& gone)
      : mine_(mine), view_(view), wish_(view.wishes[static_cast<size_t>(topic)]), gone_(gone) {
    for (int host = 0; host < view.hosts.count(); ++host)
      records_.push_back(host == view.host ? &mine : &view.records[static_cast<size_t>(host)][topic]);
  }

  // One step; false where there is none.
  bool step() { return learn() || accept() || promise() || decide() || propose() || open(); }

 private:
  bool same_number(const Ballots& other) const { return other.decided == mine_.decided; }

  template <typename Is>
  bool has_majority(Is is) const {
    std::vector<bool> speaks;
    for (const Ballots* record : records_) speaks.push_back(same_number(*record) && is(*record));
    return is_majority(view_, speaks, gone_);
  }

  uint64_t highest_promise() const {
    uint64_t highest = 0;
    for (const Ballots* record : records_)
      if (same_number(*record)) highest = std::max(highest, record->promised);
    return highest;
  }

  bool learn() {
    const Ballots* ahead = *std::ranges::max_element(records_, {}, &Ballots::decided);
    if (ahead->decided <= mine_.decided) return false;
    begin_number(mine_, ahead->decided, ahead->flags, ahead->members);
    return true;
  }

  bool accept() {
    for (const Ballots* other : records_) {
      if (!same_number(*other) || other->accepted < mine_.promised || other->accepted <= mine_.accepted) continue;
      mine_.promised = mine_.accepted = other->accepted;
      mine_.proposal = other->proposal;
      return true;
    }
    return false;
  }

  bool promise() {
    const uint64_t highest = highest_promise();
    if (highest <= mine_.promised) return false;
    mine_.promised = highest;
    return true;
  }

  bool decide() {
    if (mine_.accepted == 0 || highest_promise() > mine_.accepted) return false;
    if (!has_majority([this](const Ballots& other) { return other.accepted == mine_.accepted; })) return false;
    const Outcome decided = mine_.proposal;
    begin_number(mine_, mine_.decided + 1, mine_.flags << 1 | (decided.flag ? 1 : 0), decided.members);
    return true;
  }

  // In a ballot of this host. The first of all needs no promises: nothing can have been accepted before it.
  bool propose() {
    const bool is_first = mine_.promised == 0 && view_.host == 0 && highest_promise() == 0;
    const uint64_t ballot = is_first ? 1 : mine_.promised;
    if (ballot == 0 || owner_of(ballot, view_.hosts.count()) != view_.host || mine_.accepted >= ballot || highest_promise() > ballot) return false;
    if (ballot != 1 && !has_majority([ballot](const Ballots& other) { return other.promised == ballot; })) return false;
    const Ballots* latest = *std::ranges::max_element(records_, {}, [this](const Ballots* other) { return same_number(*other) ? other->accepted : 0; });
    const bool was_accepted = same_number(*latest) && latest->accepted != 0;
    if (!was_accepted && !wish_.proposal) return false;
    mine_.proposal = was_accepted ? Outcome(latest->proposal) : *wish_.proposal;
    mine_.promised = mine_.accepted = ballot;
    return true;
  }

  bool open() {
    if (!wish_.opens || !wish_.proposal || opened_) return false;
    opened_ = true;
    mine_.promised = own_ballot_after(highest_promise(), view_.host, view_.hosts.count());
    return true;
  }

  Ballots& mine_;
  const BallotView& view_;
  const BallotView::Wish& wish_;
  const MemberSet& gone_;
  std::vector<const Ballots*> records_;  // by host
  bool opened_ = false;
};

void put(std::vector<uint64_t>& words, const MemberSet& set) { words.insert(words.end(), set.words().begin(), set.words().end()); }

class Reader {
 public:
  Reader(std::span<const uint64_t> words, int members) : words_(words), members_(members) {}

  uint64_t number() {
    const uint64_t number = words_[at_++];
    good_ &= number <= most_ballots;
    return number;
  }
  uint64_t bits() { return words_[at_++]; }
  bool flag() {
    good_ &= words_[at_] <= 1;
    return words_[at_++] != 0;
  }
  void set(MemberSet& set) {
    for (uint64_t& word : set.words()) word = words_[at_++];
    const int last = members_ % 64;
    if (last != 0) good_ &= set.words().back() >> last == 0;
  }
  bool good() const { return good_; }

 private:
  std::span<const uint64_t> words_;
  int members_;
  size_t at_ = 0;
  bool good_ = true;
};

}  // namespace

HostRecord::HostRecord(int members) : gone(members) {
  for (Ballots& each : ballots) each.members = each.proposal.members = MemberSet(members);
}

std::vector<uint64_t> HostRecord::words() const {
  std::vector<uint64_t> words{version};
  put(words, gone);
  for (const Ballots& each : ballots) {
    words.insert(words.end(), {each.decided, each.flags, each.promised, each.accepted, each.proposal.flag ? 1u : 0u});
    put(words, each.members);
    put(words, each.proposal.members);
  }
  return words;
}

std::optional<HostRecord> HostRecord::from(std::span<const uint64_t> words, int members) {
  if (words.size() != words_for(members)) return std::nullopt;
  HostRecord record(members);
  Reader reader(words, members);
  record.version = reader.number();
  reader.set(record.gone);
  bool ordered = true;
  for (Ballots& each : record.ballots) {
    each.decided = reader.number();
    each.flags = reader.bits();
    each.promised = reader.number();
    each.accepted = reader.number();
    each.proposal.flag = reader.flag();
    reader.set(each.members);
    reader.set(each.proposal.members);
    ordered &= each.accepted <= each.promised;
  }
  return reader.good() && ordered ? std::optional(record) : std::nullopt;
}

bool is_majority(const BallotView& view, const std::vector<bool>& speaks, const MemberSet& gone) {
  int all = 0, speaking = 0;
  bool lowest_speaks = false;
  for (int member = 0; member < view.members; ++member) {
    if (gone.contains(member)) continue;
    const bool is_speaking = speaks[static_cast<size_t>(view.hosts.of(member))];
    if (all == 0) lowest_speaks = is_speaking;
    ++all;
    speaking += is_speaking;
  }
  return 2 * speaking > all || (2 * speaking == all && lowest_speaks);
}

MemberSet known_gone(const BallotView& view, const HostRecord& mine) {
  MemberSet gone = mine.gone;
  for (int host = 0; host < view.hosts.count(); ++host)
    if (host != view.host) gone.add(view.records[static_cast<size_t>(host)].gone);
  return gone;
}

HostRecord next_record(const HostRecord& mine, const BallotView& view) {
  HostRecord next = mine;
  next.gone.add(view.ended);
  MemberSet gone = known_gone(view, next);
  gone.add(view.disregarded);
  for (int topic = 0; topic < topics; ++topic) {
    Look look(next.ballots[static_cast<size_t>(topic)], view, static_cast<Topic>(topic), gone);
    bool began_anew = false;
    for (uint64_t number = next.ballots[static_cast<size_t>(topic)].decided; !began_anew && look.step();)
      began_anew = next.ballots[static_cast<size_t>(topic)].decided != number;  // what was wished for was for the number before
  }
  return next;
}

}  // namespace unisono
