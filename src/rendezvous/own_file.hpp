// Files by which processes of one user meet: made with mode 0600, and refused where they belong to somebody else.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "unisono/status.hpp"

namespace unisono {

enum class IfAbsent { make, fail };

// Opens for reading and writing. AuthError: another user's; ArgumentError: no plain file; StoreLostError: it cannot be opened.
Result<Descriptor> open_own_file(const std::string& path, IfAbsent if_absent);

// StoreLostError with the path and what the system says of it in errno.
Status file_lost(const std::string& path, const char* what_failed);

}  // namespace unisono
