// What stands in the entries of a roster, as text. Other machines wrote it, or whoever else can write to the store: every word and number is held against
// its bounds. See roster.hpp.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/legible.hpp"
#include "transport/fabric.hpp"
#include "rendezvous/roster.hpp"

namespace unisono {
namespace {

constexpr size_t most_version_bytes = 15, most_host_bytes = 64;
constexpr std::string_view ended_word = " ended";

// The next number of the text, which it is taken from.
template <typename T>
bool take_number(std::string_view& text, T& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

bool take_word(std::string_view& text, std::string& word, size_t most_bytes) {
  const size_t length = std::min(text.find(' '), text.size());
  if (length == 0 || length > most_bytes) return false;
  word = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return std::ranges::all_of(word, [](unsigned char letter) { return letter > ' ' && letter < 0x7f; });
}

}  // namespace

std::string Seat::text() const {
  return fmt::format("{} {} {} {} {:x} {:x} {} {} {} {} {} {}", UNISONO_VERSION, size, rank, pid, probe, machine, host, agent, encrypt ? 1 : 0, sockets_per_peer, fabric, addresses);
}

std::string Seat::who() const { return fmt::format("pid {} on {}", pid, host); }

std::optional<std::string> Seat::version_of(std::string_view text) {
  std::string version;
  if (text.size() > most_entry_bytes || !take_word(text, version, most_version_bytes)) return std::nullopt;
  return version;
}

std::optional<Seat> Seat::parse(std::string_view text) {
  if (text.size() > most_entry_bytes) return std::nullopt;
  Seat seat;
  std::string version;
  int encrypt = 0;
  std::string_view rest = text;
  if (!take_word(rest, version, most_version_bytes) || !take_number(rest, seat.size) || !take_number(rest, seat.rank) || !take_number(rest, seat.pid) ||
      !take_number(rest, seat.probe, 16) || !take_number(rest, seat.machine, 16) || !take_word(rest, seat.host, most_host_bytes) ||
      !take_number(rest, seat.agent) || !take_number(rest, encrypt) || !take_number(rest, seat.sockets_per_peer) ||
      !take_number(rest, seat.fabric))
    return std::nullopt;
  seat.encrypt = encrypt == 1;
  seat.addresses = rest;
  const bool can_be = seat.size > 0 && seat.rank >= 0 && seat.pid >= 0 && seat.agent >= 0 && seat.sockets_per_peer >= 1 && seat.fabric >= 0 && seat.fabric <= static_cast<int>(FabricHere::found) && is_legible(seat.addresses) &&
                      seat.addresses.find(' ') == std::string::npos && seat.text() == text;
  return can_be ? std::optional(seat) : std::nullopt;
}

// The version comes first, as in every seat.
std::string Seat::ended_text() const {
  std::string all = text();
  return all.insert(all.find(' '), ended_word);
}

std::optional<Seat> Seat::parse_ended(std::string_view text) {
  const size_t at = text.find(' ');
  if (text.size() > most_entry_bytes || at == text.npos || !text.substr(at).starts_with(ended_word)) return std::nullopt;
  return parse(std::string(text.substr(0, at)).append(text.substr(at + ended_word.size())));
}

void Missing::add(int number, std::string how) {
  numbers.insert(std::ranges::lower_bound(numbers, number), number);
  gone.push_back(std::move(how));
}

std::string text_of_reason(const Status& why) { return fmt::format("{} {}", static_cast<int>(why.code()), why.message()).substr(0, most_entry_bytes); }

Status reason_to_give_up(std::string_view text) {
  int code = 0;
  if (text.size() > most_entry_bytes || !take_number(text, code) || code <= 0 || code > static_cast<int>(ErrorCode::internal))
    return {ErrorCode::init, "a rank on another machine gave up, and what the store holds of it is not legible"};
  return {static_cast<ErrorCode>(code), legible(text)};
}

std::string name_of_this_machine() {
  char name[most_host_bytes + 1] = {};
  if (gethostname(name, most_host_bytes) != 0 || name[0] == 0) return "?";
  std::string text = name;
  std::ranges::replace_if(text, [](unsigned char letter) { return letter <= ' ' || letter >= 0x7f; }, '?');
  return text;
}

}  // namespace unisono
