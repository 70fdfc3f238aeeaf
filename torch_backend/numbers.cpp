// The two tables between torch's numbers and the library's.
#include "torch_backend/numbers.hpp"

#include "torch_backend/errors.hpp"
#include "torch_backend/versions.hpp"

namespace unisono::torch_backend {
namespace {

struct DTypeRow {
  c10::ScalarType torch;
  DType ours;
};
constexpr DTypeRow dtype_rows[] = {
    {c10::ScalarType::Float, DType::float32},
    {c10::ScalarType::BFloat16, DType::bfloat16},
    {c10::ScalarType::Half, DType::float16},
    {c10::ScalarType::Double, DType::float64},
    {c10::ScalarType::Long, DType::int64},
    {c10::ScalarType::Int, DType::int32},
    {c10::ScalarType::Short, DType::int16},
    {c10::ScalarType::Char, DType::int8},
    {c10::ScalarType::Byte, DType::uint8},
    {c10::ScalarType::UInt16, DType::uint16},
    {c10::ScalarType::UInt32, DType::uint32},
    {c10::ScalarType::UInt64, DType::uint64},
    {c10::ScalarType::Bool, DType::boolean},
    {c10::ScalarType::ComplexFloat, DType::complex64},
    {c10::ScalarType::ComplexDouble, DType::complex128},
    {c10::ScalarType::Float8_e4m3fn, DType::float8_e4m3fn},
    {c10::ScalarType::Float8_e5m2, DType::float8_e5m2},
    {c10::ScalarType::Float8_e4m3fnuz, DType::float8_e4m3fnuz},
    {c10::ScalarType::Float8_e5m2fnuz, DType::float8_e5m2fnuz},
    {c10::ScalarType::Float8_e8m0fnu, DType::float8_e8m0fnu},
};

struct ReduceRow {
  c10d::ReduceOp::RedOpType torch;
  ReduceKind ours;
};
constexpr ReduceRow reduce_rows[] = {
    {c10d::ReduceOp::SUM, ReduceKind::sum},
    {c10d::ReduceOp::AVG, ReduceKind::avg},
    {c10d::ReduceOp::PRODUCT, ReduceKind::product},
    {c10d::ReduceOp::MIN, ReduceKind::min},
    {c10d::ReduceOp::MAX, ReduceKind::max},
    {c10d::ReduceOp::BAND, ReduceKind::band},
    {c10d::ReduceOp::BOR, ReduceKind::bor},
    {c10d::ReduceOp::BXOR, ReduceKind::bxor},
    {c10d::ReduceOp::PREMUL_SUM, ReduceKind::premul_sum},
};

double factor_of(const c10d::ReduceOp& reduce_op) {
  const auto* supplement = dynamic_cast<const PreMulSum*>(reduce_op.supplement_.get());
  if (!supplement) throw ArgumentError(Status(ErrorCode::argument, "PREMUL_SUM comes without its factor; make it with _make_nccl_premul_sum()"));
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item().toDouble() : supplement->double_factor;
}

}  // namespace

DType dtype_of(const at::Tensor& tensor) {
  const c10::ScalarType wanted = tensor.scalar_type();
  for (const DTypeRow& row : dtype_rows)
    if (row.torch == wanted) return row.ours;
  throw ArgumentTypeError(Status(ErrorCode::argument_type, c10::str("a tensor of ", wanted, " has no counterpart in the library; view it as another dtype")));
}

c10::ScalarType scalar_type_of(DType dtype) {
  for (const DTypeRow& row : dtype_rows)
    if (row.ours == dtype) return row.torch;
  return c10::ScalarType::Undefined;
}

unisono::ReduceOp reduce_op_of(const c10d::ReduceOp& reduce_op) {
  for (const ReduceRow& row : reduce_rows) {
    if (row.torch != reduce_op.op_) continue;
    if (row.ours == ReduceKind::premul_sum) return unisono::ReduceOp::premul_sum(factor_of(reduce_op));
    return {row.ours};
  }
  throw ArgumentError(Status(ErrorCode::argument, c10::str("reduction number ", static_cast<int>(reduce_op.op_), " is none that the library knows")));
}

}  // namespace unisono::torch_backend
