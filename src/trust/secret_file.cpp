// Reading, finding and making the file of a secret; see secret_file.hpp.
#include "trust/secret_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "base/at_end.hpp"
#include "base/check.hpp"

namespace unisono {
namespace {

Status refused(const std::string& source, const std::string& why) {
  return {ErrorCode::auth, fmt::format("{}: the job secret in it cannot be trusted: {}", source, why)};
}

Status check_owner_and_mode(const struct stat& about, const std::string& path, const std::string& source) {
  const unsigned mode = about.st_mode & 07777;
  const bool is_closed = (mode & ~0600u) == 0, is_closed_to_others = (mode & 0007) == 0;
  if (about.st_uid == geteuid() && is_closed) return Status::success();
  if (about.st_uid == 0 && is_closed_to_others) return Status::success();
  if (about.st_uid == geteuid()) return refused(source, fmt::format("its mode is {:04o}; run: chmod 600 {}", mode, path));
  if (about.st_uid == 0)
    return refused(source, fmt::format("its mode is {:04o}; as root run: chmod 600 {} (640 where this process reads it by its group)", mode, path));
  return refused(source, fmt::format("it belongs to another user (uid {}; this process is uid {}); make it yours with chown, then run: "
                                     "chmod 600 {}", about.st_uid, geteuid(), path));
}

Status check_is_readable(const Descriptor& file, const std::string& path, const std::string& source) {
  struct stat about = {};
  const auto unfit = [&](const std::string& why) {
    return Status(ErrorCode::init, fmt::format("{}: {}; name a file as `unisono secret new` makes it", source, why));
  };
  if (fstat(file.number(), &about) != 0) return unfit(strerror(errno));
  if (!S_ISREG(about.st_mode)) return unfit("it is not a regular file");
  RETURN_IF_ERROR(check_owner_and_mode(about, path, source));
  if (about.st_size > static_cast<off_t>(Secret::most_text_bytes))
    return unfit(fmt::format("it has {} bytes, far more than a secret", about.st_size));
  return Status::success();
}

Result<size_t> read_whole(const Descriptor& file, SecretText& text, const std::string& source) {
  size_t count = 0;
  while (count < text.characters.size()) {
    const ssize_t got = read(file.number(), text.characters.data() + count, text.characters.size() - count);
    if (got == 0) break;
    if (got < 0 && errno != EINTR)
      return Status(ErrorCode::init, fmt::format("{}: reading the job secret failed: {}; try again, or name another file", source, strerror(errno)));
    if (got > 0) count += static_cast<size_t>(got);
  }
  return count;
}

bool is_nothing_at(const std::string& path) {
  struct stat about = {};
  return lstat(path.c_str(), &about) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

Status cannot_open(const std::string& path, const std::string& source, int error) {
  const std::string remedy = error == ENOENT ? fmt::format("make it with: unisono secret new --file {}", path)
                                             : fmt::format("make it readable for this user alone: chown, then chmod 600 {}", path);
  return {ErrorCode::init, fmt::format("{}: cannot open the file of the job secret: {}; {}", source, strerror(error), remedy)};
}

std::string home_of_this_user() {
  passwd entry{}, *found = nullptr;
  std::vector<char> texts(16 << 10);
  if (getpwuid_r(geteuid(), &entry, texts.data(), texts.size(), &found) != 0 || !found) return "";
  return entry.pw_dir ? entry.pw_dir : "";
}

}  // namespace

// Nothing is waited for where the name turns out to be a pipe.
Result<std::optional<Secret>> read_secret_file(const std::string& path, const std::string& source, IfNoSecret if_absent) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    const int error = errno;
    if (if_absent == IfNoSecret::none && is_nothing_at(path)) return std::optional<Secret>();
    return cannot_open(path, source, error);
  }
  RETURN_IF_ERROR(check_is_readable(file, path, source));
  SecretText text;
  const Result<size_t> count = read_whole(file, text, source);
  if (!count.ok()) return count.status();
  Result<Secret> secret = Secret::parse(text.first(count.value()), source, "remove it, then run: unisono secret new --file " + path);
  if (!secret.ok()) return secret.status();
  return std::optional(*secret);
}

// What is not an absolute path does not count: a secret shall not depend on the folder that a process happens to be in.
std::optional<std::string> own_secret_path(const Environment& environment) {
  const auto folder_in = [&environment](const char* variable) -> std::filesystem::path {
    const auto entry = environment.find(variable);
    return entry != environment.end() && entry->second.starts_with('/') ? entry->second : "";
  };
  if (const auto folder = folder_in("XDG_CONFIG_HOME"); !folder.empty()) return folder / "unisono/secret";
  std::filesystem::path home = folder_in("HOME");
  if (home.empty()) home = home_of_this_user();
  if (!home.is_absolute()) return {};
  return home / ".config/unisono/secret";
}

namespace {

Status cannot_make(const std::string& path, const std::string& what, int error) {
  return {ErrorCode::init, fmt::format("{}: cannot make the file of the job secret: {}: {}; choose another place with: unisono secret new "
                                       "--file PATH", path, what, strerror(error))};
}

// Folders that are there are left as they are. Somebody else may be making the same ones.
Status make_folders(const std::filesystem::path& folder, const std::string& path) {
  std::filesystem::path made;
  for (const std::filesystem::path& part : folder) {
    made /= part;
    if (mkdir(made.c_str(), 0700) == 0) continue;
    const int error = errno == EEXIST ? ENOTDIR : errno;
    struct stat about = {};
    if (stat(made.c_str(), &about) == 0 && S_ISDIR(about.st_mode)) continue;
    return cannot_make(path, "making the folder " + made.string(), error);
  }
  return Status::success();
}

// fchmod because of what the umask may have taken away.
Status write_new_secret(const Descriptor& file, const std::string& path) {
  const Result<Secret> secret = Secret::random(path);
  if (!secret.ok()) return secret.status();
  SecretText text;
  const size_t count = write_digits(secret.value().bytes(), text);
  errno = ENOSPC;  // what a short write means
  if (write(file.number(), text.characters.data(), count) != static_cast<ssize_t>(count)) return cannot_make(path, "writing", errno);
  if (fchmod(file.number(), 0600) != 0 || fsync(file.number()) != 0) return cannot_make(path, "writing", errno);
  return Status::success();
}

// Whether the file has got its name. Over NFS the answer may be lost and the repeated request be told that the name is taken; the count
// of links is right in any case.
bool link_as(const std::string& temporary, const std::string& path) {
  if (link(temporary.c_str(), path.c_str()) == 0) return true;
  const int error = errno;
  struct stat about = {};
  const bool is_linked = stat(temporary.c_str(), &about) == 0 && about.st_nlink == 2;
  errno = error;
  return is_linked;
}

Result<SecretFile> found_at(const std::string& path) {
  const Result<std::optional<Secret>> secret = read_secret_file(path, path, IfNoSecret::fail);
  if (!secret.ok()) return secret.status();
  return SecretFile{path, false};
}

}  // namespace

// Written and closed under another name first: whoever sees the file sees all of it.
Result<SecretFile> make_secret_file(const std::string& path) {
  if (!is_nothing_at(path)) return found_at(path);
  RETURN_IF_ERROR(make_folders(std::filesystem::path(path).parent_path(), path));
  std::string temporary = path + ".XXXXXX";
  Descriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return cannot_make(path, "opening " + temporary, errno);
  const AtEnd removed([&temporary] { unlink(temporary.c_str()); });
  RETURN_IF_ERROR(write_new_secret(file, path));
  file.reset();
  if (link_as(temporary, path)) return SecretFile{path, true};
  return errno == EEXIST ? found_at(path) : cannot_make(path, "linking " + temporary, errno);
}

}  // namespace unisono
