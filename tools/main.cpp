// The command `unisono`: one sub-command a task. This file reads the command line and hands over.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/bench/bench_command.hpp"
#include "tools/doctor/doctor_command.hpp"
#include "tools/run/run_command.hpp"
#include "tools/secret/secret_command.hpp"
#include "tools/show/show_commands.hpp"
#include "tools/tour/tour_command.hpp"
#include "unisono/status.hpp"

int main(int argument_count, char** arguments) try {
  int exit_code = 0;
  CLI::App app("Collective communication in two dialects.", "unisono");
  app.set_version_flag("--version", "unisono " UNISONO_VERSION);
  app.require_subcommand(1);
  unisono::tools::add_run_command(app, exit_code);
  unisono::tools::add_tour_command(app, exit_code);
  unisono::tools::add_bench_command(app, exit_code);
  unisono::tools::add_explain_command(app, exit_code);
  unisono::tools::add_settings_command(app, exit_code);
  unisono::tools::add_secret_command(app, exit_code);
  unisono::tools::add_doctor_command(app, exit_code);
  CLI11_PARSE(app, argument_count, arguments);
  return exit_code;
} catch (const unisono::Error& error) {
  std::fprintf(stderr, "unisono: %s\n", error.what());
  return 1;
}
