// The C header: letters from one rank to another, and batches of them.
#include <fmt/core.h>

#include <cstddef>

#include "dialects/c_parts.hpp"

namespace unisono::c {
namespace {

static_assert(sizeof(unisono_letter) == 32 && offsetof(unisono_letter, tag) == 28, "programs were compiled with this layout");

distributed::LetterOptions options_of(const GroupHandle& handle, int group_peer, int tag, bool receives) {
  distributed::LetterOptions options{.group = handle, .tag = tag, .timeout_s = call_timeout()};
  if (!receives || group_peer != UNISONO_ANY_SOURCE) options.group_peer = group_peer;
  return options;
}

TensorView tensor_of(const void* tensor, int64_t count, unisono_dtype dtype) {
  DType known = DType::uint8;
  throw_if_error(find_dtype(dtype, known));
  return view_of(tensor, count, known);
}

distributed::P2POp operation_of(const unisono_letter& letter, const GroupHandle& handle) {
  using Kind = distributed::P2POp::Kind;
  if (letter.kind != UNISONO_SEND && letter.kind != UNISONO_RECV)
    throw_if_error(wrong(fmt::format("kind is {}; it is UNISONO_SEND or UNISONO_RECV", letter.kind)));
  const bool receives = letter.kind == UNISONO_RECV;
  return {.op = receives ? Kind::irecv : Kind::isend,
          .tensor = tensor_of(letter.tensor, letter.count, letter.dtype),
          .peer = {},
          .options = options_of(handle, letter.group_peer, letter.tag, receives)};
}

std::vector<distributed::P2POp> operations_of(std::span<const unisono_letter> letters, const GroupHandle& handle) {
  std::vector<distributed::P2POp> operations;
  for (const unisono_letter& letter : letters) operations.push_back(operation_of(letter, handle));
  return operations;
}

// Waits for all of them, since their memory is the caller's, and then throws the first error.
void wait_for_all(const std::vector<WorkPtr>& works) {
  std::exception_ptr first;
  for (const WorkPtr& work : works) {
    try {
      work->wait();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace
}  // namespace unisono::c

namespace c = unisono::c;
namespace distributed = unisono::distributed;

unisono_status unisono_send(const void* tensor, int64_t count, unisono_dtype dtype, int group_peer, int tag,
                            const unisono_group* group, unisono_work** work) {
  return c::guarded([&] {
    const unisono::GroupHandle handle = c::handle_of(group);
    c::WorkPlace place(work, handle);
    unisono::WorkPtr posted;
    if (c::group_of(group, "unisono_send")) {
      const unisono::TensorView view = c::tensor_of(tensor, count, dtype);
      const distributed::LetterOptions options = c::options_of(handle, group_peer, tag, false);
      if (work)
        posted = distributed::isend(view, 0, options);
      else
        distributed::send(view, 0, options);
    }
    place.fill(std::move(posted));
  });
}

unisono_status unisono_recv(void* tensor, int64_t count, unisono_dtype dtype, int group_peer, int tag, int* source,
                            const unisono_group* group, unisono_work** work) {
  return c::guarded([&] {
    const unisono::GroupHandle handle = c::handle_of(group);
    c::WorkPlace place(work, handle);
    if (source) *source = -1;
    unisono::WorkPtr posted;
    if (unisono::Group* found = c::group_of(group, "unisono_recv")) {
      const unisono::TensorView view = c::tensor_of(tensor, count, dtype);
      const distributed::LetterOptions options = c::options_of(handle, group_peer, tag, true);
      if (work) {
        posted = distributed::irecv(view, {}, options);
      } else {
        const int sender = distributed::recv(view, {}, options);
        if (source) *source = found->index_of(sender);
      }
    }
    place.fill(std::move(posted));
  });
}

unisono_status unisono_batch_send_recv(const unisono_letter* letters, int letter_count, const unisono_group* group,
                                       unisono_work** works) {
  return c::guarded([&] {
    if (letter_count < 0)
      throw_if_error(c::wrong(fmt::format("letter_count is {}; it is how many letters there are", letter_count)));
    const auto length = static_cast<size_t>(letter_count);
    const unisono::GroupHandle handle = c::handle_of(group);
    std::vector<c::WorkPlace> places;
    places.reserve(length);
    for (size_t index = 0; index < length; ++index) places.emplace_back(works ? works + index : nullptr, handle);
    if (length > 0) c::need("letters", letters);
    std::vector<unisono::WorkPtr> posted(length);  // outside the group there is nothing to wait for
    const bool is_member = c::group_of(group, "unisono_batch_send_recv") != nullptr;
    if (is_member) posted = distributed::batch_isend_irecv(c::operations_of({letters, length}, handle));
    if (is_member && !works) c::wait_for_all(posted);
    for (size_t index = 0; index < length; ++index) places[index].fill(std::move(posted[index]));
  });
}
