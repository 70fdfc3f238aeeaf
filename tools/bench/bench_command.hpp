// The sub-command `unisono bench`.
#pragma once

#include <CLI/CLI.hpp>

namespace unisono::tools {

void add_bench_command(CLI::App& app, int& exit_code);

}  // namespace unisono::tools
