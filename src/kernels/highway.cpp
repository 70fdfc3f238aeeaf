// The three functions of Highway's library that the kernels call, so that it is inside ours and no other package's copy is met:
// Debian has it as a shared library only, without the source of this part.
#include "kernels/targets.hpp"

#include "hwy/base.h"
#include "hwy/targets.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#if HWY_ARCH_X86
#include <cpuid.h>
#endif

namespace unisono {
namespace {

// Each instruction set that targets.hpp leaves is asked for by all that Highway lets the compiler use in it. The builtin also
// asks whether the operating system keeps the wide registers.
#if HWY_ARCH_X86
bool converts_float16() {  // not a name that every compiler's builtin knows
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}

int64_t detected_targets() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("aes")) return 0;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2") ||
      !__builtin_cpu_supports("fma") || !converts_float16())
    return HWY_SSE4;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512bw"))
    return HWY_SSE4 | HWY_AVX2;
  return HWY_SSE4 | HWY_AVX2 | HWY_AVX3;
}
#else
int64_t detected_targets() { return 0; }  // beyond what the compiler may take for granted: NEON, on Arm
#endif

}  // namespace
}  // namespace unisono

namespace hwy {

int64_t SupportedTargets() { return unisono::detected_targets() | HWY_STATIC_TARGET | HWY_SCALAR; }

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

// What its assertions call; they are compiled in under sanitizers.
void Abort(const char* file, int line, const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::fprintf(stderr, "%s:%d: ", file, line);
  std::vfprintf(stderr, format, values);
  va_end(values);
  std::abort();
}

}  // namespace hwy
