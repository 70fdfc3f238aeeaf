// What is believed of a notice that came from another machine. See notice.hpp; who hears it: remotes.cpp, world_remotes.cpp.
#include "group/notice.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/check.hpp"
#include "group/ballot_box.hpp"

namespace unisono {
namespace {

static_assert(std::endian::native == std::endian::little, "docs/wire_format.md: numbers are little-endian");

using NoticeKind = NoticeHead::Kind;

// One row a kind.
struct NoticeForm {
  std::string_view name;
  size_t least_bytes, most_bytes;
  int least_rank, least_code;  // -1, 0: there need be none
  bool has_rank, has_code;
};
constexpr size_t entry_bytes = sizeof(ToldEntry), call_bytes = sizeof(ToldCall), text_bytes = most_notice_text_bytes;
constexpr NoticeForm notice_forms[] = {
    {"entry", entry_bytes, entry_bytes + most_told_members * sizeof(int), -1, 0, false, false},
    {"announced", call_bytes, call_bytes + text_bytes, -1, 0, true, false},
    {"fault", 0, text_bytes, -1, 1, true, true},
    {"left", 0, 0, -1, 0, false, false},
    {"ended", 0, 0, 0, 0, true, false},
    {"lost", 0, text_bytes, 0, 0, true, false},
    {"goodbye", 0, text_bytes, -1, 0, false, false},
    {"silent", 0, 0, 0, 0, true, false},
    {"last words", 0, text_bytes, -1, 0, false, false},
    {"ballots", least_ballots_bytes, most_ballots_bytes, -1, 0, false, false},
    {"heard", 0, 0, -1, 0, false, false},
};
static_assert(std::size(notice_forms) == NoticeHead::kinds && static_cast<int>(NoticeKind::heard) + 1 == NoticeHead::kinds);

Status cannot_be_told(std::string_view kind, std::string_view what) { return {ErrorCode::protocol, fmt::format("a notice \"{}\" {}", kind, what)}; }

Status check_told_entry(const Notice& notice, int ranks) {
  ToldEntry told;
  if (!notice.read(told)) return cannot_be_told("entry", "is cut off");
  if (told.index >= board_entries) return cannot_be_told("entry", fmt::format("for place {} of {}", told.index, board_entries));
  const std::span<const std::byte> members = std::span(notice.body).subspan(sizeof(told));
  if (members.size() % sizeof(int) != 0 || members.size() / sizeof(int) > static_cast<size_t>(ranks))
    return cannot_be_told("entry", fmt::format("of members in {} bytes, in a world of {}", members.size(), ranks));
  for (size_t at = 0; at < members.size(); at += sizeof(int)) {
    int member = 0;
    std::memcpy(&member, members.data() + at, sizeof(member));
    if (member < 0 || member >= ranks) return cannot_be_told("entry", fmt::format("with member {} in a world of {}", member, ranks));
  }
  return Status::success();
}

}  // namespace

Status check_head(const NoticeHead& head) {
  const auto kind = static_cast<size_t>(head.kind);
  if (kind >= std::size(notice_forms)) return {ErrorCode::protocol, fmt::format("a notice of kind {}, which there is not", kind)};
  const NoticeForm& form = notice_forms[kind];
  if (head.bytes < form.least_bytes || head.bytes > form.most_bytes)
    return cannot_be_told(form.name, fmt::format("of {} bytes, where {} to {} can be", head.bytes, form.least_bytes, form.most_bytes));
  if (head.asks > (is_repeated(head.kind) ? 1 : 0)) return cannot_be_told(form.name, fmt::format("that asks {}", head.asks));
  if (form.has_code ? head.code < form.least_code || head.code > static_cast<uint16_t>(ErrorCode::internal) : head.code != 0)
    return cannot_be_told(form.name, fmt::format("with code {}", head.code));
  if (form.has_rank ? head.rank < form.least_rank : head.rank != -1) return cannot_be_told(form.name, fmt::format("of rank {}", head.rank));
  return Status::success();
}

Status check_notice(const Notice& notice, int ranks) {
  const NoticeHead& head = notice.head;
  RETURN_IF_ERROR(check_head(head));
  const std::string_view name = notice_forms[static_cast<size_t>(head.kind)].name;
  if (notice.body.size() != head.bytes) return cannot_be_told(name, fmt::format("of {} bytes that says {}", notice.body.size(), head.bytes));
  if (head.rank >= ranks) return cannot_be_told(name, fmt::format("of rank {} in a world of {}", head.rank, ranks));
  if (head.kind == NoticeKind::entry) return check_told_entry(notice, ranks);
  if (head.kind == NoticeKind::ballots && notice.body.size() % sizeof(uint64_t) != 0) return cannot_be_told(name, fmt::format("of {} bytes", notice.body.size()));
  ToldCall told;
  if (head.kind == NoticeKind::announced && (!notice.read(told) || !can_be(told.announcement))) return cannot_be_told(name, "of a call that cannot be");
  return Status::success();
}

}  // namespace unisono
