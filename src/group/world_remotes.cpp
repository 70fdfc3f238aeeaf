// What ranks on other hosts tell, and what they are told: entries of boards, faults, who has left and who is lost. All of it is heard by
// the control thread.
//
// Who writes mirrors of boards, and in which order: making.hpp.
//
// Who is dead is known on its own host, and told from there, by each who watched it; it is believed when all that the dead had told
// itself has been heard, which is when its connection ends. A connection that ends without a goodbye may have been reset by something on the way: it is opened
// anew. Where the machine answers, and refuses one again and again, nobody listens there any more: then the others of that host are waited for, for a while, and where
// there are none left, or they say nothing, the rank counts as lost. Whatever else stands in the way says nothing of the rank: the process may be stopped, this one may lack
// descriptors, a box on the way may be in its bad minute. It is tried until it can be, or the machine is silent: see world_hosts.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/legible.hpp"
#include "group/world.hpp"

namespace unisono {
namespace {

constexpr const char* silent_text =
    "is silent: its connection ended without a goodbye, and nobody on its host says why";
constexpr size_t most_early = 1024;
constexpr int64_t say_so_after_ns = 3'000'000'000;
constexpr int64_t comes_within_ns = HostWatch::silent_ns;  // who cannot be reached from here, and may not know yet that its connection is gone

}  // namespace

void World::tell_entry(const BoardEntry& entry, const std::vector<int>& ranks) {
  if (!remotes_) return;
  Notice notice;
  const ToldEntry told = Making::told(head(), entry);
  notice.head = {.kind = NoticeHead::Kind::entry};
  notice.add(&told, sizeof(told));
  notice.add(ranks.data(), ranks.size() * sizeof(int));
  for (int member : ranks)
    if (!hosts().share(member, rank())) remotes_->tell(member, notice);
}

void World::hear_remotes() {
  if (!remotes_) return;
  remotes_->listen(news_);
  if (news_.heard.empty() && news_.ended.empty() && news_.back.empty()) return;
  bool somebody_left = false;
  for (; !news_.heard.empty(); news_.heard.pop_front()) {  // one that memory runs out for is dealt with again
    const auto& [from, notice] = news_.heard.front();
    heard(from, notice);
    somebody_left |= notice.head.kind == NoticeHead::Kind::left;
  }
  if (somebody_left) sweep_retired();
  for (; !news_.ended.empty(); news_.ended.pop_back()) {
    const auto& [rank, is_wrong, why] = news_.ended.back();
    if (!how_lost(rank).empty()) {
      remotes_->give_up(rank);
      continue;
    }
    Doubt& doubt = this->doubt(rank);
    doubt.ended = true;
    if (is_wrong) doubt.how = fmt::format("cannot be spoken with any more: it sent what no rank of ours sends ({})", why);
    else doubt.why = why;
  }
  for (; !news_.back.empty(); news_.back.pop_back()) {
    const int rank = news_.back.back();
    log_.info(fmt::format("the connection to rank {} had ended without a goodbye, and is open again: something on the way has reset it", rank));
    if (const auto doubt = doubts_.find(rank); doubt != doubts_.end() && doubt->second.how.empty()) doubts_.erase(doubt);
  }
  judge_doubts();
  ring_bell(head());
}

void World::heard(int from, const Notice& notice) {
  switch (notice.head.kind) {
    case NoticeHead::Kind::entry: return heard_entry(from, notice);
    case NoticeHead::Kind::announced:
    case NoticeHead::Kind::fault:
    case NoticeHead::Kind::left:
    case NoticeHead::Kind::ended:
    case NoticeHead::Kind::ballots: return heard_of_group(from, notice);
    case NoticeHead::Kind::goodbye: return member_lost(from, legible(notice.text()));
    case NoticeHead::Kind::last_words: return write_note(joined_.neighbours[static_cast<size_t>(from)].head().last_words, legible(notice.text()));
    case NoticeHead::Kind::silent: return host_silent(hosts().of(notice.head.rank), from);
    case NoticeHead::Kind::heard: return;
    case NoticeHead::Kind::lost:
      if (const int rank = notice.head.rank; rank >= 0 && rank < size() && hosts().share(rank, from)) {
        if (!how_lost(rank).empty()) return;
        doubt(rank).how = legible(notice.text());
      }
  }
}

// An entry of a rank's board, into the mirror of it. Who gave a group up that this rank has made, or still tries to, has left it.
void World::heard_entry(int from, const Notice& notice) {
  ToldEntry told;
  if (!notice.read(told)) return;
  std::vector<int> members((notice.body.size() - sizeof(told)) / sizeof(int));
  std::memcpy(members.data(), notice.body.data() + sizeof(told), members.size() * sizeof(int));
  std::lock_guard lock(mutex_);
  making_.hear(joined_.neighbours[static_cast<size_t>(from)], told, std::move(members));
  if (told.key == 0) return;
  if (gave_up_with(told.making) == ErrorCode::ok || pass_on(from, left_before_it_began(told.key))) return;
  for (GroupParts& parts : failed_) {
    if (parts.board_key.key != told.key) continue;
    const auto member = std::find(parts.ranks.begin(), parts.ranks.end(), from) - parts.ranks.begin();
    if (parts.my_place != 0 && member < parts.layout.members) lane_marks(parts)[member].store(has_left, std::memory_order_release);
  }
}

// Under the mutex. False where there is no such group.
bool World::pass_on(int from, const Notice& notice) {
  bool found = false;
  for_each_group([&](Group& group) {
    const int member = group.index_of(from);
    if (group.board_key().key != notice.head.group || member < 0) return;
    group.told(member, notice);
    found = true;
  });
  return found;
}

// What is told of a group that the teller has made already, and this rank not yet, waits for that. Of what a waiting rank tells again and again the last is kept, and given up first.
void World::heard_of_group(int from, const Notice& notice) {
  std::lock_guard lock(mutex_);
  if (pass_on(from, notice)) return;
  auto is_told_again = [](const Remotes::Heard& heard) { return is_repeated(heard.notice.head.kind); };
  auto is_the_same = [&](const Remotes::Heard& heard) {
    return heard.rank == from && heard.notice.head.kind == notice.head.kind && heard.notice.head.group == notice.head.group && heard.notice.head.rank == notice.head.rank;
  };
  if (is_repeated(notice.head.kind)) std::erase_if(early_, is_the_same);
  if (early_.size() >= most_early) {
    const auto least = std::ranges::find_if(early_, is_told_again);
    early_.erase(least == early_.end() ? early_.begin() : least);
  }
  early_.push_back({from, notice});
}

// Under the mutex, once the group can be found.
void World::apply_early(Group& group) {
  for (const auto& [from, notice] : early_)
    if (const int member = group.index_of(from); member >= 0 && notice.head.group == group.board_key().key) group.told(member, notice);
  std::erase_if(early_, [&](const Remotes::Heard& heard) { return heard.notice.head.group == group.board_key().key; });
  for (int member = 0; member < group.size(); ++member) {
    const Neighbour& other = joined_.neighbours[static_cast<size_t>(group.world_rank(member))];
    if (!other.is_here() && Making::has_given_up(other, group.board_key()))
      group.told(member, left_before_it_began(group.board_key().key));
  }
}

Notice World::left_before_it_began(uint64_t group) const {
  Notice left;
  left.head = {.kind = NoticeHead::Kind::left, .group = group, .finished = static_cast<uint32_t>(settings().first_call) - 1};
  return left;
}

void World::tell_owed() {
  std::lock_guard lock(mutex_);
  for_each_group([](Group& group) { group.tell_owed(); });
}

// Not for as long as a new connection may take: what else is lost of that rank is told in time.
bool World::is_in_doubt(int rank) const {
  if (!remotes_ || hosts().share(rank, this->rank()) || !remotes_->has_ended(rank)) return false;
  return now_ns() - remotes_->unheard_ns(rank) <= for_better_news_ns && how_lost(rank).empty();
}

World::Doubt& World::doubt(int rank) { return doubts_.try_emplace(rank, Doubt{now_ns(), remotes_->has_ended(rank)}).first->second; }

bool World::is_refused(int rank) const {
  return sockets_->with_proofs([rank](const Proofs& proofs) { return proofs.is_refused_again(rank); });
}

// Whether better news may still come of it.
bool World::may_clear_up(int rank, const Doubt& doubt) const {
  const int64_t since_ns = now_ns() - doubt.since_ns;
  if (!doubt.how.empty()) return !doubt.ended && since_ns <= for_better_news_ns;
  if (!is_refused(rank)) return !neighbour(rank).where.out_of_reach || since_ns <= comes_within_ns;
  auto may_tell = [&](int other) { return other != rank && !doubts_.contains(other) && how_lost(other).empty(); };
  return since_ns <= for_better_news_ns && std::ranges::any_of(hosts().ranks_on(hosts().of(rank)), may_tell);
}

void World::judge_doubts() {
  std::vector<std::pair<int, std::string>> lost;
  for (auto& [rank, doubt] : doubts_) {
    if (!may_clear_up(rank, doubt))
      lost.push_back({rank, doubt.how.empty() ? std::string(silent_text) : doubt.how});
    else if (doubt.ended && doubt.how.empty())
      remotes_->reopen(rank);
    if (doubt.is_said || now_ns() - doubt.since_ns < say_so_after_ns) continue;
    doubt.is_said = true;
    log_.warning(fmt::format("nothing has been heard of rank {} ({}) for {} s: its connection for notices ended without a goodbye, and a new one has not opened yet{}{}", rank,
                             neighbour(rank).process(), say_so_after_ns / 1'000'000'000, doubt.why.empty() ? "" : ": ", doubt.why));
  }
  for (const auto& [rank, how] : lost) {
    doubts_.erase(rank);
    if (how_lost(rank).empty()) member_lost(rank, how);
    remotes_->give_up(rank);
  }
}

}  // namespace unisono
