// See report.hpp.
#include "doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/legible.hpp"
#include "doctor/json.hpp"

namespace unisono::doctor {
namespace {

constexpr size_t pairs_shown_in_full = 3, least_name_width = 16;

template <typename Visit>
void for_each_row(const Report& report, Visit visit) {
  for (const Row& row : report.job) visit(row);
  for (const HostReport& host : report.hosts) std::ranges::for_each(host.rows, visit);
  for (const PairReport& pair : report.pairs) std::ranges::for_each(pair.rows, visit);
}

// "0-2, 5"
std::string text_of_ranks(const std::vector<int>& ranks) {
  std::string text;
  for (size_t begin = 0; begin < ranks.size();) {
    size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[begin]);
    if (end - begin > 1) text += fmt::format("-{}", ranks[end - 1]);
    begin = end;
  }
  return text;
}

// What should be changed, and what is always worth seeing; how many are left out.
std::string short_text_of(const std::vector<Row>& rows, std::initializer_list<std::string_view> always) {
  std::vector<Row> shown, rest;
  for (const Row& row : rows) (row.verdict >= Verdict::warning || std::ranges::find(always, row.name) != always.end() ? shown : rest).push_back(row);
  std::string text = text_of_rows(shown);
  const int notes = doctor::count_of(rest, Verdict::note);
  if (!rest.empty()) text += fmt::format("  {:<8} {}{}\n", "ok", rest.size() == 1 ? "1 other check" : fmt::format("{} other checks", rest.size()),
                                         notes > 0 ? fmt::format(", {} of them with a note (--json has all)", notes) : "");
  return text;
}

std::string text_of_counts(const Report& report) {
  auto many = [&](Verdict verdict) {
    const int count = report.count(verdict);
    return fmt::format("{} {}{}", count, name_of(verdict), count == 1 ? "" : "s");
  };
  return fmt::format("{}, {}, {}\n", many(Verdict::problem), many(Verdict::warning), many(Verdict::note));
}

void put_rows(JsonWriter& json, std::string_view key, const std::vector<Row>& rows) {
  json.open_list(key);
  for (const Row& row : rows) {
    json.open_object();
    json.put("name", row.name);
    json.put("verdict", name_of(row.verdict));
    json.put("found", row.found);
    json.put("advice", row.advice);
    json.close_object();
  }
  json.close_list();
}

void put_end(JsonWriter& json, std::string_view key, const std::string& host, const PairEnd& end) {
  auto known = [&](std::string_view name, int64_t value) {
    if (value > 0) return json.put(name, value);
    json.put_null(name);
  };
  json.open_object(key);
  json.put("host", host);
  json.put("rank", int64_t{end.rank});
  json.put("address", text_in(end.here));
  json.put("interface", text_in(end.interface));
  json.put("reaches", end.reaches != 0);
  json.put("connected", end.connected != 0);
  json.put("connections", int64_t{end.connections});
  known("interface_mtu", end.interface_mtu);
  known("path_mtu", end.path_mtu);
  known("segment_bytes", end.segment_bytes);
  known("interface_mbit_per_s", end.interface_speed_mbit);
  if (end.timed_ns > 0) {
    json.put("sent_mbit_per_s", megabits_per_second(end));
  } else {
    json.put_null("sent_mbit_per_s");
  }
  json.put("sent_bytes", end.sent_bytes);
  json.put("retransmits", end.retransmits);
  known("tcp_rmem_bytes", end.most_receive_bytes);
  known("tcp_wmem_bytes", end.most_send_bytes);
  json.close_object();
}

void put_pair(JsonWriter& json, const PairReport& pair) {
  json.open_object();
  put_end(json, "first", pair.facts.first, pair.facts.from);
  put_end(json, "second", pair.facts.second, pair.facts.to);
  for (const auto& [key, value] : {std::pair("round_trip_least_us", pair.facts.from.least_round_trip_ns), {"round_trip_median_us", pair.facts.from.median_round_trip_ns}}) {
    if (value > 0) {
      json.put(key, static_cast<double>(value) * 1e-3);
    } else {
      json.put_null(key);
    }
  }
  put_rows(json, "checks", pair.rows);
  json.close_object();
}

}  // namespace

Verdict Report::worst() const {
  Verdict worst = Verdict::ok;
  for_each_row(*this, [&](const Row& row) { worst = std::max(worst, row.verdict); });
  return worst;
}

int Report::count(Verdict verdict) const {
  int count = 0;
  for_each_row(*this, [&](const Row& row) { count += row.verdict == verdict; });
  return count;
}

std::vector<Row> differences_between(const std::vector<HostReport>& hosts) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> found;  // check, what was found, on which hosts
  for (const HostReport& host : hosts)
    for (const Row& row : host.rows)
      if (!row.compared.empty()) found[row.name][row.compared].push_back(host.name);
  std::vector<Row> rows;
  for (const auto& [name, values] : found) {
    if (values.size() < 2) continue;
    std::string text;
    for (const auto& [value, on] : values) text += fmt::format("{}{} on {}", text.empty() ? "" : "; ", value, fmt::join(on, ", "));
    rows.push_back({"different_" + name, name == "settings" ? Verdict::warning : Verdict::note, text, "make it the same on all hosts, unless it is meant"});
  }
  return rows;
}

std::string text_of_rows(const std::vector<Row>& rows) {
  size_t width = least_name_width;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format("  {:<8} {:<{}} {}\n", name_of(row.verdict), row.name, width, row.found);
    if (!row.advice.empty()) text += fmt::format("  {:<8} {:<{}} -> {}\n", "", "", width, row.advice);
  }
  return text;
}

std::string text_of(const Report& report) {
  if (!report.is_job) return fmt::format("{}\n{}\n{}", report.hosts.front().name, text_of_rows(report.hosts.front().rows), text_of_counts(report));
  std::string text = "the job\n" + text_of_rows(report.job);
  for (const HostReport& host : report.hosts)
    text += fmt::format("\n{}{}\n{}", host.name, host.ranks.empty() ? "" : fmt::format(" ({} {})", host.ranks.size() == 1 ? "rank" : "ranks", text_of_ranks(host.ranks)),
                        short_text_of(host.rows, {"interfaces", "neighbours"}));
  for (const PairReport& pair : report.pairs)
    text += fmt::format("\n{}\n{}", describe_pair(pair.facts), report.pairs.size() <= pairs_shown_in_full ? text_of_rows(pair.rows) : short_text_of(pair.rows, {"latency", "bandwidth"}));
  return text + "\n" + text_of_counts(report);
}

std::string json_of(const Report& report) {
  JsonWriter json;
  json.open_object();
  json.put("unisono", report.version);
  json.put("kind", report.is_job ? "job" : "machine");
  json.put("verdict", name_of(report.worst()));
  for (const Verdict verdict : {Verdict::problem, Verdict::warning, Verdict::note}) json.put(std::string(name_of(verdict)) + "s", report.count(verdict));
  put_rows(json, "job", report.job);
  json.open_list("hosts");
  for (const HostReport& host : report.hosts) {
    json.open_object();
    json.put("host", host.name);
    json.open_list("ranks");
    for (const int rank : host.ranks) json.add(rank);
    json.close_list();
    put_rows(json, "checks", host.rows);
    json.close_object();
  }
  json.close_list();
  json.open_list("pairs");
  for (const PairReport& pair : report.pairs) put_pair(json, pair);
  json.close_list();
  json.close_object();
  return json.text() + "\n";
}

}  // namespace unisono::doctor
