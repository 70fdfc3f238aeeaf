// Posting, matching and ending letters; what moves them is mail_frames.cpp. See mail.hpp.
#include "engine/mail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace unisono {
namespace {

std::string contents(DType dtype, int64_t bytes) { return fmt::format("{}[{}]", name_of(dtype), bytes / element_bytes(dtype)); }
std::string contents(const Letter& letter) { return contents(letter.dtype, letter.data.bytes); }

// One end of a letter: which rank, and what it sends or awaits.
struct End {
  int rank;
  std::string contents;
};
Status sizes_differ(const End& sender, const End& receiver, int32_t tag, int peer) {
  return {ErrorCode::mismatch,
          fmt::format("rank {} sent {} with tag {}, where rank {} receives {}: both must be alike. Nothing was written, and the group is "
                      "usable", sender.rank, sender.contents, tag, receiver.rank, receiver.contents),
          peer};
}

}  // namespace

void LetterList::add(Letter& letter) {
  letter.previous = last_;
  letter.next = nullptr;
  (last_ ? last_->next : first_) = &letter;
  last_ = &letter;
}

void LetterList::remove(Letter& letter) {
  (letter.previous ? letter.previous->next : first_) = letter.next;
  (letter.next ? letter.next->previous : last_) = letter.previous;
}

void Mail::enter(Letter& letter) {
  letter.order = ++posted_;
  letters_.add(letter);
}

void Mail::post(Letter& letter) {
  if (letter.sends()) {
    if (Status status = router_.to(letter.peer).open(); !status.ok()) return finish(letter, status);
    peer(letter.peer).unsent.push_back(&letter);
    letter.stage = Letter::Stage::unsent;
    if (lacks_credit(letter.peer)) receive_from(letter.peer);  // it may have come
    send_to(letter.peer);
    return;
  }
  awaited_[key_of(letter.peer, letter.tag)].push_back(&letter);
  ++awaited_from(letter);
  letter.stage = Letter::Stage::awaiting;
  match_stray(letter);
}

bool Mail::turn() {
  bool moved = false;
  for (int index = 0; index < lanes_.members() && failure_.ok(); ++index) {
    if (index == lanes_.me()) continue;
    Peer& other = peer(index);
    // What the peer sent is taken, within its credit, also while something is on its way to it: it may be doing the same.
    const bool looks_anyway = router_.alarm() && other.incoming.part != Incoming::Part::none;  // else its socket would end every sleep
    if (awaited_from_any_ > 0 || needs(index) || lacks_credit(index) || looks_anyway) moved |= receive_from(index);
    moved |= read_some(index);
    if (other.leaving || !other.replies.empty() || !other.unsent.empty() || !other.streams.empty()) moved |= send_to(index);
  }
  return moved;
}

bool Mail::needs(int member) const {
  const Peer& other = peers_[static_cast<size_t>(member)];
  return other.awaited > 0 || other.incoming.letter || other.leaving || !other.offered.empty() || !other.streams.empty() ||
         !other.arriving.empty();
}

bool Mail::owes_answer(int member) const {
  auto is_answer = [](const Frame& frame) { return frame.kind != Frame::Kind::credit; };
  return std::ranges::any_of(peers_[static_cast<size_t>(member)].replies, is_answer) && !router_.is_lost(member) && !gave_up(member);
}

// One long letter, or several short ones that came when there was no credit.
bool Mail::read_some(int index) {
  constexpr int most_short_ones = 64;
  Peer& other = peer(index);
  bool moved = false;
  for (int read = 0; read < most_short_ones && other.is_read && !other.arriving.empty(); ++read) {
    const bool is_short = other.arriving.front().letter->data.bytes <= eager_bytes;
    if (!read_arriving(index)) break;
    moved = true;
    if (!is_short) break;
  }
  return moved;
}

// The one that was posted first of those that this letter would do for.
Letter* Mail::awaiting(int source, int32_t tag) const {
  auto first = [this](Key key) -> Letter* {
    auto queue = awaited_.find(key);
    return queue == awaited_.end() || queue->second.empty() ? nullptr : queue->second.front();
  };
  Letter *from_it = first(key_of(source, tag)), *from_any = awaited_from_any_ > 0 ? first(key_of(any_source, tag)) : nullptr;
  if (!from_it || !from_any) return from_it ? from_it : from_any;
  return from_it->order < from_any->order ? from_it : from_any;
}

// Where what arrived first lies of what this letter may receive; null where nothing does.
std::deque<Mail::Stray>* Mail::strays_for(const Letter& letter) {
  std::deque<Stray>* best = nullptr;
  const int first = letter.peer == any_source ? 0 : letter.peer, last = letter.peer == any_source ? lanes_.members() - 1 : letter.peer;
  for (int source = first; source <= last; ++source) {
    auto queue = strays_.find(key_of(source, letter.tag));
    if (queue != strays_.end() && (!best || queue->second.front().order < best->front().order)) best = &queue->second;
  }
  return best;
}

void Mail::match_stray(Letter& letter) {
  if (strays_.empty()) return;
  std::deque<Stray>* strays = strays_for(letter);
  if (!strays) return;
  const Stray found = std::move(strays->front());
  strays->pop_front();
  if (strays->empty()) strays_.erase(key_of(found.source, letter.tag));
  found_its_match(letter, found.source);
  if (found.frame.kind == Frame::Kind::offer) {
    --peer(found.source).offers;
    return accept(letter, found.source, found.frame);
  }
  give_credit(found.source, found.frame);
  Status status = check_sizes(letter, found.source, found.frame);
  if (status.ok() && !found.bytes.empty()) std::memcpy(letter.data.data, found.bytes.data(), found.bytes.size());
  finish(letter, status);
}

// Queues of tags that are not used any more are thrown away when there are many.
void Mail::found_its_match(Letter& letter, int source) {
  constexpr size_t many_tags = 64;
  auto queue = awaited_.find(key_of(letter.peer, letter.tag));
  if (queue->second.front() == &letter)
    queue->second.pop_front();
  else
    std::erase(queue->second, &letter);
  if (queue->second.empty() && awaited_.size() > many_tags) awaited_.erase(queue);
  --awaited_from(letter);
  letter.stage = Letter::Stage::entered;
  letter.source = source;
}

// A long letter has met what awaits it.
void Mail::accept(Letter& letter, int source, const Frame& frame) {
  if (Status status = check_sizes(letter, source, frame); !status.ok()) {
    reply(source, Frame::Kind::wrong, frame, &letter);
    return finish(letter, status);
  }
  if (frame.bytes == 0) {
    reply(source, Frame::Kind::taken, frame);
    return finish(letter, Status::success());
  }
  peer(source).arriving.push_back({&letter, frame.sequence, frame.address});
  letter.stage = Letter::Stage::arriving;
  if (!peer(source).is_read) reply(source, Frame::Kind::go, frame);
}

Status Mail::check_sizes(const Letter& letter, int source, const Frame& frame) const {
  if (letter.dtype == frame.dtype && letter.data.bytes == frame.bytes) return Status::success();
  const int from = lanes_.member(source).rank, me = lanes_.member(lanes_.me()).rank;
  return sizes_differ({from, contents(frame.dtype, frame.bytes)}, {me, contents(letter)}, letter.tag, from);
}

// The peer tells how a long letter of ours fared.
void Mail::answer(int index, const Frame& frame) {
  std::deque<Transfer>& offered = peer(index).offered;
  auto transfer = std::find_if(offered.begin(), offered.end(), [&](const Transfer& one) { return one.sequence == frame.sequence; });
  if (transfer == offered.end()) return;  // of a letter that was given up
  const Transfer found = *transfer;
  offered.erase(transfer);
  found.letter->stage = Letter::Stage::entered;
  if (frame.kind == Frame::Kind::go) {
    peer(index).streams.push_back(found);
    found.letter->stage = Letter::Stage::streaming;
    return;
  }
  Status status;
  if (frame.kind == Frame::Kind::wrong) {
    const int me = lanes_.member(lanes_.me()).rank, to = lanes_.member(index).rank;
    status = sizes_differ({me, contents(*found.letter)}, {to, contents(frame.dtype, frame.bytes)}, frame.tag, to);
  }
  finish(*found.letter, status);
}

void Mail::finish(Letter& letter, const Status& status) {
  forget(letter);
  letter.over(status);
}

void Mail::forget(Letter& letter) {
  letters_.remove(letter);
  const int other = letter.sends() ? letter.peer : letter.source;
  Letter** const moving = other == any_source ? nullptr : letter.sends() ? &peer(other).leaving : &peer(other).incoming.letter;
  if (moving && *moving == &letter) {  // the channel has its memory; such a letter is given up only when its group is
    router_.to(other).drop();
    *moving = nullptr;
  }
  auto is_this = [&](const Transfer& transfer) { return transfer.letter == &letter; };
  switch (letter.stage) {
    case Letter::Stage::entered: return;
    case Letter::Stage::unsent: std::erase(peer(letter.peer).unsent, &letter); return;
    case Letter::Stage::offered: std::erase_if(peer(letter.peer).offered, is_this); return;
    case Letter::Stage::streaming: std::erase_if(peer(letter.peer).streams, is_this); return;
    case Letter::Stage::awaiting: return found_its_match(letter, any_source);
    case Letter::Stage::arriving: {
      std::deque<Transfer>& arriving = peer(letter.source).arriving;
      if (is_this(arriving.front()))
        arriving.pop_front();
      else
        std::erase_if(arriving, is_this);
      return;
    }
  }
}

std::string Mail::unclaimed_from(int source) const {
  constexpr size_t enough = 4;
  std::vector<std::string> texts;
  for (const auto& [key, strays] : strays_)
    for (const Stray& stray : strays)
      if ((source == any_source || source == stray.source) && texts.size() < enough)
        texts.push_back(fmt::format("{} with tag {} from rank {}", contents(stray.frame.dtype, stray.frame.bytes), stray.frame.tag,
                                    lanes_.member(stray.source).rank));
  return texts.empty() ? "" : fmt::format("what came and nobody receives: {}{}", fmt::join(texts, ", "), texts.size() == enough ? ", …" : "");
}

}  // namespace unisono
