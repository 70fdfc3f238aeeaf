// Posting, matching and ending letters; what moves them is mail_frames.cpp. See mail.hpp.
#include "engine/mail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace unisono {
namespace {

std::string contents(DType dtype, int64_t bytes) { return fmt::format("{}[{}]", name_of(dtype), bytes / element_bytes(dtype)); }

}  // namespace

void Mail::post(Letter& letter) {
  letters_.push_back(&letter);
  if (letter.sends()) {
    if (Status status = links_.open_to(letter.peer); !status.ok()) return finish(letter, status);
    peer(letter.peer).unsent.push_back(&letter);
    send_to(letter.peer);
    return;
  }
  ++awaited_from(letter);
  match_stray(letter);
}

bool Mail::turn() {
  bool moved = false;
  for (int index = 0; index < lanes_.members() && failure_.ok(); ++index) {
    if (index == lanes_.me()) continue;
    Peer& other = peer(index);
    const bool expects = awaited_from_any_ + other.awaited > 0 || !other.offered.empty() || !other.arriving.empty();
    if (expects) moved |= receive_from(index);
    if (!other.arriving.empty() && reads_peers_) moved |= read_arriving(index);
    if (!other.replies.empty() || !other.unsent.empty() || !other.streams.empty()) moved |= send_to(index);
  }
  return moved;
}

// The one that was posted first of those that this letter would do for.
Letter* Mail::awaiting(int source, int32_t tag) const {
  for (Letter* letter : letters_)
    if (!letter->sends() && letter->source == any_source && letter->tag == tag &&
        (letter->peer == source || letter->peer == any_source))
      return letter;
  return nullptr;
}

// What arrived first of what this letter may receive.
void Mail::match_stray(Letter& letter) {
  for (auto stray = strays_.begin(); stray != strays_.end(); ++stray) {
    if (stray->frame.tag != letter.tag || (letter.peer != any_source && letter.peer != stray->source)) continue;
    const Stray found = std::move(*stray);
    strays_.erase(stray);
    found_its_match(letter, found.source);
    if (found.frame.kind == Frame::Kind::offer) {
      accept(letter, found.source, found.frame);
    } else {
      Status status = check_sizes(letter, found.source, found.frame);
      if (status.ok() && !found.bytes.empty()) std::memcpy(letter.data.data, found.bytes.data(), found.bytes.size());
      finish(letter, status);
    }
    return;
  }
}

void Mail::found_its_match(Letter& letter, int source) {
  --awaited_from(letter);
  letter.source = source;
}

// A long letter has met what awaits it.
void Mail::accept(Letter& letter, int source, const Frame& frame) {
  if (Status status = check_sizes(letter, source, frame); !status.ok()) {
    reply(source, Frame::Kind::wrong, frame, &letter);
    return finish(letter, status);
  }
  peer(source).arriving.push_back({&letter, frame.sequence, frame.address});
  if (!reads_peers_) reply(source, Frame::Kind::go, frame);
}

Status Mail::check_sizes(const Letter& letter, int source, const Frame& frame) const {
  if (letter.dtype == frame.dtype && letter.data.bytes == frame.bytes) return Status::success();
  const int from = lanes_.member(source).rank, to = lanes_.member(lanes_.me()).rank;
  return {ErrorCode::mismatch,
          fmt::format("rank {} sent {} with tag {}, where rank {} receives {}. Nothing was written, and the group is usable", from,
                      contents(frame.dtype, frame.bytes), frame.tag, to, contents(letter.dtype, letter.data.bytes)),
          from};
}

// The peer tells how a long letter of ours fared.
void Mail::answer(int index, const Frame& frame) {
  std::vector<Transfer>& offered = peer(index).offered;
  auto transfer = std::find_if(offered.begin(), offered.end(), [&](const Transfer& one) { return one.sequence == frame.sequence; });
  if (transfer == offered.end()) return;  // of a letter that was given up
  const Transfer found = *transfer;
  offered.erase(transfer);
  if (frame.kind == Frame::Kind::go) {
    peer(index).streams.push_back(found);
    return;
  }
  Status status;
  if (frame.kind == Frame::Kind::wrong) {
    const int from = lanes_.member(lanes_.me()).rank, to = lanes_.member(index).rank;
    status = {ErrorCode::mismatch,
              fmt::format("rank {} sent {} with tag {}, where rank {} receives {}. Nothing was written, and the group is usable", from,
                          contents(found.letter->dtype, found.letter->data.bytes), frame.tag, to, contents(frame.dtype, frame.bytes)),
              to};
  }
  finish(*found.letter, status);
}

void Mail::finish(Letter& letter, const Status& status) {
  forget(letter);
  letter.over(status);
}

void Mail::forget(Letter& letter) {
  std::erase(letters_, &letter);
  auto is_this = [&](const Transfer& transfer) { return transfer.letter == &letter; };
  if (letter.sends()) {
    Peer& other = peer(letter.peer);
    std::erase(other.unsent, &letter);
    std::erase_if(other.offered, is_this);
    std::erase_if(other.streams, is_this);
    return;
  }
  if (letter.source != any_source)
    std::erase_if(peer(letter.source).arriving, is_this);
  else
    --awaited_from(letter);
}

std::string Mail::unclaimed_from(int source) const {
  constexpr size_t enough = 4;
  std::vector<std::string> texts;
  for (const Stray& stray : strays_)
    if ((source == any_source || source == stray.source) && texts.size() < enough)
      texts.push_back(fmt::format("{} with tag {} from rank {}", contents(stray.frame.dtype, stray.frame.bytes), stray.frame.tag,
                                  lanes_.member(stray.source).rank));
  return texts.empty() ? "" : fmt::format("what came and nobody receives: {}{}", fmt::join(texts, ", "), texts.size() == enough ? ", …" : "");
}

}  // namespace unisono
