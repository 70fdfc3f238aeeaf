// The command `unisono`: one sub-command a task. This file reads the command line and hands over.
#include <CLI/CLI.hpp>
#include <cstdio>

int main(int argument_count, char** arguments) {
  CLI::App app("Collective communication in two dialects.", "unisono");
  app.set_version_flag("--version", "unisono " UNISONO_VERSION);
  CLI::App* tour = app.add_subcommand("tour", "The five collectives in both dialects, on 4 ranks.");
  app.require_subcommand(1);
  CLI11_PARSE(app, argument_count, arguments);
  if (*tour) std::puts("The tour is not here yet.");
  return 0;
}
