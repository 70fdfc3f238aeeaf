// Opening what may only be ours; see own_file.hpp.
#include "rendezvous/own_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace unisono {

Status file_lost(const std::string& path, const char* what_failed) {
  const int error = errno;
  return {ErrorCode::store_lost, fmt::format("{}: {} failed: {}", path, what_failed, std::strerror(error))};
}

// A link is not followed: in a directory that others may write to, it could lead to any file of ours. Nothing is waited for
// where the name turns out to be a pipe.
Result<Descriptor> open_own_file(const std::string& path, IfAbsent if_absent) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | (if_absent == IfAbsent::make ? O_CREAT : 0);
  Descriptor file(open(path.c_str(), flags, 0600));
  if (!file && errno == ELOOP)
    return Status(ErrorCode::argument, fmt::format("{} is a symbolic link, which is not followed; name the file itself", path));
  if (!file && errno == EISDIR)
    return Status(ErrorCode::argument, fmt::format("{} is a directory; name a file in it", path));
  struct stat about = {};
  if (!file || fstat(file.number(), &about) != 0) return file_lost(path, "opening it");
  if (!S_ISREG(about.st_mode)) return Status(ErrorCode::argument, fmt::format("{} is not a plain file", path));
  if (about.st_uid != geteuid())
    return Status(ErrorCode::auth, fmt::format("{} belongs to another user (uid {}; this process is uid {}); name a file of your "
                                               "own", path, about.st_uid, geteuid()));
  return file;
}

}  // namespace unisono
