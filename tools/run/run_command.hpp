// The sub-command `unisono run` and its options.
#pragma once

#include <CLI/CLI.hpp>

namespace unisono::tools {

// Adds the sub-command to `app`; parsing a command line that uses it runs it and sets `exit_code`.
void add_run_command(CLI::App& app, int& exit_code);

}  // namespace unisono::tools
