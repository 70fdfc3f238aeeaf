// The sub-command `unisono tour`: what `make run` shows.
#pragma once

#include <CLI/CLI.hpp>

namespace unisono::tools {

void add_tour_command(CLI::App& app, int& exit_code);

}  // namespace unisono::tools
