// The command line of `unisono secret`. It says where a secret is, never what it is.
#include "tools/secret/secret_command.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "trust/secret_file.hpp"

namespace unisono::tools {
namespace {

int complain(const char* command, const std::string& text) {
  fmt::print(stderr, "unisono secret {}: {}\n", command, text);
  return 1;
}

int make_secret(const std::string& file) {
  const std::optional<std::string> own = own_secret_path(process_environment());
  if (file.empty() && !own) return complain("new", "this user has no home directory; say where: unisono secret new --file PATH");
  const std::string path = file.empty() ? *own : std::filesystem::absolute(file).string();
  Result<SecretFile> made = make_secret_file(path);
  if (!made.ok()) return complain("new", made.status().text());
  if (made->is_new)
    fmt::print("made {}, which only you can read\n", path);
  else
    fmt::print("{} is there already and stays as it is; for a new secret remove it first\n", path);
  if (path != own)
    fmt::print("ranks use it with: export UNISONO_SECRET_FILE={}\n", path);
  else
    fmt::print("ranks use it where no UNISONO_SECRET… variable is set; machines that do not share this folder need a copy\n");
  return 0;
}

int check_secret() {
  Result<std::optional<Secret>> secret = find_secret();
  if (!secret.ok()) return complain("check", secret.status().text());
  if (*secret) {
    fmt::print("the job secret comes from {}; it can be read\n", (*secret)->source());
    return 0;
  }
  const std::optional<std::string> own = own_secret_path(process_environment());
  return complain("check", fmt::format("there is no job secret: UNISONO_SECRET_FD, UNISONO_SECRET_FILE and UNISONO_SECRET are not set, and "
                                       "{}; make one with: unisono secret new",
                                       own ? *own + " does not exist" : "this user has no home directory"));
}

}  // namespace

void add_secret_command(CLI::App& app, int& exit_code) {
  CLI::App* secret = app.add_subcommand("secret", "Make the job secret that ranks on several machines share, or check it.");
  secret->require_subcommand(1);
  auto file = std::make_shared<std::string>();
  CLI::App* make = secret->add_subcommand("new", "Make a file with a new secret; one that is there is left as it is.");
  make->footer("Examples:\n  unisono secret new\n  unisono secret new --file /shared/ada/secret");
  make->add_option("--file", *file, "where; by default ~/.config/unisono/secret");
  make->callback([file, &exit_code] { exit_code = make_secret(*file); });
  CLI::App* check = secret->add_subcommand("check", "Say which source would be used and whether it can be read; never the secret.");
  check->footer("Sources, the first that is there counts: UNISONO_SECRET_FD (an inherited descriptor), UNISONO_SECRET_FILE,\n"
                "UNISONO_SECRET, ~/.config/unisono/secret. Exit status: 0 if there is a secret, 1 if not.");
  check->callback([&exit_code] { exit_code = check_secret(); });
}

}  // namespace unisono::tools
