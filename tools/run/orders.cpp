// See orders.hpp. An order is its kind, four bytes of length, lowest first, and as many bytes of text. A sheet is a list of name=value, each ended by a zero byte.
#include "tools/run/orders.hpp"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <map>
#include <sstream>

namespace unisono::tools {
namespace {

constexpr size_t head_bytes = 5, most_text_bytes = 16 << 20;
constexpr std::string_view kinds = "SIEKT", answer_mark = "\1unisono/1 ";

}  // namespace

std::string bytes_of(const Order& order) {
  std::string bytes(1, static_cast<char>(order.kind));
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(order.text.size() >> shift & 255);
  return bytes + order.text;
}

std::optional<Order> OrderReader::next() {
  if (is_lost_ || waiting_.size() < head_bytes) return std::nullopt;
  size_t count = 0;
  for (size_t index = 0; index < 4; ++index) count |= static_cast<size_t>(static_cast<unsigned char>(waiting_[1 + index])) << (8 * index);
  is_lost_ = kinds.find(waiting_[0]) == kinds.npos || count > most_text_bytes;
  if (is_lost_ || waiting_.size() < head_bytes + count) return std::nullopt;
  Order order{static_cast<OrderKind>(waiting_[0]), waiting_.substr(head_bytes, count)};
  waiting_.erase(0, head_bytes + count);
  return order;
}

std::string Sheet::text() const {
  std::string all;
  const auto add = [&all](std::string_view name, const auto& value) { all += fmt::format("{}={}", name, value) + '\0'; };
  add("job", job);
  add("host", host);
  add("folder", folder);
  add("secret", secret);
  add("address", address);
  add("port", port);
  add("first", first_rank);
  add("ranks", ranks);
  add("size", size);
  add("keep_going", keep_going ? 1 : 0);
  add("prefix", prefix ? 1 : 0);
  add("grace_ms", static_cast<int64_t>(grace_s * 1000));
  for (const auto& [name, value] : environment) add("env", fmt::format("{}={}", name, value));
  for (const std::string& setting : settings) add("set", setting);
  for (const std::string& word : command) add("word", word);
  return all;
}

Result<Sheet> Sheet::parse(std::string_view text) {
  Sheet sheet;
  int keep_going = 0, prefix = 1, grace_ms = 5000;
  bool is_right = true;
  const auto number = [&is_right](int& into) {
    return [&is_right, &into](std::string_view value) {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), into);
      is_right &= error == std::errc() && end == value.data() + value.size() && into >= 0;
    };
  };
  const auto words = [](std::string& into) { return [&into](std::string_view value) { into = value; }; };
  const std::map<std::string_view, std::function<void(std::string_view)>> readers = {
      {"job", words(sheet.job)},
      {"host", words(sheet.host)},
      {"folder", words(sheet.folder)},
      {"secret", words(sheet.secret)},
      {"address", words(sheet.address)},
      {"port", number(sheet.port)},
      {"first", number(sheet.first_rank)},
      {"ranks", number(sheet.ranks)},
      {"size", number(sheet.size)},
      {"keep_going", number(keep_going)},
      {"prefix", number(prefix)},
      {"grace_ms", number(grace_ms)},
      {"env",
       [&](std::string_view value) {
         const size_t equals = value.find('=');
         is_right &= equals != value.npos && equals > 0;
         if (is_right) sheet.environment[std::string(value.substr(0, equals))] = value.substr(equals + 1);
       }},
      {"set", [&](std::string_view value) { sheet.settings.emplace_back(value); }},
      {"word", [&](std::string_view value) { sheet.command.emplace_back(value); }}};
  while (!text.empty() && is_right) {
    const size_t end = text.find('\0'), equals = text.find('=');
    const auto reader = equals < end && end != text.npos ? readers.find(text.substr(0, equals)) : readers.end();
    is_right = reader != readers.end();
    if (!is_right) break;
    reader->second(text.substr(equals + 1, end - equals - 1));
    text.remove_prefix(end + 1);
  }
  sheet.keep_going = keep_going != 0;
  sheet.prefix = prefix != 0;
  sheet.grace_s = grace_ms / 1000.0;
  is_right &= sheet.ranks > 0 && sheet.first_rank <= sheet.size - sheet.ranks && !sheet.command.empty() && !sheet.command.front().empty() && sheet.port < 65536;
  if (!is_right) return Status(ErrorCode::argument, "what the launcher of the job has sent cannot be read; are the versions of unisono the same on all hosts?");
  return sheet;
}

std::string Answer::line() const {
  switch (kind) {
    case Kind::ready: return fmt::format("{}ready {} {} {}", answer_mark, version, address, port);
    case Kind::taken: return fmt::format("{}taken {}", answer_mark, taken_bytes);
    case Kind::failed: return fmt::format("{}failed {} {}", answer_mark, rank, status);
  }
  return {};
}

std::optional<Answer> Answer::parse(std::string_view line) {
  if (!line.starts_with(answer_mark)) return std::nullopt;
  std::istringstream words{std::string(line.substr(answer_mark.size()))};
  std::string kind, more;
  Answer answer;
  words >> kind;
  if (kind == "ready") {
    answer.kind = Kind::ready;
    words >> answer.version >> answer.address >> answer.port;
  } else if (kind == "taken") {
    answer.kind = Kind::taken;
    words >> answer.taken_bytes;
  } else if (kind == "failed") {
    answer.kind = Kind::failed;
    words >> answer.rank >> answer.status;
  } else {
    return std::nullopt;
  }
  const bool is_possible = answer.taken_bytes >= 0 && answer.rank >= 0 && answer.status >= 0 && answer.port >= 0;
  if (!words || words >> more || !is_possible) return std::nullopt;
  return answer;
}

}  // namespace unisono::tools
