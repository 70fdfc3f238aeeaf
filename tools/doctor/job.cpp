// See job.hpp. What is measured between two ranks: measure.cpp.
#include "tools/doctor/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <numeric>
#include <span>

#include "base/legible.hpp"
#include "dialects/default_world.hpp"
#include "doctor/machine_checks.hpp"
#include "doctor/report.hpp"
#include "tools/doctor/measure.hpp"
#include "unisono/distributed.hpp"

namespace unisono::tools {
namespace {

using doctor::HostPair;
using doctor::HostReport;
using doctor::PairEnd;
using doctor::Report;
using doctor::Row;
using doctor::Verdict;

constexpr int64_t most_text_bytes = 1 << 20;  // of what one host says of itself
constexpr size_t piece_bytes = 400;            // of what goes in one packet

// What every rank tells rank 0; as it is, since all have one version of the library.
struct RankNote {
  int64_t least_round_trip_ns = 0, median_round_trip_ns = 0;
  int64_t may_not_read = 0;  // somebody of its host
};

// One rank's part. Every rank makes it after it has joined, and calls examine() and then leaves.
class JobExamination {
 public:
  JobExamination(doctor::MachineFacts facts, double timeout_s) : world_(current_world("unisono doctor")), facts_(std::move(facts)), timeout_s_(timeout_s) {
    const Hosts& hosts = world_->hosts();
    for (int host = 0; host < hosts.count(); ++host) {
      auto& ranks = ranks_.emplace_back();
      if (hosts.one()) {
        ranks.resize(static_cast<size_t>(world_->size()));
        std::iota(ranks.begin(), ranks.end(), 0);
      } else {
        ranks.assign(hosts.ranks_on(host).begin(), hosts.ranks_on(host).end());
      }
      leaders_.push_back(ranks.front());
    }
    host_ = hosts.of(world_->rank());
    facts_.ranks = world_->size();
    facts_.ranks_here = static_cast<int>(ranks_[static_cast<size_t>(host_)].size());
    facts_.launch.all_local = hosts.one() || !world_->settings().pretend_hosts.empty();
  }

  // Throws what the library does. Ranks that lead no host are done early, and may leave.
  void examine(Report& report) {
    note_rank();
    gather_notes();
    if (leaders_[static_cast<size_t>(host_)] != world_->rank()) return;
    const GroupHandle leaders = hosts() > 1 ? distributed::new_group(leaders_, {.timeout_s = timeout_s_}) : GroupHandle();
    collect_hosts(leaders, report);
    for (const Row& row : differences_between(report.hosts)) report.job.push_back(row);
    measure(leaders);
    collect_pairs(leaders, report);
  }

 private:
  int hosts() const { return static_cast<int>(leaders_.size()); }
  const std::vector<int>& mates() const { return ranks_[static_cast<size_t>(host_)]; }
  bool is_rank_zero() const { return world_->rank() == 0; }
  double message_s() const { return std::min(timeout_s_, 10.0); }

  void note_rank() {
    for (int mate : mates()) note_.may_not_read |= mate != world_->rank() && !world_->may_read(mate);
    const bool is_first = mates().front() == world_->rank();
    if (mates().size() < 2 || (!is_first && mates()[1] != world_->rank())) return;
    const RoundTrip measured = time_round_trips(mates()[is_first ? 1 : 0], is_first, {}, message_s());
    note_.least_round_trip_ns = measured.least_ns;
    note_.median_round_trip_ns = measured.median_ns;
  }

  void gather_notes() {
    constexpr auto bytes = static_cast<int64_t>(sizeof(RankNote));
    if (is_rank_zero()) notes_.resize(static_cast<size_t>(world_->size()));
    std::vector<TensorView> views;
    for (RankNote& note : notes_) views.push_back({&note, DType::uint8, Shape{bytes}});
    distributed::gather({&note_, DType::uint8, Shape{bytes}}, views, {.dst = 0, .timeout_s = timeout_s_});
  }

  Row neighbours_of(int host) const {
    const std::vector<int>& ranks = ranks_[static_cast<size_t>(host)];
    const RankNote& first = notes_[static_cast<size_t>(ranks.front())];
    doctor::NeighbourFacts facts{.ranks = static_cast<int>(ranks.size()), .first = ranks[0], .second = ranks[1],
                                 .least_round_trip_ns = first.least_round_trip_ns, .median_round_trip_ns = first.median_round_trip_ns};
    for (int rank : ranks) facts.readers_refused += static_cast<int>(notes_[static_cast<size_t>(rank)].may_not_read);
    facts.reads_are_off = world_->settings().peer_reads == "off";
    return check_neighbours(facts);
  }

  // Each leader's name and rows to rank 0.
  void collect_hosts(const GroupHandle& leaders, Report& report) {
    const std::vector<Row> own = check_machine(facts_);
    std::string mine = legible(facts_.host) + "\n" + encode(own);
    if (!is_rank_zero()) return send_pieces(leaders, mine);
    for (int host = 0; host < hosts(); ++host) {
      HostReport one{facts_.host, ranks_[static_cast<size_t>(host)], own};
      if (host > 0) {
        const std::string text = receive_pieces(leaders, leaders_[static_cast<size_t>(host)]);
        const size_t end = text.find('\n');
        auto rows = doctor::decode(std::string_view(text).substr(std::min(end, text.size() - 1) + 1));
        one.name = legible(std::string_view(text).substr(0, end));
        one.rows = rows ? std::move(*rows) : std::vector<Row>{{"report", Verdict::problem, "this host sent something that is no report"}};
      }
      if (mates_of(host) > 1) one.rows.push_back(neighbours_of(host));
      one.name = unlike_others(std::move(one.name), report.hosts);
      report.hosts.push_back(std::move(one));
    }
  }
  size_t mates_of(int host) const { return ranks_[static_cast<size_t>(host)].size(); }

  // Machines may have one name, containers often do.
  static std::string unlike_others(std::string name, const std::vector<HostReport>& others) {
    const auto same = std::ranges::count_if(others, [&](const HostReport& other) { return other.name == name || other.name.starts_with(name + "#"); });
    return same == 0 ? name : fmt::format("{}#{}", name, same + 1);
  }

  // To rank 0 and from others, in pieces that go in one short packet each: a way that loses long ones is what the report may have to tell of.
  void send_pieces(const GroupHandle& leaders, std::span<char> text) const {
    const distributed::LetterOptions options{.group = leaders, .timeout_s = timeout_s_};
    auto bytes = static_cast<int64_t>(text.size());
    distributed::send({&bytes, DType::int64, Shape{1}}, 0, options);
    for (; !text.empty(); text = text.subspan(std::min(text.size(), piece_bytes))) {
      int64_t heard = 0;
      distributed::send({text.data(), DType::uint8, Shape{static_cast<int64_t>(std::min(text.size(), piece_bytes))}}, 0, options);
      distributed::recv({&heard, DType::int64, Shape{1}}, 0, options);
    }
  }
  std::string receive_pieces(const GroupHandle& leaders, int from) const {
    const distributed::LetterOptions options{.group = leaders, .timeout_s = timeout_s_};
    int64_t bytes = 0;
    distributed::recv({&bytes, DType::int64, Shape{1}}, from, options);
    if (bytes < 1 || bytes > most_text_bytes)
      throw ProtocolError(Status(ErrorCode::protocol, fmt::format("rank {} is about to send a report of {} bytes", from, bytes), from));
    std::string text(static_cast<size_t>(bytes), '\0');
    for (std::span<char> left = text; !left.empty(); left = left.subspan(std::min(left.size(), piece_bytes))) {
      distributed::recv({left.data(), DType::uint8, Shape{static_cast<int64_t>(std::min(left.size(), piece_bytes))}}, from, options);
      distributed::send({&bytes, DType::int64, Shape{1}}, from, options);
    }
    return text;
  }

  void measure(const GroupHandle& leaders) {
    for (const auto& round : doctor::rounds_of_pairs(hosts())) {
      for (const HostPair& pair : round) {
        if (pair.first != host_ && pair.second != host_) continue;
        const int other = leaders_[static_cast<size_t>(pair.first == host_ ? pair.second : pair.first)];
        ends_[pair] = measure_pair(*world_, other, facts_, message_s());
      }
      distributed::barrier({.group = leaders, .timeout_s = timeout_s_});
    }
  }

  PairEnd end_of(const HostPair& pair, int host, const GroupHandle& leaders) {
    if (host == host_) return ends_[pair];
    PairEnd end;
    const std::string bytes = receive_pieces(leaders, leaders_[static_cast<size_t>(host)]);
    if (bytes.size() == sizeof(end)) std::memcpy(&end, bytes.data(), sizeof(end));
    return end;
  }

  // Everybody goes through the pairs in the same order, so nobody waits for a message that comes after another.
  void collect_pairs(const GroupHandle& leaders, Report& report) {
    for (const auto& round : doctor::rounds_of_pairs(hosts()))
      for (const HostPair& pair : round) {
        if (is_rank_zero()) {
          doctor::PairFacts facts{report.hosts[static_cast<size_t>(pair.first)].name, report.hosts[static_cast<size_t>(pair.second)].name, {}, {}};
          facts.from = end_of(pair, pair.first, leaders);
          facts.to = end_of(pair, pair.second, leaders);
          report.pairs.push_back({facts, check_pair(facts)});
        } else if (const auto own = ends_.find(pair); own != ends_.end()) {
          send_pieces(leaders, {reinterpret_cast<char*>(&own->second), sizeof(PairEnd)});
        }
      }
    if (hosts() > doctor::most_hosts_for_all_pairs)
      report.job.push_back({"pairs", Verdict::note, fmt::format("{} hosts: each was measured with the next; all pairs are measured up to {} hosts", hosts(), doctor::most_hosts_for_all_pairs)});
  }

  std::shared_ptr<World> world_;
  doctor::MachineFacts facts_;
  double timeout_s_;
  std::vector<std::vector<int>> ranks_;  // by host
  std::vector<int> leaders_;             // the lowest rank of each
  int host_ = 0;
  RankNote note_;
  std::vector<RankNote> notes_;          // rank 0: by rank
  std::map<HostPair, PairEnd> ends_;     // that this rank measured
};

int print(const Report& report, bool as_json) {
  fmt::print("{}", as_json ? json_of(report) : text_of(report));
  std::fflush(stdout);
  return report.worst() == Verdict::problem ? 1 : 0;
}

// The error says who is missing, or which addresses were tried and how: that is the finding. Beside it stands what this machine has to say.
int could_not_join(const doctor::MachineFacts& facts, const Error& error, const JobOptions& options) {
  std::vector<Row> rows = check_machine(facts);
  if (facts.launch.rank == 0) {
    Report report{.version = facts.version, .is_job = true};
    report.job.push_back({"joining", Verdict::problem, error.what(), "see docs/machines.md, \"When they cannot meet\""});
    report.hosts.push_back({facts.host, {}, std::move(rows)});
    return print(report, options.as_json);
  }
  fmt::print(stderr, "unisono doctor: rank {} of {} on {}: {}\n", facts.launch.rank, facts.launch.size, facts.host, error.what());
  std::erase_if(rows, [](const Row& row) { return row.verdict < Verdict::warning; });
  if (facts.launch.local_rank <= 0) fmt::print(stderr, "{}", doctor::text_of_rows(rows));
  return 1;
}

}  // namespace

int examine_job(doctor::MachineFacts facts, const JobOptions& options) {
  const int64_t begin = now_ns();
  try {
    distributed::init_process_group({.timeout_s = options.timeout_s});
  } catch (const Error& error) {
    return could_not_join(facts, error, options);
  }
  const int rank = distributed::get_rank();
  const double joined_s = static_cast<double>(now_ns() - begin) * 1e-9;
  Report report{.version = facts.version, .is_job = true};
  const std::string launcher = facts.launch.launcher;
  JobExamination examination(std::move(facts), options.timeout_s);
  const Hosts hosts = current_world("unisono doctor")->hosts();
  report.job.push_back({"joining", Verdict::ok, fmt::format("{} ranks on {} joined in {:.2f} s (launcher: {})", distributed::get_world_size(),
                                                            hosts.count() == 1 ? "1 host" : fmt::format("{} hosts", hosts.count()), joined_s, launcher)});
  std::string failure;
  try {
    examination.examine(report);
    distributed::destroy_process_group();
  } catch (const Error& error) {
    failure = error.what();
  }
  if (!failure.empty()) report.job.push_back({"examination", Verdict::problem, failure, "look at the rank that the error names"});
  if (rank == 0) return print(report, options.as_json);
  if (!failure.empty()) fmt::print(stderr, "unisono doctor: rank {}: {}\n", rank, failure);
  return failure.empty() ? 0 : 1;
}

}  // namespace unisono::tools
