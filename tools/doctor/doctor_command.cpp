// The command line of `unisono doctor`, and the machine alone; ranks of a job are in job.cpp. What is checked, and how it is judged, is in src/doctor.
#include "tools/doctor/doctor_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "doctor/machine_checks.hpp"
#include "doctor/report.hpp"
#include "tools/doctor/job.hpp"

namespace unisono::tools {
namespace {

constexpr const char* explanation =
    "Examples:\n"
    "  unisono doctor\n"
    "  unisono run -n 4 unisono doctor\n"
    "  srun unisono doctor --json > report.json\n"
    "  RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 unisono doctor\n"
    "\n"
    "Alone it looks at this machine. As ranks of a job it joins as a program would, measures between\n"
    "machines, and rank 0 prints one report for all. Each line is a check: ok, note (nothing to do),\n"
    "warning (it works, slower or with less room than it could) or problem (jobs fail), what was\n"
    "found, and what to change. Exit status: 0 without a problem, 1 with one. docs/doctor.md lists the\n"
    "checks and the keys of --json. Under `unisono run`, --no-prefix keeps the document whole.";

struct Line {
  JobOptions options;
  bool job = false, alone = false, fabric = false;
};

constexpr std::string_view about_fabrics[] = {"settings", "locked_memory", "engines", "fabric"};
constexpr const char* how_to_measure =
    "\nTo measure it, from host to host, with UCX and without (-> two reports to compare, latency and bandwidth):\n"
    "  UNISONO_FABRIC=trusted UNISONO_TRANSPORT=ucx unisono run --hosts one:1,two:1 unisono doctor\n"
    "  UNISONO_TRANSPORT=tcp unisono run --hosts one:1,two:1 unisono doctor\n"
    "Unisono was never tried on hardware for RDMA: please report both, and what is above.\n";

int examine_alone(const doctor::MachineFacts& facts, const Line& line) {
  doctor::Report report{.version = facts.version};
  report.hosts.push_back({facts.host, {}, check_machine(facts)});
  if (line.fabric) std::erase_if(report.hosts[0].rows, [](const doctor::Row& row) { return std::ranges::find(about_fabrics, row.name) == std::end(about_fabrics); });
  fmt::print("{}", line.options.as_json ? json_of(report) : text_of(report));
  if (line.fabric && !line.options.as_json) fmt::print("{}", how_to_measure);
  return report.worst() == doctor::Verdict::problem ? 1 : 0;
}

int examine(const Line& line) {
  doctor::MachineFacts facts = doctor::read_machine_facts(process_environment());
  const bool is_one_of_several = facts.launch_status.ok() && facts.launch.is_rank && facts.launch.size > 1;
  if (line.alone || line.fabric || !(line.job || is_one_of_several)) return examine_alone(facts, line);
  return examine_job(std::move(facts), line.options);
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto line = std::make_shared<Line>();
  CLI::App* doctor = app.add_subcommand("doctor", "Check this machine, or the machines and the network of a job, and say what to change.");
  doctor->footer(explanation);
  doctor->add_flag("--json", line->options.as_json, "print one JSON document instead of text");
  CLI::Option* job = doctor->add_flag("--job", line->job, "join even if no launcher says that there are several ranks");
  doctor->add_flag("--alone", line->alone, "look at this machine only, whatever a launcher says")->excludes(job);
  doctor->add_flag("--fabric", line->fabric, "look only at what may carry data between machines beside TCP (InfiniBand, RoCE; by UCX)")->excludes(job);
  doctor->add_option("--timeout", line->options.timeout_s, "seconds until joining gives up")->check(CLI::PositiveNumber)->capture_default_str();
  doctor->callback([line, &exit_code] { exit_code = examine(*line); });
}

}  // namespace unisono::tools
