// What each dtype is called at every edge: one table.
#pragma once

#include <cstdint>
#include <string_view>

#include "unisono/types.hpp"

namespace unisono::python {

struct DTypeRow {
  DType dtype;
  std::string_view name;    // in NumPy, torch and MindSpore alike
  std::string_view format;  // of the buffer protocol; empty: a buffer cannot say it
  uint8_t dlpack_code, dlpack_bits;
};

// DLPack: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, and from 7 on the kinds of float8.
inline constexpr DTypeRow dtype_rows[] = {
    {DType::boolean, "bool", "?", 6, 8},
    {DType::int8, "int8", "b", 0, 8},
    {DType::int16, "int16", "h", 0, 16},
    {DType::int32, "int32", "i", 0, 32},
    {DType::int64, "int64", "q", 0, 64},
    {DType::uint8, "uint8", "B", 1, 8},
    {DType::uint16, "uint16", "H", 1, 16},
    {DType::uint32, "uint32", "I", 1, 32},
    {DType::uint64, "uint64", "Q", 1, 64},
    {DType::float16, "float16", "e", 2, 16},
    {DType::bfloat16, "bfloat16", "", 4, 16},
    {DType::float32, "float32", "f", 2, 32},
    {DType::float64, "float64", "d", 2, 64},
    {DType::complex64, "complex64", "Zf", 5, 64},
    {DType::complex128, "complex128", "Zd", 5, 128},
    {DType::float8_e4m3fn, "float8_e4m3fn", "", 10, 8},
    {DType::float8_e5m2, "float8_e5m2", "", 12, 8},
    {DType::float8_e4m3fnuz, "float8_e4m3fnuz", "", 11, 8},
    {DType::float8_e5m2fnuz, "float8_e5m2fnuz", "", 13, 8},
    {DType::float8_e8m0fnu, "float8_e8m0fnu", "", 14, 8},
};

// Booleans and integers.
constexpr bool is_whole(DType dtype) {
  for (const DTypeRow& row : dtype_rows)
    if (row.dtype == dtype) return row.dlpack_code == 0 || row.dlpack_code == 1 || row.dlpack_code == 6;
  return false;
}

}  // namespace unisono::python
