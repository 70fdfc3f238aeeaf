// See ballot_box.hpp. Order: argued there.
#include "group/ballot_box.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/clock.hpp"

namespace unisono {
namespace {

constexpr int64_t ballot_patience_ns = 40'000'000;

// What is told is counted on from here: it has to leave room below what a record may say.
bool can_be_told(const HostRecord& record) {
  constexpr uint64_t most_told = uint64_t{1} << 59;
  return std::ranges::all_of(record.ballots, [](const Ballots& each) { return each.decided < most_told && each.promised < most_told; });
}

}  // namespace

BallotBox::BallotBox(Lanes& lanes, const Hosts& hosts, Teller* teller)
    : lanes_(lanes), record_(lanes), hosts_(hosts), host_(hosts.of(lanes.me())), teller_(teller), records_(static_cast<size_t>(hosts.count()), HostRecord(lanes.members())) {
  CHECK(static_cast<size_t>(lanes.layout().record_words()) == HostRecord::words_for(lanes.members()));
}

// The last of a host tells all votes of it; of those who came before nothing could be decided.
void BallotBox::vote(const BallotQuestion& question, bool flag, const MemberSet& gone) {
  std::lock_guard lock(mutex_);
  lanes_.mine().votes[2 * static_cast<size_t>(question.topic) + question.number % 2].store(vote_word(question.number, flag), std::memory_order_seq_cst);
  auto is_awaited = [&](int member) {
    return !gone.contains(member) && !question.excluded.contains(member) && vote_of(member, question.topic, question.number) == Vote::none;
  };
  if (std::ranges::none_of(members_on(host_), is_awaited)) tell_all(gone);
}

Vote BallotBox::vote_of(int member, Topic topic, uint64_t number) const {
  return vote_in(lanes_.control(member).votes[2 * static_cast<size_t>(topic) + number % 2].load(std::memory_order_seq_cst), number);
}

std::vector<int> BallotBox::members_on(int host) const {
  std::vector<int> members;
  for (int member = 0; member < lanes_.members(); ++member)
    if (hosts_.of(member) == host) members.push_back(member);
  return members;
}

HostRecord BallotBox::mine(SharedRecord::Seen& seen) const {
  seen = record_.read();
  if (seen.mark == 0) return HostRecord(lanes_.members());
  const std::optional<HostRecord> record = HostRecord::from(seen.words, lanes_.members());
  if (!record) lanes_.cannot_be(lanes_.me(), "record of a group's host");
  return *record;
}

// The others are given time to come to a decision by themselves, each host another, and more the more ballots there have been: two that begin ballots in turns decide nothing.
bool BallotBox::has_had_patience(const Ballots& mine) const {
  const auto hosts = static_cast<uint64_t>(hosts_.count());
  const auto rounds = static_cast<int64_t>(std::min<uint64_t>(mine.promised / hosts, 20));
  return now_ns() - changed_ns_ > ballot_patience_ns * (1 + host_ % 16) * (1 + rounds) + 1'000'000 * (lanes_.me() % 32);
}

BallotView BallotBox::view(const HostRecord& mine, const BallotQuestion* question, const MemberSet& gone, Tally& tally) {
  const int members = lanes_.members();
  BallotView view{hosts_, members, host_, records_, MemberSet(members), MemberSet(members)};
  for (int member : members_on(host_))
    if (gone.contains(member)) view.ended.add(member);
  if (!question) return view;
  if (question->counts_minority) view.disregarded = gone;
  const Ballots& ballots = mine[question->topic];
  if (ballots.decided >= question->number) return view;
  const MemberSet testified = known_gone(view, mine);
  const uint64_t number = ballots.decided + 1;
  auto is_gone = [&](int member) { return gone.contains(member) || testified.contains(member) || question->excluded.contains(member); };
  auto counted_vote = [&](int member) {  // on shrinking only those have a say who will be left
    return question->topic == Topic::shrink && is_gone(member) ? Vote::none : vote_of(member, question->topic, number);
  };
  tally = count_votes(members, counted_vote, is_gone);
  view.wishes[static_cast<size_t>(question->topic)] = {tally.outcome, has_had_patience(ballots)};
  return view;
}

// True where this host's record was changed from here.
bool BallotBox::update(const BallotQuestion* question, const MemberSet& gone, BallotAnswer* answer) {
  bool changed = false;
  for (;;) {
    SharedRecord::Seen seen;
    const HostRecord before = mine(seen);
    if (seen.mark != seen_mark_ || changed_ns_ == 0) changed_ns_ = now_ns();
    seen_mark_ = seen.mark;
    Tally tally;
    const BallotView now = view(before, question, gone, tally);
    HostRecord next = next_record(before, now);
    if (next == before || closed_) {
      if (answer) {
        *answer = answer_from(before, now, *question, gone);
        answer->missing = std::move(tally.missing);
      }
      return changed;
    }
    next.version = before.version + 1;
    changed |= record_.replace(seen.mark, next.words());
  }
}

BallotAnswer BallotBox::answer_from(const HostRecord& mine, const BallotView& view, const BallotQuestion& question, const MemberSet& gone) const {
  using State = BallotAnswer::State;
  const Ballots& ballots = mine[question.topic];
  if (ballots.decided >= question.number) {
    const uint64_t since = ballots.decided - question.number;
    if (since >= kept_flags) return {State::too_late};
    return {State::decided, {(ballots.flags >> since & 1) != 0, since == 0 ? ballots.members : MemberSet()}};
  }
  std::vector<bool> speaks(static_cast<size_t>(hosts_.count()));
  for (int member = 0; member < lanes_.members(); ++member)
    if (!gone.contains(member)) speaks[static_cast<size_t>(hosts_.of(member))] = true;
  const MemberSet testified = known_gone(view, mine);
  if (question.counts_minority || is_majority(view, speaks, testified)) return {};
  BallotAnswer answer{.state = State::minority, .counted = MemberSet(lanes_.members())};
  for (int member = 0; member < lanes_.members(); ++member)
    if (!testified.contains(member)) answer.counted.add(member);
  return answer;
}

BallotAnswer BallotBox::ask(const BallotQuestion& question, const MemberSet& gone) {
  std::lock_guard lock(mutex_);
  BallotAnswer answer;
  if (update(&question, gone, &answer)) tell_all(gone);
  return answer;
}

Notice BallotBox::notice(bool asks) const {
  SharedRecord::Seen seen;
  std::vector<uint64_t> words = mine(seen).words();
  for (int member : members_on(host_))
    for (const std::atomic<uint64_t>& vote : lanes_.control(member).votes) words.push_back(vote.load(std::memory_order_acquire));
  Notice notice;
  notice.head = {.kind = NoticeHead::Kind::ballots, .asks = asks, .group = group_, .finished = lanes_.mine().finished.load(std::memory_order_relaxed)};
  notice.add(words.data(), words.size() * sizeof(uint64_t));
  return notice;
}

void BallotBox::tell_all(const MemberSet& gone) {
  for (int member : lanes_.mates()) lanes_.wake(member);
  if (!teller_ || hosts_.count() == 1) return;
  const Notice told = notice(false);
  for (int member = 0; member < lanes_.members(); ++member)
    if (!lanes_.is_here(member) && !gone.contains(member)) teller_->tell(lanes_.member(member).rank, told);
}

void BallotBox::remind(const MemberSet& gone) {
  std::lock_guard lock(mutex_);
  if (closed_ || !teller_ || hosts_.count() == 1) return;
  const Notice told = notice(true);
  for (int host = 0; host < hosts_.count(); ++host) {
    std::vector<int> others = members_on(host);
    std::erase_if(others, [&](int member) { return lanes_.is_here(member) || gone.contains(member); });
    for (size_t some = 0; some < std::min<size_t>(others.size(), 2); ++some)  // one of them may be stopped: others are asked the next time
      teller_->tell(lanes_.member(others[(reminders_ + some) % others.size()]).rank, told);
  }
  ++reminders_;
}

void BallotBox::told(int member, const Notice& notice, const MemberSet& gone) {
  std::vector<uint64_t> words(notice.body.size() / sizeof(uint64_t));
  std::memcpy(words.data(), notice.body.data(), words.size() * sizeof(uint64_t));
  const int host = hosts_.of(member);
  const std::vector<int> tellers = members_on(host);
  const size_t record_words = HostRecord::words_for(lanes_.members());
  if (host == host_ || words.size() != record_words + vote_words * tellers.size()) return;
  const std::optional<HostRecord> record = HostRecord::from(std::span(words).first(record_words), lanes_.members());
  if (!record || !can_be_told(*record)) return;
  std::lock_guard lock(mutex_);
  if (closed_) return;
  HostRecord& known = records_[static_cast<size_t>(host)];
  if (record->version > known.version) {
    known = *record;
    for (int other = 0; other < lanes_.members(); ++other)
      if (hosts_.of(other) != host) known.gone.remove(other);  // a host testifies of its own members alone
    changed_ns_ = now_ns();
  }
  const uint64_t* vote = words.data() + record_words;
  for (int teller : tellers)
    for (std::atomic<uint64_t>& word : lanes_.control(teller).votes) word.store(std::max(word.load(std::memory_order_relaxed), *vote++), std::memory_order_release);
  if (update(nullptr, gone, nullptr)) tell_all(gone);
  if (notice.head.asks) teller_->tell(lanes_.member(member).rank, this->notice(false));
}

void BallotBox::testify(const MemberSet& gone) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  update(nullptr, gone, nullptr);
  tell_all(gone);
}

void BallotBox::leave(const MemberSet& gone) {
  testify(gone);
  close();
}

void BallotBox::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace unisono
