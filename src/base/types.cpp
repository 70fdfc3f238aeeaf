// The tables behind include/unisono/types.hpp: one row a dtype, one a reduction, one a collective.
#include "unisono/types.hpp"

#include <array>
#include <iterator>

namespace unisono {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
};

constexpr DTypeRow dtype_rows[] = {
    {DType::boolean, "bool"},
    {DType::int8, "int8"},
    {DType::int16, "int16"},
    {DType::int32, "int32"},
    {DType::int64, "int64"},
    {DType::uint8, "uint8"},
    {DType::uint16, "uint16"},
    {DType::uint32, "uint32"},
    {DType::uint64, "uint64"},
    {DType::float16, "float16"},
    {DType::bfloat16, "bfloat16"},
    {DType::float32, "float32"},
    {DType::float64, "float64"},
    {DType::complex64, "complex64"},
    {DType::complex128, "complex128"},
    {DType::float8_e4m3fn, "float8_e4m3fn"},
    {DType::float8_e5m2, "float8_e5m2"},
    {DType::float8_e4m3fnuz, "float8_e4m3fnuz"},
    {DType::float8_e5m2fnuz, "float8_e5m2fnuz"},
    {DType::float8_e8m0fnu, "float8_e8m0fnu"},
};

struct ReduceRow {
  ReduceKind kind;
  std::string_view name;
};

constexpr ReduceRow reduce_rows[] = {
    {ReduceKind::sum, "sum"},   {ReduceKind::avg, "avg"},   {ReduceKind::product, "product"},
    {ReduceKind::min, "min"},   {ReduceKind::max, "max"},   {ReduceKind::band, "band"},
    {ReduceKind::bor, "bor"},   {ReduceKind::bxor, "bxor"}, {ReduceKind::premul_sum, "premul_sum"},
    {ReduceKind::user, "user"},
};

struct CollectiveRow {
  Collective collective;
  std::string_view name;
};

constexpr CollectiveRow collective_rows[] = {
    {Collective::all_reduce, "all_reduce"}, {Collective::all_gather, "all_gather"},
    {Collective::reduce_scatter, "reduce_scatter"}, {Collective::reduce, "reduce"},
    {Collective::scatter, "scatter"}, {Collective::gather, "gather"},
    {Collective::broadcast, "broadcast"}, {Collective::all_to_all, "all_to_all"},
    {Collective::scan, "scan"}, {Collective::exscan, "exscan"},
    {Collective::barrier, "barrier"},
};

// The first column of a table, so that loops over all dtypes cannot forget one.
template <typename Row, size_t rows, typename Key>
constexpr auto first_column(const Row (&table)[rows], Key Row::*key) {
  std::array<Key, rows> column{};
  for (size_t index = 0; index < rows; ++index) column[index] = table[index].*key;
  return column;
}

constexpr auto dtypes = first_column(dtype_rows, &DTypeRow::dtype);
constexpr auto reduce_kinds = first_column(reduce_rows, &ReduceRow::kind);
constexpr auto collectives = first_column(collective_rows, &CollectiveRow::collective);

template <typename Row, size_t rows>
constexpr const Row* row_named(const Row (&table)[rows], std::string_view name) {
  for (const Row& row : table)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace

std::string_view name_of(DType dtype) { return dtype_rows[static_cast<size_t>(dtype)].name; }
std::string_view name_of(ReduceKind kind) { return reduce_rows[static_cast<size_t>(kind)].name; }
std::string_view name_of(Collective collective) { return collective_rows[static_cast<size_t>(collective)].name; }

std::optional<DType> dtype_named(std::string_view name) {
  const DTypeRow* row = row_named(dtype_rows, name);
  return row ? std::optional(row->dtype) : std::nullopt;
}

std::optional<ReduceKind> reduce_kind_named(std::string_view name) {
  if (name == "prod") name = "product";
  const ReduceRow* row = row_named(reduce_rows, name);
  return row ? std::optional(row->kind) : std::nullopt;
}

std::optional<Collective> collective_named(std::string_view name) {
  const CollectiveRow* row = row_named(collective_rows, name);
  return row ? std::optional(row->collective) : std::nullopt;
}

std::span<const DType> all_dtypes() { return dtypes; }
std::span<const ReduceKind> all_reduce_kinds() { return reduce_kinds; }
std::span<const Collective> all_collectives() { return collectives; }

}  // namespace unisono
