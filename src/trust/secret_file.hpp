// The file that holds a job secret: which ones are trusted, where a user's own is, and how it is made.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trust/secret.hpp"
#include "unisono/settings.hpp"
#include "unisono/status.hpp"

namespace unisono {

inline constexpr std::string_view secret_file_variable = "UNISONO_SECRET_FILE";

enum class IfNoSecret { fail, none };

// Reads a regular file that is ours with mode 0600 or tighter, or root's and closed to others than its group. Links are
// followed, and what is checked is the file that was opened. `source` names it in messages. With IfNoSecret::none a path at which there
// is nothing gives none.
Result<std::optional<Secret>> read_secret_file(const std::string& path, const std::string& source, IfNoSecret if_absent);

// $XDG_CONFIG_HOME/unisono/secret, by default ~/.config/unisono/secret. None where this user has no home.
std::optional<std::string> own_secret_path(const Environment& environment);

struct SecretFile {
  std::string path;
  bool is_new = false;  // otherwise it was there already, and was left as it is
};

// Makes the file with a new secret, mode 0600, and the folders above it, mode 0700, where they are missing. Never overwrites one: several
// processes that make it at once all end up with the same file. A file that is there has to pass read_secret_file().
Result<SecretFile> make_secret_file(const std::string& path);

}  // namespace unisono
