// Which user of this machine is at the other end of a connection within it: what the kernel knows of the socket there.
#pragma once

#include <sys/types.h>

#include <optional>

namespace unisono {

// Of a TCP connection on the loopback interface, once it was accepted. None where the kernel does not say, or the other end is elsewhere.
std::optional<uid_t> user_at_other_end(int socket);

// Whether that may be somebody else than this process's user, or root.
bool is_of_another_user(int socket);

}  // namespace unisono
