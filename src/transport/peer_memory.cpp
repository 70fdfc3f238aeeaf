// process_vm_readv in pieces; see peer_memory.hpp.
#include "transport/peer_memory.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace unisono {
namespace {

constexpr int64_t most_bytes_at_once = 1 << 30;  // one call moves at most 2 GiB less a page

}  // namespace

const std::byte* arena_memory_of(const Neighbour& neighbour, uint64_t address, int64_t bytes) {
  const uint64_t begin = neighbour.head().own_address;
  const auto length = static_cast<uint64_t>(neighbour.mapping->bytes());
  if (address < begin || static_cast<uint64_t>(bytes) > length || address - begin > length - static_cast<uint64_t>(bytes)) return nullptr;
  return neighbour.mapping->data() + (address - begin);
}

namespace {

ReadOutcome read_private_memory(int pid, std::byte* target, uint64_t address, int64_t bytes) {
  while (bytes > 0) {
    auto part = static_cast<size_t>(std::min(bytes, most_bytes_at_once));
    iovec local{target, part}, remote{reinterpret_cast<void*>(address), part};
    const ssize_t moved = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (moved < 0 && errno == ESRCH) return ReadOutcome::gone;
    if (moved < 0 && (errno == EPERM || errno == EACCES || errno == ENOSYS)) return ReadOutcome::refused;
    if (moved <= 0) return ReadOutcome::failed;
    target += moved;
    address += static_cast<uint64_t>(moved);
    bytes -= moved;
  }
  return ReadOutcome::done;
}

}  // namespace

ReadOutcome read_memory_of(const Neighbour& neighbour, void* target, uint64_t address, int64_t bytes) {
  auto* to = static_cast<std::byte*>(target);
  const std::byte* mapped = arena_memory_of(neighbour, address, bytes);
  if (!mapped) return read_private_memory(neighbour.pid, to, address, bytes);
  std::memcpy(to, mapped, static_cast<size_t>(bytes));
  return ReadOutcome::done;
}

bool can_read_memory_of(const Neighbour& neighbour) {
  uint64_t probe = 0;
  auto* target = reinterpret_cast<std::byte*>(&probe);
  return neighbour.pid > 0 &&
         read_private_memory(neighbour.pid, target, neighbour.head().private_address, sizeof(probe)) == ReadOutcome::done &&
         probe == neighbour.head().probe;
}

}  // namespace unisono
