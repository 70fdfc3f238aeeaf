// Printing and parsing walk the same patterns, one a step kind, so what is printed can be read back.
#include "schedule/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <optional>
#include <span>
#include <vector>

#include "base/check.hpp"

namespace unisono {
namespace {

using Words = std::vector<std::string_view>;

struct StepPattern {
  StepKind kind;
  std::string_view name;
  std::string_view pattern;  // after the name; {field} stands for a field, everything else for itself
};

constexpr StepPattern step_patterns[] = {
    {StepKind::send, "send", "{source} to {peer}"},
    {StepKind::receive, "receive", "from {peer} -> {target}"},
    {StepKind::receive_reduce, "receive_reduce", "from {peer} -> {target}"},
    {StepKind::copy, "copy", "{source} -> {target}"},
    {StepKind::reduce, "reduce", "{source} -> {target}"},
    {StepKind::publish, "publish", "flag {flag}"},
    {StepKind::await, "await", "flag {flag} of {peers}"},
    {StepKind::read_peer, "read_peer", "{source} of {peer} -> {target}"},
    {StepKind::reduce_peers, "reduce_peers", "{own} + {source} of {team} -> {target}"},
};

// What may stand at the end of a step.
struct Mark {
  std::string_view word;
  bool Step::*field;
};
constexpr Mark marks[] = {{"scaling", &Step::scales}, {"completing", &Step::completes}};

constexpr std::string_view header_pattern =
    "schedule {collective} {algorithm} rank {rank} of {ranks} root {root} chunks {chunks} "
    "stage_slots {stage_slots} scratch_chunks {scratch_chunks} gathered_chunks {gathered_chunks}";

constexpr std::string_view buffer_names[] = {"none", "input", "output", "scratch", "stage", "gathered", "partial"};

Words words_of(std::string_view line) {
  Words words;
  while (true) {
    const size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string_view::npos) return words;
    const size_t end = std::min(line.find_first_of(" \t\r", start), line.size());
    words.push_back(line.substr(start, end - start));
    line.remove_prefix(end);
  }
}

// What a {field} of a pattern stands for, as text.
std::string field_text(const Step& step, std::string_view field) {
  if (field == "{source}") return text_of(step.source);
  if (field == "{own}") return text_of(step.own);
  if (field == "{target}") return text_of(step.target);
  if (field == "{flag}") return std::to_string(step.flag);
  if (step.peer != everyone) return std::to_string(step.peer);
  return step.team == everyone ? "everyone" : fmt::format("team[{}]", step.team);
}

bool read_number(std::string_view word, int& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && number >= 0;
}

// The number in "name[number]".
bool read_numbered(std::string_view word, std::string_view name, int& number) {
  if (!word.starts_with(name) || !word.ends_with(']') || word.size() < name.size() + 2 || word[name.size()] != '[') return false;
  return read_number(word.substr(name.size() + 1, word.size() - name.size() - 2), number);
}

bool read_chunk(std::string_view word, ChunkRef& chunk) {
  if (word == "none") return true;
  for (size_t buffer = 1; buffer < std::size(buffer_names); ++buffer)
    if (read_numbered(word, buffer_names[buffer], chunk.chunk)) {
      chunk.buffer = static_cast<Buffer>(buffer);
      return true;
    }
  return false;
}

// Each reader fills one field from a word and answers what it would have wanted, or nothing when it is content.
using Wanted = std::optional<std::string>;

Wanted read_step_field(Step& step, std::string_view field, std::string_view word) {
  constexpr auto chunk_wanted = "a chunk such as input[0]";
  if (field == "{source}") return read_chunk(word, step.source) ? Wanted() : chunk_wanted;
  if (field == "{own}") return read_chunk(word, step.own) ? Wanted() : chunk_wanted;
  if (field == "{target}") return read_chunk(word, step.target) ? Wanted() : chunk_wanted;
  if (field == "{flag}") return read_number(word, step.flag) ? Wanted() : "the number of a flag";
  if (word == "everyone") return Wanted();
  if (field != "{peer}" && read_numbered(word, "team", step.team)) return Wanted();
  if (field == "{team}") return "a team such as team[0] or everyone";
  return read_number(word, step.peer) ? Wanted() : field == "{peer}" ? "a rank or everyone" : "a rank, a team or everyone";
}

Wanted read_header_field(Schedule& schedule, std::string_view field, std::string_view word) {
  if (field == "{algorithm}") {
    schedule.algorithm = std::string(word);
    return Wanted();
  }
  if (field == "{collective}") {
    const std::optional<Collective> collective = collective_named(word);
    schedule.collective = collective.value_or(schedule.collective);
    return collective ? Wanted() : "a collective such as all_reduce";
  }
  int* number = field == "{rank}"          ? &schedule.place.rank
                : field == "{ranks}"       ? &schedule.place.ranks
                : field == "{root}"        ? &schedule.place.root
                : field == "{chunks}"      ? &schedule.chunks
                : field == "{stage_slots}" ? &schedule.stage_slots
                : field == "{scratch_chunks}" ? &schedule.scratch_chunks
                                              : &schedule.gathered_chunks;
  return read_number(word, *number) ? Wanted() : fmt::format("a number for {}", field.substr(1, field.size() - 2));
}

Status unexpected(int line, std::string_view wanted, std::string_view found) {
  return Status(ErrorCode::argument, fmt::format("line {}: expected {}, found {}", line, wanted,
                                                 found.empty() ? "the end of the line" : fmt::format("\"{}\"", found)));
}

// Walks pattern and words side by side; `read_field` takes a {field} and its word.
template <typename ReadField>
Status match(int line, std::string_view pattern, std::span<const std::string_view> words, ReadField read_field) {
  size_t position = 0;
  for (std::string_view part : words_of(pattern)) {
    const std::string_view word = position < words.size() ? words[position] : "";
    const Wanted wanted = part.front() == '{' ? read_field(part, word)
                          : part == word      ? Wanted()
                                              : fmt::format("\"{}\"", part);
    if (wanted) return unexpected(line, *wanted, word);
    ++position;
  }
  if (position < words.size()) return unexpected(line, "the end of the line", words[position]);
  return Status::success();
}

Status read_step(int line, std::span<const std::string_view> words, Schedule& schedule) {
  int number = 0;
  if (read_number(words.front(), number)) {
    if (number != static_cast<int>(schedule.steps.size()))
      return unexpected(line, fmt::format("step {}", schedule.steps.size()), words.front());
    words = words.subspan(1);
  }
  Step step{.kind = StepKind::copy};
  for (auto mark = std::rbegin(marks); mark != std::rend(marks); ++mark)
    if (!words.empty() && words.back() == mark->word) {
      step.*mark->field = true;
      words = words.first(words.size() - 1);
    }
  const std::string_view name = words.empty() ? "" : words.front();
  for (const StepPattern& row : step_patterns) {
    if (row.name != name) continue;
    step.kind = row.kind;
    RETURN_IF_ERROR(match(line, row.pattern, words.subspan(1), [&](std::string_view field, std::string_view word) {
      return read_step_field(step, field, word);
    }));
    schedule.steps.push_back(step);
    return Status::success();
  }
  return unexpected(line, "a step such as copy or await", name);
}

// "hosts 2,3": who shares a host, where they do not all.
Status read_hosts(int line, std::span<const std::string_view> words, Schedule& schedule) {
  if (words.size() != 2) return unexpected(line, "a layout such as 2,3", words.size() > 2 ? words[2] : "");
  Result<Hosts> hosts = Hosts::parse(fmt::format("line {}: hosts", line), words[1], schedule.place.ranks);
  if (!hosts.ok()) return hosts.status();
  schedule.place.hosts = *hosts;
  return Status::success();
}

// "partials", or "partials 2": that they are carried, and in how many stage slots.
Status read_partials(int line, std::span<const std::string_view> words, Schedule& schedule) {
  schedule.partials = true;
  if (words.size() == 1 || (words.size() == 2 && read_number(words[1], schedule.partial_slots))) return Status::success();
  return unexpected(line, "how many stage slots hold partials", words.back());
}

// "team[0] 0 2 3": a team and its ranks.
Status read_team(int line, std::span<const std::string_view> words, Schedule& schedule) {
  const std::string wanted = fmt::format("team[{}]", schedule.teams.size());
  if (words.front() != wanted) return unexpected(line, wanted, words.front());
  std::vector<int>& ranks = schedule.teams.emplace_back();
  for (std::string_view word : words.subspan(1))
    if (!read_number(word, ranks.emplace_back())) return unexpected(line, "a rank", word);
  return Status::success();
}

Status read_line(int line, std::span<const std::string_view> words, Schedule& schedule) {
  if (words.front() == "partials") return read_partials(line, words, schedule);
  if (words.front() == "hosts") return read_hosts(line, words, schedule);
  if (words.front().starts_with("team")) return read_team(line, words, schedule);
  return read_step(line, words, schedule);
}

}  // namespace

std::string_view name_of(StepKind kind) { return step_patterns[static_cast<size_t>(kind)].name; }
std::string_view name_of(Buffer buffer) { return buffer_names[static_cast<size_t>(buffer)]; }

std::string text_of(ChunkRef chunk) {
  if (chunk.buffer == Buffer::none) return "none";
  return fmt::format("{}[{}]", name_of(chunk.buffer), chunk.chunk);
}

std::string text_of(const Step& step) {
  std::string text(name_of(step.kind));
  for (std::string_view part : words_of(step_patterns[static_cast<size_t>(step.kind)].pattern))
    text += part.front() == '{' ? " " + field_text(step, part) : fmt::format(" {}", part);
  for (const auto& [word, field] : marks)
    if (step.*field) text += fmt::format(" {}", word);
  return text;
}

std::string text_of(const Schedule& schedule) {
  std::string text =
      fmt::format("schedule {} {} rank {} of {} root {} chunks {} stage_slots {} scratch_chunks {} gathered_chunks {}\n",
                  name_of(schedule.collective), schedule.algorithm, schedule.place.rank, schedule.place.ranks,
                  schedule.place.root, schedule.chunks, schedule.stage_slots, schedule.scratch_chunks, schedule.gathered_chunks);
  if (schedule.partials) text += schedule.partial_slots > 0 ? fmt::format("partials {}\n", schedule.partial_slots) : "partials\n";
  if (!schedule.place.hosts.one()) text += fmt::format("hosts {}\n", schedule.place.hosts.text());
  for (size_t team = 0; team < schedule.teams.size(); ++team)
    text += fmt::format("team[{}] {}\n", team, fmt::join(schedule.teams[team], " "));
  for (size_t index = 0; index < schedule.steps.size(); ++index)
    text += fmt::format("{:5}  {}\n", index, text_of(schedule.steps[index]));
  return text;
}

Result<Schedule> schedule_from(std::string_view text) {
  Schedule schedule;
  bool has_header = false;
  for (int line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const Words words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty() || words.front().front() == '#') continue;
    if (has_header) {
      RETURN_IF_ERROR(read_line(line, words, schedule));
      continue;
    }
    RETURN_IF_ERROR(match(line, header_pattern, words, [&](std::string_view field, std::string_view word) {
      return read_header_field(schedule, field, word);
    }));
    has_header = true;
  }
  if (!has_header) return unexpected(1, "\"schedule\"", "");
  return schedule;
}

}  // namespace unisono
