// See identity.hpp.
#include "trust/identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace unisono {
namespace {

constexpr std::string_view identity_begins = "unisono/1 ";
constexpr size_t most_identity_bytes = 64;

}  // namespace

std::string Identity::text() const { return fmt::format("{}{} {} {}", identity_begins, job_id, ends.from, ends.to); }

// Numbers are read, and the whole is written again and compared: so every identity has one form. The id ends up in logs.
std::optional<Identity> Identity::parse(std::string_view text) {
  if (text.size() > most_identity_bytes || !text.starts_with(identity_begins)) return std::nullopt;
  const std::string_view rest = text.substr(identity_begins.size());
  if (rest.size() <= job_id_digits) return std::nullopt;
  Identity identity{std::string(rest.substr(0, job_id_digits)), {}};
  if (!std::ranges::all_of(identity.job_id, [](char digit) { return (digit >= '0' && digit <= '9') || (digit >= 'a' && digit <= 'f'); })) return std::nullopt;
  const char *at = rest.data() + job_id_digits + 1, *const end = rest.data() + rest.size();
  const auto from = std::from_chars(at, end, identity.ends.from);
  if (from.ec != std::errc() || from.ptr == end) return std::nullopt;
  if (std::from_chars(from.ptr + 1, end, identity.ends.to).ec != std::errc()) return std::nullopt;
  const bool can_be = identity.ends.from >= TlsEnds::client && identity.ends.to >= TlsEnds::store && identity.text() == text;
  return can_be ? std::optional(std::move(identity)) : std::nullopt;
}

}  // namespace unisono
