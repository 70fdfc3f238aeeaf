// Which instruction sets the vector code is compiled for; included before anything of Highway.
//
// x86: AVX3 (AVX-512), AVX2, SSE4, and Highway's one-lane SCALAR for anything older. SSSE3 and AVX3_DL would add time
// to compile and no speed. Arm: NEON. SVE vectors have no size at compile time and so cannot stand in the array of
// partial results that pass-inl.hpp keeps; machines with SVE run NEON too.
#pragma once

#define UNISONO_NEVER (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
// The same code for wider vectors costs a sanitizer's build minutes and shows it nothing new.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (UNISONO_NEVER | HWY_AVX2 | HWY_AVX3)
#else
#define HWY_DISABLED_TARGETS UNISONO_NEVER
#endif
