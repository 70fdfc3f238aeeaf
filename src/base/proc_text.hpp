// What stands in a file of /proc. The process that it tells of may end between opening and reading: then there is nothing, where an iterator over the
// stream's buffer would throw.
#pragma once

#include <fstream>
#include <string>

namespace unisono {

inline std::string proc_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  for (char part[4096]; file.read(part, sizeof(part)) || file.gcount() > 0;) text.append(part, static_cast<size_t>(file.gcount()));
  return text;
}

}  // namespace unisono
