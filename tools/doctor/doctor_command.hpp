// `unisono doctor`: what is wrong, or could be better, with this machine and the network to the others.
#pragma once

#include <CLI/CLI.hpp>

namespace unisono::tools {

void add_doctor_command(CLI::App& app, int& exit_code);

}  // namespace unisono::tools
