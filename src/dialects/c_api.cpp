// The C header: errors, ops, shared memory, joining, deadlines and works. Next: c_groups.cpp, c_collectives.cpp,
// c_letters.cpp, c_prepared.cpp.
#include <fmt/core.h>

#include <map>
#include <mutex>

#include "base/check.hpp"
#include "dialects/c_parts.hpp"
#include "unisono/reduction.hpp"
#include "unisono/shared_tensor.hpp"

namespace unisono::c {
namespace {

// The numbers of the header are for ever; those of the C++ enums could be changed by mistake.
template <typename Enum>
constexpr bool same(Enum value, int number) {
  return static_cast<int>(value) == number;
}
static_assert(same(ErrorCode::ok, UNISONO_OK) && same(ErrorCode::argument, UNISONO_ARGUMENT_ERROR) &&
              same(ErrorCode::argument_type, UNISONO_ARGUMENT_TYPE_ERROR) &&
              same(ErrorCode::peer_argument, UNISONO_PEER_ARGUMENT_ERROR) && same(ErrorCode::mismatch, UNISONO_MISMATCH_ERROR) &&
              same(ErrorCode::peer_lost, UNISONO_PEER_LOST_ERROR) && same(ErrorCode::timeout, UNISONO_TIMEOUT_ERROR) &&
              same(ErrorCode::revoked, UNISONO_REVOKED_ERROR) && same(ErrorCode::init, UNISONO_INIT_ERROR) &&
              same(ErrorCode::auth, UNISONO_AUTH_ERROR) && same(ErrorCode::version, UNISONO_VERSION_ERROR) &&
              same(ErrorCode::resource, UNISONO_RESOURCE_ERROR) && same(ErrorCode::memory, UNISONO_MEMORY_ERROR) &&
              same(ErrorCode::protocol, UNISONO_PROTOCOL_ERROR) && same(ErrorCode::corruption, UNISONO_CORRUPTION_ERROR) &&
              same(ErrorCode::state, UNISONO_STATE_ERROR) && same(ErrorCode::store_lost, UNISONO_STORE_LOST_ERROR) &&
              same(ErrorCode::internal, UNISONO_INTERNAL_ERROR));
static_assert(same(DType::boolean, UNISONO_BOOL) && same(DType::int8, UNISONO_INT8) && same(DType::int16, UNISONO_INT16) &&
              same(DType::int32, UNISONO_INT32) && same(DType::int64, UNISONO_INT64) && same(DType::uint8, UNISONO_UINT8) &&
              same(DType::uint16, UNISONO_UINT16) && same(DType::uint32, UNISONO_UINT32) && same(DType::uint64, UNISONO_UINT64) &&
              same(DType::float16, UNISONO_FLOAT16) && same(DType::bfloat16, UNISONO_BFLOAT16) &&
              same(DType::float32, UNISONO_FLOAT32) && same(DType::float64, UNISONO_FLOAT64) &&
              same(DType::complex64, UNISONO_COMPLEX64) && same(DType::complex128, UNISONO_COMPLEX128) &&
              same(DType::float8_e4m3fn, UNISONO_FLOAT8_E4M3FN) && same(DType::float8_e5m2, UNISONO_FLOAT8_E5M2) &&
              same(DType::float8_e4m3fnuz, UNISONO_FLOAT8_E4M3FNUZ) && same(DType::float8_e5m2fnuz, UNISONO_FLOAT8_E5M2FNUZ) &&
              same(DType::float8_e8m0fnu, UNISONO_FLOAT8_E8M0FNU));
static_assert(same(ReduceKind::sum, UNISONO_SUM) && same(ReduceKind::avg, UNISONO_AVG) &&
              same(ReduceKind::product, UNISONO_PRODUCT) && same(ReduceKind::min, UNISONO_MIN) &&
              same(ReduceKind::max, UNISONO_MAX) && same(ReduceKind::band, UNISONO_BAND) && same(ReduceKind::bor, UNISONO_BOR) &&
              same(ReduceKind::bxor, UNISONO_BXOR) && same(ReduceKind::premul_sum, 8) && same(ReduceKind::user, 9));

constexpr int version_number = 10000 * UNISONO_VERSION_MAJOR + 100 * UNISONO_VERSION_MINOR + UNISONO_VERSION_PATCH;

constexpr int number_of(std::string_view version) {  // "0.1.0"
  int parts[3] = {}, part = 0;
  for (char letter : version)
    if (letter == '.')
      ++part;
    else
      parts[part] = 10 * parts[part] + (letter - '0');
  return 10000 * parts[0] + 100 * parts[1] + parts[2];
}
static_assert(number_of(UNISONO_VERSION) == version_number, "the version in unisono.h is not the project's");

// `shown` is what the caller holds on to; where there is no memory for the sentence it is one that needs none.
struct LastError {
  std::string text;
  const char* shown = "";
};
thread_local LastError last_error;

// Numbers are not used again, so that an op that was freed is an error and not another op.
struct MadeOps {
  std::mutex mutex;
  std::map<unisono_op, ReduceOp> ops;
  unisono_op next = 256;
};
MadeOps& made_ops() {
  static MadeOps* the_ops = new MadeOps;  // outlives every static object that might still call us at exit
  return *the_ops;
}

// Shared memory by where it begins: C has a pointer only.
struct SharedMemory {
  std::mutex mutex;
  std::map<void*, Tensor> tensors;
};
SharedMemory& shared_memory() {
  static SharedMemory* the_memory = new SharedMemory;  // likewise
  return *the_memory;
}

thread_local double call_timeout_s = 0;  // 0: that of the group

unisono_op keep_op(ReduceOp op) {
  MadeOps& made = made_ops();
  std::lock_guard lock(made.mutex);
  if (made.next == INT32_MAX) throw_if_error(Status(ErrorCode::resource, "so many ops were made that their numbers are used up"));
  made.ops.emplace(made.next, std::move(op));
  return made.next++;
}

std::optional<int> unless_minus_one(int number) { return number == -1 ? std::nullopt : std::optional(number); }

}  // namespace

unisono_status remember(const Status& status) noexcept {
  try {
    last_error.text = status.text();
    last_error.shown = last_error.text.c_str();
  } catch (...) {
    last_error.shown = error_name(status.code()).data();
  }
  return static_cast<unisono_status>(status.code());
}

unisono_status remember_thrown() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    return remember(error.status());
  } catch (const std::bad_alloc&) {
    last_error.shown = "MemoryError: memory ran out";
    return UNISONO_MEMORY_ERROR;
  } catch (const std::exception& error) {
    try {
      return remember(Status(ErrorCode::internal, error.what()));
    } catch (...) {
    }
  } catch (...) {
  }
  last_error.shown = "InternalError: something unknown was thrown";
  return UNISONO_INTERNAL_ERROR;
}

Status find_dtype(unisono_dtype number, DType& dtype) {
  if (number < 0 || number >= static_cast<int>(all_dtypes().size()))
    return wrong(fmt::format("dtype is number {}, which there is not; the numbers are in unisono.h", number));
  dtype = static_cast<DType>(number);
  return Status::success();
}

Status find_op(unisono_op number, ReduceOp& op) {
  if (number >= UNISONO_SUM && number <= UNISONO_BXOR) {
    op = {static_cast<ReduceKind>(number), 1.0};
    return Status::success();
  }
  MadeOps& made = made_ops();
  std::lock_guard lock(made.mutex);
  auto found = made.ops.find(number);
  if (found == made.ops.end())
    return wrong(fmt::format("op is number {}, which there is not: neither one of unisono.h, nor one that was made and not freed",
                             number));
  op = found->second;
  return Status::success();
}

Status check_given(const char* argument, const void* pointer) {
  return pointer ? Status::success() : wrong(fmt::format("{} is a null pointer", argument));
}

void need(const char* argument, const void* pointer) { throw_if_error(check_given(argument, pointer)); }

std::optional<double> timeout_of(double timeout_s) {
  if (!(timeout_s >= 0))
    throw_if_error(wrong(fmt::format("timeout_s is {}; it must be more than 0, or 0 for the default", timeout_s)));
  return timeout_s > 0 ? std::optional(timeout_s) : std::nullopt;
}

std::optional<double> call_timeout() { return call_timeout_s > 0 ? std::optional(call_timeout_s) : std::nullopt; }

std::optional<double> call_timeout_or(double timeout_s) {
  const std::optional<double> own = timeout_of(timeout_s);
  return own ? own : call_timeout();
}

WorkPlace::WorkPlace(unisono_work** place, const GroupHandle& group) : place_(place) {
  if (!place_) return;
  *place_ = nullptr;
  handle_ = std::make_unique<unisono_work>(unisono_work{group, nullptr});
}

void WorkPlace::fill(WorkPtr work) {
  if (!place_) return;
  handle_->work = std::move(work);
  *place_ = handle_.release();
}

}  // namespace unisono::c

namespace c = unisono::c;
namespace distributed = unisono::distributed;
using unisono::ErrorCode;

int unisono_version(void) { return c::version_number; }

const char* unisono_error_name(unisono_status status) {
  const bool is_known = status >= UNISONO_OK && status <= UNISONO_INTERNAL_ERROR;
  return is_known ? unisono::error_name(static_cast<ErrorCode>(status)).data() : "no such error";
}

const char* unisono_last_error(void) { return c::last_error.shown; }

int64_t unisono_dtype_bytes(unisono_dtype number) {
  const bool is_known = number >= 0 && number < static_cast<int>(unisono::all_dtypes().size());
  return is_known ? unisono::element_bytes(static_cast<unisono::DType>(number)) : 0;
}

unisono_status unisono_op_premul_sum(double factor, unisono_op* op) {
  return c::guarded([&] {
    c::need("op", op);
    *op = c::keep_op(unisono::ReduceOp::premul_sum(factor));
  });
}

unisono_status unisono_op_create(const char* name, unisono_combine combine, void* context, int commutative, unisono_op* op) {
  return c::guarded([&] {
    c::need("name", name);
    c::need("op", op);
    if (!combine) throw_if_error(c::wrong("combine is a null pointer"));
    auto function = [combine, context](const void* lower, void* upper, int64_t count, unisono::DType dtype) {
      combine(lower, upper, count, static_cast<unisono_dtype>(dtype), context);
    };
    const auto kind = commutative ? unisono::Commutative::yes : unisono::Commutative::no;
    *op = c::keep_op(unisono::make_reduction({.name = name, .commutative = kind, .combine = function}));
  });
}

unisono_status unisono_op_free(unisono_op op) {
  return c::guarded([&] {
    c::MadeOps& made = c::made_ops();
    std::lock_guard lock(made.mutex);
    if (made.ops.erase(op) == 0)
      throw_if_error(c::wrong(fmt::format("op is number {}, which was not made, or freed already", op)));
  });
}

unisono_status unisono_init(void) { return unisono_init_with(-1, -1, nullptr, 0); }

unisono_status unisono_init_with(int rank, int size, const char* job, double timeout_s) {
  return c::guarded([&] {
    distributed::init_process_group({.rank = c::unless_minus_one(rank),
                                     .world_size = c::unless_minus_one(size),
                                     .job = job ? job : "",
                                     .timeout_s = c::timeout_of(timeout_s)});
  });
}

unisono_status unisono_init_at(const char* init_method, int rank, int size, double timeout_s) {
  return c::guarded([&] {
    distributed::init_process_group({.rank = c::unless_minus_one(rank),
                                     .world_size = c::unless_minus_one(size),
                                     .timeout_s = c::timeout_of(timeout_s),
                                     .init_method = init_method ? init_method : ""});
  });
}

unisono_status unisono_finalize(void) {
  return c::guarded([] { distributed::destroy_process_group(); });
}

int unisono_is_initialized(void) {
  int is_initialized = 0;
  c::guarded([&] { is_initialized = distributed::is_initialized() ? 1 : 0; });
  return is_initialized;
}

unisono_status unisono_set_call_timeout(double timeout_s, double* before) {
  return c::guarded([&] {
    c::timeout_of(timeout_s);
    if (before) *before = c::call_timeout_s;
    c::call_timeout_s = timeout_s;
  });
}

unisono_status unisono_work_wait(unisono_work* work, double timeout_s) {
  return c::guarded([&] {
    c::need("work", work);
    const std::optional<double> timeout = c::timeout_of(timeout_s);
    if (work->work) work->work->wait(timeout);
  });
}

unisono_status unisono_work_test(unisono_work* work, int* is_over) {
  return c::guarded([&] {
    c::need("work", work);
    c::need("is_over", is_over);
    *is_over = !work->work || work->work->is_completed() ? 1 : 0;
    if (*is_over && work->work) throw_if_error(work->work->exception());
  });
}

unisono_status unisono_work_source(const unisono_work* work, int* source) {
  return c::guarded([&] {
    c::need("work", work);
    c::need("source", source);
    *source = work->work ? work->work->source_rank() : -1;
    if (*source >= 0 && work->group.group()) *source = work->group.group()->index_of(*source);
  });
}

void unisono_work_free(unisono_work* work) { const std::unique_ptr<unisono_work> owned(work); }

unisono_status unisono_shared_alloc(int64_t count, unisono_dtype dtype, void** memory) {
  return c::guarded([&] {
    c::need("memory", memory);
    *memory = nullptr;
    unisono::DType known = unisono::DType::uint8;
    throw_if_error(c::find_dtype(dtype, known));
    unisono::current_world("unisono_shared_alloc");
    unisono::Tensor tensor = unisono::alloc_shared({count}, known);
    c::SharedMemory& shared = c::shared_memory();
    std::lock_guard lock(shared.mutex);
    shared.tensors[tensor.data()] = tensor;
    *memory = tensor.data();
  });
}

unisono_status unisono_shared_free(void* memory) {
  return c::guarded([&] {
    c::SharedMemory& shared = c::shared_memory();
    std::lock_guard lock(shared.mutex);
    if (memory && shared.tensors.erase(memory) == 0)
      throw_if_error(c::wrong("memory is none that unisono_shared_alloc() gave, or was given back already"));
  });
}
