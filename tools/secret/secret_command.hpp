// `unisono secret new` and `unisono secret check`: making the job secret, and seeing whether ranks would find it.
#pragma once

#include <CLI/CLI.hpp>

namespace unisono::tools {

void add_secret_command(CLI::App& app, int& exit_code);

}  // namespace unisono::tools
