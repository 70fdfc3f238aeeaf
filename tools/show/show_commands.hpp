// The sub-commands that only tell: `unisono explain`, `unisono settings`.
#pragma once

#include <CLI/CLI.hpp>

namespace unisono::tools {

void add_explain_command(CLI::App& app, int& exit_code);
void add_settings_command(CLI::App& app, int& exit_code);

}  // namespace unisono::tools
