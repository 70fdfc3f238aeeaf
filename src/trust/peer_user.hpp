// Which user of this machine is at the other end of a connection within it: what the kernel knows of the socket there.
#pragma once

#include <sys/types.h>

#include <optional>

namespace unisono {

// Of a TCP connection on the loopback interface, once it was accepted. None where the kernel does not say, or the other end is elsewhere or closed already.
std::optional<uid_t> user_at_other_end(int socket);

// Whether that is this process's user, or root.
bool is_of_this_user(int socket);

}  // namespace unisono
