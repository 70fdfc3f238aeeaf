// See host_list.hpp.
#include "tools/run/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/check.hpp"
#include "base/legible.hpp"

namespace unisono::tools {
namespace {

constexpr int most_ranks = 1 << 20;

Status wrong(std::string_view where, std::string_view word, std::string_view why) {
  return {ErrorCode::argument, fmt::format("{}: \"{}\" {}", where, legible(word, 64), why)};
}

// ssh would take a name that begins with a dash for an option.
bool is_name(std::string_view name) {
  const auto is_of_name = [](char letter) { return letter > ' ' && letter < 0x7f && !strchr("'\"\\`$;&|<>(){}*?!#,", letter); };
  return !name.empty() && !name.starts_with('-') && std::ranges::all_of(name, is_of_name);
}

Result<HostShare> share_of(std::string_view where, std::string_view word, std::string_view name, std::string_view count) {
  HostShare share{std::string(name), 1};
  if (const size_t bracket = name.find('['); name.ends_with(']') && (bracket == 0 || (bracket != name.npos && name[bracket - 1] == '@')))
    share.name = fmt::format("{}{}", name.substr(0, bracket), name.substr(bracket + 1, name.size() - bracket - 2));
  if (!is_name(share.name)) return wrong(where, word, "names no host; write them as in one:4,two:4");
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), share.ranks);
  if (error != std::errc() || end != count.data() + count.size() || share.ranks < 1 || share.ranks > most_ranks)
    return wrong(where, word, fmt::format("asks for \"{}\" ranks; a host has at least one, as in one:4", legible(count, 16)));
  return share;
}

// "host:4"; of the colons of an address that is not in brackets none begins a number.
Result<HostShare> parse_word(std::string_view where, std::string_view word) {
  const size_t colon = word.rfind(':'), bracket = word.rfind(']');
  const bool is_bare_address = std::ranges::count(word, ':') > 1 && bracket == word.npos;
  const bool has_count = colon != word.npos && !is_bare_address && (bracket == word.npos || colon > bracket);
  return has_count ? share_of(where, word, word.substr(0, colon), word.substr(colon + 1)) : share_of(where, word, word, "1");
}

// Names are the same in small letters and capitals, whoever the user is.
std::string machine_of(std::string_view name) {
  std::string machine(name.substr(name.find('@') == name.npos ? 0 : name.rfind('@') + 1));
  std::ranges::transform(machine, machine.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return machine;
}

Status add(std::vector<HostShare>& hosts, std::string_view where, Result<HostShare> share) {
  if (!share.ok()) return share.status();
  const std::string machine = machine_of(share->name);
  if (std::ranges::any_of(hosts, [&](const HostShare& host) { return machine_of(host.name) == machine; })) return wrong(where, share->name, "is there twice; give the host all its ranks at once");
  hosts.push_back(std::move(*share));
  return ranks_of(hosts) > most_ranks ? wrong(where, hosts.back().name, fmt::format("makes it more than {} ranks", most_ranks)) : Status::success();
}

}  // namespace

std::string for_a_shell(std::string_view text) {
  const auto is_plain = [](unsigned char letter) { return std::isalnum(letter) || strchr("-_./=:,@%+", letter); };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string all = "'";
  for (const char letter : text) all += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return all + "'";
}

int ranks_of(const std::vector<HostShare>& hosts) {
  int64_t ranks = 0;
  for (const HostShare& host : hosts) ranks += host.ranks;
  return static_cast<int>(std::min<int64_t>(ranks, INT32_MAX));
}

Result<std::vector<HostShare>> parse_hosts(std::string_view text) {
  std::vector<HostShare> hosts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    RETURN_IF_ERROR(add(hosts, "--hosts", parse_word("--hosts", text.substr(begin, end - begin))));
    begin = end + 1;
  }
  return hosts;
}

Result<std::vector<HostShare>> parse_hostfile(std::string_view text, const std::string& path) {
  std::vector<HostShare> hosts;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, count, more;
    if (!(words >> name)) continue;
    const std::string where = fmt::format("{}, line {}", path, number);
    if (!(words >> count)) {
      RETURN_IF_ERROR(add(hosts, where, parse_word(where, name)));
      continue;
    }
    if (words >> more) return wrong(where, more, "is one word too many; write a line as in: one slots=4");
    constexpr std::string_view slots = "slots=";
    RETURN_IF_ERROR(add(hosts, where, share_of(where, line, name, std::string_view(count).substr(count.starts_with(slots) ? slots.size() : 0))));
  }
  if (hosts.empty()) return Status(ErrorCode::argument, fmt::format("{}: it names no host", path));
  return hosts;
}

Result<std::vector<HostShare>> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) return Status(ErrorCode::argument, fmt::format("--hostfile {}: {}", path, errno != 0 ? std::strerror(errno) : "it is empty"));
  return parse_hostfile(text.str(), path);
}

}  // namespace unisono::tools
